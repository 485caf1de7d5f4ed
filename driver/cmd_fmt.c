/* mpc fmt: canonical layout of model files. A file is replaced as a whole, through symbolic links and with its
 * permissions, and only when its layout changes; one with syntax errors stays as it is, and the others are formatted
 * all the same. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/cli.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/file_sync.h"

typedef struct source {
    const char *path; /* as it was named; "-": standard input */
    char *text;
    size_t length;
} source;

static bool is_stdin(const source *s) { return strcmp(s->path, "-") == 0; }

static bool read_source(mpc_cli *cli, source *s) {
    return mpc_data_read_file(is_stdin(s) ? "/dev/stdin" : s->path, &cli->sink, &s->text, &s->length) == MPC_OK;
}

static bool format(mpc_cli *cli, const source *s, mpc_str *out) {
    uint32_t file = mpc_sources_add(cli->sources, is_stdin(s) ? "(standard input)" : s->path, s->text, s->length);
    mpc_context *ctx = file ? mpc_context_create(&cli->sink, cli->sources) : NULL;
    if (!ctx) mpc_error(&cli->sink, "E901", "not enough memory for %s", s->path);
    bool ok = ctx && mpc_format_file(ctx, file, cli->options->label, out);
    mpc_context_destroy(ctx);
    return ok;
}

/* What was read may have been unpacked; nobody asked for the file to become a plain one. */
static bool is_plain(mpc_cli *cli, const source *s, struct stat *info) {
    if (stat(s->path, info) == 0 && S_ISREG(info->st_mode) && (size_t)info->st_size == s->length) return true;
    mpc_error(&cli->sink, "E420", "%s is packed or no ordinary file: --stdout shows its layout", s->path);
    return false;
}

/* A file that may not be written could still be replaced, where its folder may be. */
static bool may_write(mpc_cli *cli, const source *s) {
    if (access(s->path, W_OK) == 0) return true;
    mpc_error(&cli->sink, "E420", "can't write %s: %s", s->path, strerror(errno));
    return false;
}

static bool replace(mpc_cli *cli, const source *s, const mpc_str *text) {
    struct stat info;
    if (!is_plain(cli, s, &info) || !may_write(cli, s)) return false;
    char *path = realpath(s->path, NULL);
    if (!path) return mpc_error(&cli->sink, "E420", "can't find out where %s lies", s->path) == MPC_OK;
    mpc_file_writer w;
    mpc_status status = mpc_file_create(&w, path, &cli->sink);
    if (status == MPC_OK) {
        if (fchmod(w.fd, info.st_mode & 07777) != 0)
            status = mpc_error(&cli->sink, "E420", "can't give %s the permissions of the old file", s->path);
        if (status == MPC_OK) status = mpc_file_write(&w, mpc_str_cstr(text), text->length);
        status = mpc_file_commit(&w, status);
    }
    free(path);
    return status == MPC_OK;
}

/* false: it can't be formatted, or --check and it isn't. */
static bool format_one(mpc_cli *cli, source *s) {
    const mpc_options *o = cli->options;
    mpc_str out = {0};
    bool ok = read_source(cli, s) && format(cli, s, &out);
    if (ok) {
        bool same = out.length == s->length && memcmp(mpc_str_cstr(&out), s->text, s->length) == 0;
        if (o->check) {
            if (!same) printf("%s\n", s->path);
            ok = same;
        } else if (o->to_stdout || is_stdin(s)) fwrite(mpc_str_cstr(&out), 1, out.length, stdout);
        else ok = same || replace(cli, s, &out);
    }
    mpc_str_free(&out);
    mpc_free(s->text);
    return ok;
}

int mpc_cmd_fmt(mpc_cli *cli) {
    bool ok = true;
    for (size_t i = 0; i < cli->options->files.count; i++) {
        source s = {.path = cli->options->files.data[i]};
        ok = format_one(cli, &s) && ok;
    }
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
