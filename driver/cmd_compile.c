/* mpc compile: the kernels of the training and evaluation steps as text or machine code, without running anything:
 * neither a GPU nor a driver is needed. CUDA texts are the same for every GPU; what differs by architecture is what
 * NVRTC makes of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dl.h"
#include "codegen/codegen.h"
#include "driver/compile_report.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/file_sync.h"

enum { MOST_ARCHS = 16 };
typedef enum emit_form { EMIT_C, EMIT_CU, EMIT_PTX, EMIT_CUBIN, EMIT_COUNT } emit_form;
static const char *const FORMS[EMIT_COUNT] = {"c", "cu", "ptx", "cubin"};

typedef struct compile_job {
    mpc_session *session;
    emit_form form;
    int archs[MOST_ARCHS]; /* 80: sm_80 */
    uint32_t arch_count;
    const char *folder; /* NULL: the training step to stdout */
} compile_job;

typedef struct program_text {
    const char *name;
    mpc_phase phase;
} program_text;

static bool put(const compile_job *job, const char *name, const char *ending, const mpc_str *text) {
    if (!job->folder) return fwrite(mpc_str_cstr(text), 1, text->length, stdout) == text->length && !text->failed;
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s%s", job->folder, name, ending);
    bool ok = !path.failed && !text->failed &&
              mpc_file_replace(path.data, mpc_str_cstr(text), text->length, job->session->sink) == MPC_OK;
    mpc_str_free(&path);
    return ok;
}

/* Prelude and kernels as one file: for nvcc the device header stands where NVRTC would find it by name, and a namespace
 * keeps its integer types apart from those of the toolkit. */
static void write_cu(const mpc_program *p, mpc_str *out) {
    static const char include[] = "#include \"mpc_device.h\"\n";
    mpc_str all = {0};
    mpc_program_source(p, &all);
    const char *text = mpc_str_cstr(&all), *at = strstr(text, include);
    mpc_str_append(out,
                   "// nvcc -std=c++17 --fmad=false -arch=sm_80 -cubin FILE\n"
                   "#undef INT32_MIN\n#undef INT32_MAX\n#undef INT64_MIN\n#undef INT64_MAX\nnamespace mpc_kernels {\n");
    if (at) {
        mpc_str_append_n(out, text, (size_t)(at - text));
        mpc_str_append(out, p->device_header ? p->device_header : "");
        text = at + strlen(include);
    }
    mpc_str_append(out, text);
    mpc_str_append(out, "\n} // namespace mpc_kernels\n");
    out->failed = out->failed || all.failed;
    mpc_str_free(&all);
}

static bool emit_text(const compile_job *job, const char *name, const mpc_program *program) {
    mpc_str source = {0}, listing = {0};
    if (job->form == EMIT_C) mpc_program_source(program, &source);
    else write_cu(program, &source);
    mpc_program_print(program, &listing);
    bool ok = put(job, name, job->form == EMIT_C ? ".c" : ".cu", &source);
    if (job->folder) ok = put(job, name, ".txt", &listing) && ok;
    mpc_str_free(&source);
    mpc_str_free(&listing);
    return ok;
}

/* One program for one architecture: the file where the form has one, and the report. */
static bool emit_arch(const compile_job *job, const mpc_compiled *c) {
    mpc_str out = {0};
    char ending[32];
    bool ok = true;
    if (job->form == EMIT_PTX || job->form == EMIT_CUBIN) {
        mpc_nvrtc_output kind = job->form == EMIT_PTX ? MPC_NVRTC_PTX : MPC_NVRTC_CUBIN;
        snprintf(ending, sizeof ending, ".sm_%d.%s", c->capability, FORMS[job->form]);
        ok = mpc_nvrtc_assemble(c->program, c->capability, kind, &out, job->session->sink) == MPC_OK &&
             put(job, c->name, ending, &out);
    }
    if (ok && job->folder) ok = mpc_compile_report(job->session, c);
    mpc_str_free(&out);
    return ok;
}

