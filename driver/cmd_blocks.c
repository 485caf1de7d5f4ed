/* mpc blocks: what std/ offers, a line a block; with a name, the source of that file or block. */
#include <jansson.h>
#include <string.h>

#include "driver/cli.h"
#include "frontend/frontend.h"

typedef struct blocks_job {
    const mpc_cli *cli;
    const mpc_std_file *file;
    const char *wanted; /* NULL: all of them */
    uint32_t shown;
    char near[64]; /* the name that is most like the wanted one */
    unsigned distance;
} blocks_job;

static void print_json(const blocks_job *job, const mpc_block_info *b) {
    json_t *line = json_pack("{s:s, s:s, s:s, s:s}", "file", job->file->name, "block", b->name, "signature",
                             b->signature, "document", b->document);
    if (job->wanted)
        json_object_set_new(line, "source",
                            json_stringn(*job->file->text + b->span.begin, b->span.end - b->span.begin));
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

static void print_source(const blocks_job *job, const mpc_block_info *b) {
    uint32_t line, column;
    mpc_sources_locate(job->cli->sources, b->span.file, b->span.begin, &line, &column);
    printf("%s# %s:%u\n%.*s\n", job->shown ? "\n" : "", job->file->name, line, (int)(b->span.end - b->span.begin),
           *job->file->text + b->span.begin);
}

static void show_block(void *user, const mpc_block_info *b) {
    blocks_job *job = user;
    if (job->wanted && strcmp(job->wanted, b->name) != 0) {
        unsigned distance = mpc_edit_distance(job->wanted, b->name, 3);
        if (distance < job->distance) {
            job->distance = distance;
            snprintf(job->near, sizeof job->near, "%s", b->name);
        }
        return;
    }
    if (job->cli->options->json) print_json(job, b);
    else if (job->wanted) print_source(job, b);
    else printf("  %s\n      %s\n", b->signature, b->document);
    job->shown++;
}

/* Of a listing: the file's name and its first comment. */
static void print_head(const mpc_std_file *file, size_t index) {
    const char *text = *file->text, *end = strchr(text, '\n');
    printf("%s%s", index ? "\n" : "", file->name);
    if (text[0] == '#' && end) printf("  %.*s", (int)(end - text - 2), text + 2);
    putchar('\n');
}

static bool show_blocks(blocks_job *job, mpc_context *ctx) {
    const mpc_block_visitor visitor = {.visit = show_block, .user = job};
    for (size_t i = 0; (job->file = mpc_std_at(i)) != NULL; i++) {
        if (!job->wanted && !job->cli->options->json) print_head(job->file, i);
        if (!mpc_std_blocks(ctx, job->file, &visitor)) return false;
    }
    return true;
}

static int refuse_unknown(const mpc_cli *cli, const blocks_job *job) {
    mpc_str help = {0};
    if (job->near[0]) mpc_str_printf(&help, "did you mean `%s`?", job->near);
    else mpc_str_append(&help, "`mpc blocks` lists what there is");
    mpc_error_help(&cli->sink, "E377", NULL, mpc_str_cstr(&help), "std/ has no file and no block `%s`", job->wanted);
    mpc_str_free(&help);
    return MPC_EXIT_FAILED;
}

int mpc_cmd_blocks(mpc_cli *cli) {
    const char *wanted = cli->options->file;
    const mpc_std_file *whole = wanted ? mpc_std_find(wanted) : NULL;
    if (whole && !cli->options->json) {
        fputs(*whole->text, stdout);
        return MPC_EXIT_DONE;
    }
    mpc_context *ctx = mpc_cli_context(cli);
    if (!ctx) return MPC_EXIT_FAILED;
    blocks_job job = {.cli = cli, .wanted = whole ? NULL : wanted, .distance = 3};
    const mpc_block_visitor visitor = {.visit = show_block, .user = &job};
    job.file = whole;
    bool ok = whole ? mpc_std_blocks(ctx, whole, &visitor) : show_blocks(&job, ctx);
    mpc_context_destroy(ctx);
    if (ok && !job.shown) return refuse_unknown(cli, &job);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