static bool emit_program(const compile_job *job, const char *name, const mpc_program *program) {
    bool ok = job->form > EMIT_CU || emit_text(job, name, program);
    if (job->form == EMIT_C) return ok;
    if (ok && job->arch_count == 0) return emit_arch(job, &(mpc_compiled){.name = name, .program = program});
    for (uint32_t i = 0; ok && i < job->arch_count; i++)
        ok = emit_arch(job, &(mpc_compiled){.name = name, .program = program, .capability = job->archs[i]});
    return ok;
}

static bool emit(const compile_job *job, const program_text *t) {
    mpc_session *s = job->session;
    mpc_graph *g = mpc_session_graph(s, t->phase, s->train->batch, MPC_STAGE_FINAL);
    mpc_program *program = g ? mpc_device_program(s->device, g) : NULL;
    bool ok = program && emit_program(job, t->name, program);
    mpc_program_destroy(program);
    mpc_graph_destroy(g);
    return ok;
}

/* The library that is here makes code for each of these GPUs. */
static bool check_archs(const compile_job *job) {
    mpc_nvrtc_api api = {0};
    int version = 0;
    char reason[256];
    struct mpc_dl *dl = job->arch_count ? mpc_nvrtc_open(&api, 0, &version, reason, sizeof reason) : NULL;
    bool ok = true;
    for (uint32_t i = 0; dl && ok && i < job->arch_count; i++) {
        ok = mpc_nvrtc_knows(&api, job->archs[i]);
        if (!ok)
            mpc_error(job->session->sink, "E621", "NVRTC %d.%d makes no code for sm_%d", version / 1000,
                      version % 1000 / 10, job->archs[i]);
    }
    mpc_dl_close(dl);
    return ok; /* without the library, compiling says what is missing */
}

static bool compile(const compile_job *job) {
    static const program_text TEXTS[] = {{"train", MPC_PHASE_TRAIN}, {"eval", MPC_PHASE_EVAL}};
    mpc_session *s = job->session;
    if (!check_archs(job) || !mpc_session_try_facts(s)) return false;
    if (job->folder && mkdir(job->folder, 0777) != 0 && errno != EEXIST) {
        mpc_error(s->sink, "E420", "can't make %s: %s", job->folder, strerror(errno));
        return false;
    }
    for (size_t i = 0; i < (job->folder ? 2 : 1); i++)
        if (!emit(job, &TEXTS[i])) return false;
    return true;
}

/* "sm_80,sm_90" */
static bool read_archs(compile_job *job, const char *text) {
    while (job->arch_count < MOST_ARCHS && strncmp(text, "sm_", 3) == 0) {
        char *end;
        long n = strtol(text + 3, &end, 10);
        if (n < 80 || n > 999 || (*end && *end != ',')) return false;
        job->archs[job->arch_count++] = (int)n;
        if (!*end) return true;
        text = end + 1;
    }
    return false;
}

static bool read_form(compile_job *job, const mpc_options *o) {
    bool cuda = strcmp(o->device, "cuda") == 0;
    const char *form = o->emit ? o->emit : cuda ? "cu" : "c";
    for (job->form = EMIT_C; job->form < EMIT_COUNT && strcmp(form, FORMS[job->form]) != 0;) job->form++;
    const char *problem = NULL;
    if (job->form == EMIT_COUNT) problem = "--emit takes c, cu, ptx or cubin";
    else if (job->form == EMIT_C && (cuda || o->arch)) problem = "C is for the cpu: leave --device cuda and --arch out";
    else if (job->form > EMIT_CU && !o->arch) problem = "--arch says for which GPUs: sm_80,sm_90";
    else if (o->arch && !read_archs(job, o->arch)) problem = "--arch takes sm_80 or later: sm_80,sm_90";
    else if (!o->out && (job->form == EMIT_CUBIN || job->arch_count > 1)) problem = "--out DIR says where the files go";
    if (problem) fprintf(stderr, "mpc compile: %s\n", problem);
    return problem == NULL;
}

int mpc_cmd_compile(mpc_cli *cli) {
    compile_job job = {.folder = cli->options->out};
    if (!read_form(&job, cli->options)) return MPC_EXIT_USAGE;
    mpc_session session;
    bool ok = mpc_session_open(&session, cli);
    job.session = &session;
    if (job.form != EMIT_C) session.device = MPC_DEVICE_CUDA;
    ok = ok && compile(&job);
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
