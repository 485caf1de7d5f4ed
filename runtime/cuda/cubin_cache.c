/* The cache of compiled CUDA kernels. CACHE/KEY.cubin holds a batch, CACHE/KEY.k is a symbolic link from a kernel's key
 * to the batch that has it; both appear by rename only, so that a reader sees a whole file or none. Batches are
 * compiled in child processes: NVRTC works under one lock, and a child that only compiles needs nothing of the parent's
 * GPU context. Behind the code of a batch stand what the compiler told of its kernels, which loading ignores. A link
 * that leads nowhere, or to a damaged file, is a kernel that has to be compiled. */
#include "runtime/cuda/cubin_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "runtime/cpu/object_cache.h"
#include "runtime/cpu/subprocess.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/file_sync.h"

/* An NVRTC program costs about 60 ms before its first kernel, more kernels at once spread that. */
enum { BATCH_KERNELS = 48, SMALL_BATCH = 12, MAX_BATCHES = 64, OTHER_PRELUDES = 8 };
enum { CHILD_REFUSED = 1, CHILD_WRITE = 2, CHILD_MEMORY = 3 };

typedef struct cubin_file {
    char *path;
    bool usable;
    bool forgotten; /* until it is made anew */
} cubin_file;

typedef struct wanted_kernel {
    const mpc_program *program;
    const mpc_kernel *kernel;
    char *link;    /* path of the index entry */
    uint32_t file; /* MPC_NONE: not found */
} wanted_kernel;

typedef struct batch {
    const mpc_program *program; /* of the prelude */
    MPC_ARRAY(const mpc_kernel *) kernels;
    MPC_ARRAY(uint32_t) wanted; /* same order */
    size_t text_bytes;
    char *path, *temporary;
    mpc_subprocess process;
    bool running;
} batch;

typedef struct batch_list {
    batch batches[MAX_BATCHES];
    uint32_t count;
} batch_list;

typedef struct missing_kernels { /* of the wanted ones */
    uint32_t *ids;
    bool *taken; /* into a batch */
    uint32_t count;
} missing_kernels;

struct mpc_cubins {
    const mpc_cubins_options *options;
    const mpc_sink *sink;
    mpc_arena *arena;
    const char *folder;
    mpc_map *links; /* path of the index entry -> wanted kernel: equal kernels of several programs */
    mpc_map *paths; /* path -> file */
    MPC_ARRAY(wanted_kernel) wanted;
    MPC_ARRAY(cubin_file) files;
    uint32_t compiled;
    const mpc_program *keyed; /* the last program whose surroundings were hashed, and their key */
    uint64_t key;
};

/* ---- keys ---- */

/* Everything but the kernel's text that decides about its code. */
static uint64_t key_of_surroundings(const mpc_cubins *c, const mpc_program *program) {
    mpc_str text = {0};
    mpc_str_printf(&text, "%d|%d|%s|reports|", c->options->nvrtc_version, c->options->capability, mpc_nvrtc_options());
    mpc_str_printf(&text, "%016llx|", (unsigned long long)mpc_hash_str(program->prelude ? program->prelude : ""));
    mpc_str_printf(&text, "%016llx",
                   (unsigned long long)mpc_hash_str(program->device_header ? program->device_header : ""));
    uint64_t key = text.failed ? 0 : mpc_hash_str(mpc_str_cstr(&text));
    mpc_str_free(&text);
    return key;
}

static char *link_of(mpc_cubins *c, const mpc_program *program, const mpc_kernel *kernel) {
    if (c->keyed != program) c->key = key_of_surroundings(c, program);
    c->keyed = program;
    unsigned long long around = c->key, text = mpc_hash_str(kernel->text);
    return mpc_arena_printf(c->arena, "%s/%016llx%016llx.k", c->folder, around, text);
}

mpc_cubins *mpc_cubins_create(const mpc_cubins_options *options, const mpc_sink *sink) {
    mpc_cubins *c = mpc_alloc(sizeof *c);
    if (c) {
        *c = (mpc_cubins){.options = options,
                          .sink = sink,
                          .arena = mpc_arena_create(),
                          .links = mpc_map_create(),
                          .paths = mpc_map_create()};
        if (c->arena && c->links && c->paths) {
            c->folder = mpc_cache_folder(options->cache_dir, c->arena);
            if (c->folder) return c;
            mpc_error(sink, "E662", "there is no folder for compiled kernels (set XDG_CACHE_HOME)");
            mpc_cubins_destroy(c);
            return NULL;
        }
        mpc_cubins_destroy(c);
    }
    mpc_error(sink, "E901", "there isn't enough memory to compile the kernels");
    return NULL;
}

void mpc_cubins_destroy(mpc_cubins *c) {
    if (!c) return;
    mpc_map_destroy(c->links);
    mpc_map_destroy(c->paths);
    mpc_array_free(&c->wanted);
    mpc_array_free(&c->files);
    mpc_arena_destroy(c->arena);
    mpc_free(c);
}

mpc_status mpc_cubins_add(mpc_cubins *c, const mpc_program *program, const mpc_kernel *kernel) {
    wanted_kernel w = {.program = program, .kernel = kernel, .link = link_of(c, program, kernel), .file = MPC_NONE};
    return w.link && mpc_array_push(&c->wanted, w) ? MPC_OK : MPC_NO_MEMORY;
}

/* ---- looking up ---- */

/* MPC_NONE: no memory. */
static uint32_t add_file(mpc_cubins *c, const char *path) {
    uint32_t file = 0;
    if (mpc_map_get(c->paths, path, &file)) {
        cubin_file *known = &c->files.data[file];
        known->usable = known->usable || (!known->forgotten && mpc_cache_check(path));
        return file;
    }
    cubin_file f = {.path = mpc_arena_strdup(c->arena, path)};
    f.usable = f.path && mpc_cache_check(path);
    file = (uint32_t)c->files.count;
    if (!f.path || !mpc_map_set(c->paths, path, file) || !mpc_array_push(&c->files, f)) return MPC_NONE;
    return file;
}

static mpc_status look_up(mpc_cubins *c, wanted_kernel *w) {
    char target[128], path[4096];
    ssize_t length = readlink(w->link, target, sizeof target - 1);
    w->file = MPC_NONE;
    if (length <= 0) return MPC_OK;
    target[length] = 0;
    if (strchr(target, '/') || (size_t)snprintf(path, sizeof path, "%s/%s", c->folder, target) >= sizeof path)
        return MPC_OK;
    uint32_t file = add_file(c, path);
    if (file == MPC_NONE) return MPC_NO_MEMORY;
    if (c->files.data[file].usable) w->file = file;
    return MPC_OK;
}

static mpc_status look_all_up(mpc_cubins *c) {
    mpc_status status = MPC_OK;
    for (size_t i = 0; i < c->wanted.count && status == MPC_OK; i++)
        if (c->wanted.data[i].file == MPC_NONE) status = look_up(c, &c->wanted.data[i]);
    return status;
}

/* ---- batches ---- */

static bool same_surroundings(const mpc_program *a, const mpc_program *b) {
    return a == b || (strcmp(a->prelude ? a->prelude : "", b->prelude ? b->prelude : "") == 0 &&
                      strcmp(a->device_header ? a->device_header : "", b->device_header ? b->device_header : "") == 0);
}

static unsigned jobs_of(const mpc_cubins *c) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return c->options->jobs > 0 ? c->options->jobs : cores > 0 ? (unsigned)cores : 1;
}

/* How many batches for `count` plain kernels: several for each core, so that none waits long for another, none too
 * large. */
static uint32_t batches_for(const mpc_cubins *c, uint32_t count) {
    uint32_t by_size = (count + BATCH_KERNELS - 1) / BATCH_KERNELS, by_cores = (count + SMALL_BATCH - 1) / SMALL_BATCH;
    if (by_cores > 2 * jobs_of(c)) by_cores = 2 * jobs_of(c);
    return by_size > by_cores ? by_size : by_cores;
}

static bool put(batch *b, const mpc_cubins *c, uint32_t wanted) {
    const mpc_kernel *kernel = c->wanted.data[wanted].kernel;
    b->text_bytes += strlen(kernel->text);
    return mpc_array_push(&b->kernels, kernel) && mpc_array_push(&b->wanted, wanted);
}

static bool belongs(const mpc_cubins *c, uint32_t wanted, const mpc_program *program, bool heavy) {
    const wanted_kernel *w = &c->wanted.data[wanted];
    return w->kernel->tensor_cores == heavy && same_surroundings(program, w->program);
}

/* The kernels that have the same prelude as `first` and aren't taken, each into the batch that has the least text.
 * Kernels with tensor cores, short texts that instantiate large templates, take as long as ten others: each is a batch
 * of its own. */
static mpc_status fill_batches(mpc_cubins *c, missing_kernels *m, uint32_t first, batch_list *list) {
    const mpc_program *program = c->wanted.data[m->ids[first]].program;
    bool heavy = c->wanted.data[m->ids[first]].kernel->tensor_cores;
    uint32_t members = 0, begin = list->count;
    for (uint32_t i = first; i < m->count; i++) members += !m->taken[i] && belongs(c, m->ids[i], program, heavy);
    uint32_t n = heavy ? members : batches_for(c, members);
    const uint32_t most = MAX_BATCHES - OTHER_PRELUDES; /* one for each set of kernels that is still to come */
    if (begin + n > most) n = begin < most ? most - begin : 1;
    if (begin + n > MAX_BATCHES)
        return mpc_error(c->sink, "E625", "there are too many different programs to compile at once");
    for (uint32_t b = begin; b < begin + n; b++) list->batches[b].program = program;
    for (uint32_t i = first; i < m->count; i++) {
        if (m->taken[i] || !belongs(c, m->ids[i], program, heavy)) continue;
        uint32_t least = begin;
        for (uint32_t b = begin; b < begin + n; b++)
            if (list->batches[b].text_bytes < list->batches[least].text_bytes) least = b;
        if (!put(&list->batches[least], c, m->ids[i])) return MPC_NO_MEMORY;
        m->taken[i] = true;
    }
    list->count = begin + n;
    return MPC_OK;
}

static mpc_status name_batch(const mpc_cubins *c, batch *b) {
    uint64_t key = key_of_surroundings(c, b->program), text = 0xcbf29ce484222325u;
    for (size_t i = 0; i < b->kernels.count; i++)
        text = (text ^ mpc_hash_str(b->kernels.data[i]->text)) * 0x100000001b3u;
    unsigned long long own = (unsigned long long)(uintptr_t)b; /* apart from other loads of this process */
    b->path = mpc_arena_printf(c->arena, "%s/%016llx%016llx.cubin", c->folder, (unsigned long long)key,
                               (unsigned long long)text);
    b->temporary = mpc_arena_printf(c->arena, "%s/%016llx.%ld.%llx.tmp.cubin", c->folder, (unsigned long long)text,
                                    (long)getpid(), own);
    return b->path && b->temporary ? MPC_OK : MPC_NO_MEMORY;
}

/* ---- compiling ---- */

/* The code and a line about each kernel. */
static bool write_file(const char *path, const mpc_str *code, const mpc_str *reports) {
    FILE *file = fopen(path, "we");
    if (!file) return false;
    bool ok = fwrite(code->data, 1, code->length, file) == code->length &&
              fwrite(mpc_str_cstr(reports), 1, reports->length, file) == reports->length;
    return fclose(file) == 0 && ok;
}

static bool write_reports(const batch *b, const mpc_nvrtc_result *r, mpc_str *out) {
    for (size_t i = 0; i < b->kernels.count; i++) {
        const char *name = b->kernels.data[i]->name;
        const mpc_kernel_report report = mpc_kernel_report_read(name, mpc_str_cstr(r->ptx), mpc_str_cstr(r->log));
        mpc_kernel_report_print(name, &report, out);
    }
    return !out->failed;
}

/* In the child, or here where there can't be one. What went wrong is in `said`. */
static int compile_batch(const mpc_cubins *c, const batch *b, mpc_str *said) {
    mpc_str cubin = {0}, ptx = {0}, reports = {0};
    mpc_nvrtc_result r = {&cubin, &ptx, said};
    mpc_nvrtc_source source = {b->program->prelude ? b->program->prelude : "", b->program->device_header,
                               b->kernels.data, (uint32_t)b->kernels.count};
    int code = 0;
    if (!mpc_nvrtc_compile(c->options->nvrtc, &source, c->options->capability, &r))
        code = cubin.failed || ptx.failed ? CHILD_MEMORY : CHILD_REFUSED;
    else if (!write_reports(b, &r, &reports)) code = CHILD_MEMORY;
    else if (!write_file(b->temporary, &cubin, &reports)) code = CHILD_WRITE;
    if (code == CHILD_WRITE) mpc_str_printf(said, "%s", strerror(errno));
    mpc_str_free(&cubin);
    mpc_str_free(&ptx);
    mpc_str_free(&reports);
    return code;
}

static void run_child(const mpc_cubins *c, const batch *b, int output) {
    mpc_str said = {0};
    int code = compile_batch(c, b, &said);
    if (code != 0) (void)mpc_write_whole(output, said.data, said.length);
    _exit(code);
}

static bool start_child(const mpc_cubins *c, batch *b) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        run_child(c, b, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    b->process = (mpc_subprocess){.pid = pid, .output = ends[0]};
    b->running = true;
    return true;
}

/* Renaming over the old link changes it at once. */
static bool point_link(const mpc_cubins *c, const char *link, const batch *b) {
    char *temporary =
        mpc_arena_printf(c->arena, "%s.%ld.%llx.tmp", link, (long)getpid(), (unsigned long long)(uintptr_t)b);
    const char *name = strrchr(b->path, '/') + 1;
    if (!temporary) return false;
    unlink(temporary);
    if (symlink(name, temporary) == 0 && rename(temporary, link) == 0) return true;
    unlink(temporary);
    return false;
}

static mpc_status publish(mpc_cubins *c, const batch *b) {
    uint32_t file = 0;
    bool ok = mpc_cache_publish(b->temporary, b->path);
    if (ok && mpc_map_get(c->paths, b->path, &file)) c->files.data[file].forgotten = false;
    for (size_t i = 0; i < b->wanted.count && ok; i++) ok = point_link(c, c->wanted.data[b->wanted.data[i]].link, b);
    if (!ok)
        return mpc_error(c->sink, "E662", "can't write to the cache of compiled kernels, %s: %s", c->folder,
                         strerror(errno));
    c->compiled += (uint32_t)b->wanted.count;
    return MPC_OK;
}

static mpc_status tell(const mpc_cubins *c, int code, const mpc_str *said) {
    const char *text = mpc_str_cstr(said);
    int version = c->options->nvrtc_version;
    if (code == CHILD_MEMORY) return MPC_NO_MEMORY;
    if (code == CHILD_WRITE)
        return mpc_error(c->sink, "E662", "can't write to the cache of compiled kernels, %s: %s", c->folder, text);
    if (code == CHILD_REFUSED)
        return mpc_error(c->sink, "E625", "NVRTC %d.%d refused generated kernels; it said: %.*s", version / 1000,
                         version % 1000 / 10, (int)strnlen(text, 600), text);
    return mpc_error(c->sink, "E625",
                     "a process that compiles CUDA kernels ended unexpectedly (status %d); it said: %.*s", code,
                     (int)strnlen(text, 600), text);
}

static mpc_status settle(mpc_cubins *c, batch *b, int code, const mpc_str *said) {
    mpc_status status = code == 0 ? publish(c, b) : tell(c, code, said);
    if (status != MPC_OK) unlink(b->temporary);
    return status;
}

static mpc_status finish_batch(mpc_cubins *c, batch *b, mpc_status before) {
    if (!b->running) return before;
    mpc_str said = {0};
    int code = mpc_subprocess_finish(&b->process, &said);
    b->running = false;
    mpc_status status = before;
    if (status == MPC_OK) status = settle(c, b, code, &said);
    else unlink(b->temporary);
    mpc_str_free(&said);
    return status;
}

static mpc_status start_batch(mpc_cubins *c, batch *b) {
    mpc_status status = name_batch(c, b);
    if (status != MPC_OK || start_child(c, b)) return status;
    mpc_str said = {0};
    int code = compile_batch(c, b, &said);
    status = settle(c, b, code, &said);
    mpc_str_free(&said);
    return status;
}

/* Waits until one of the running batches ends. */
static mpc_status finish_any(mpc_cubins *c, batch_list *list) {
    struct pollfd ends[MAX_BATCHES];
    uint32_t batches[MAX_BATCHES], running = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!list->batches[i].running) continue;
        ends[running] = (struct pollfd){.fd = list->batches[i].process.output, .events = POLLIN};
        batches[running++] = i;
    }
    int ready = 0;
    do ready = poll(ends, running, -1);
    while (ready < 0 && errno == EINTR);
    uint32_t first = 0;
    while (ready > 0 && first + 1 < running && ends[first].revents == 0) first++;
    return finish_batch(c, &list->batches[batches[first]], MPC_OK);
}

static uint32_t count_running(const batch_list *list) {
    uint32_t running = 0;
    for (uint32_t i = 0; i < list->count; i++) running += list->batches[i].running;
    return running;
}

static mpc_status run_batches(mpc_cubins *c, batch_list *list) {
    mpc_status status = MPC_OK;
    for (uint32_t i = 0; i < list->count && status == MPC_OK; i++) {
        if (list->batches[i].kernels.count == 0) continue;
        while (status == MPC_OK && count_running(list) >= jobs_of(c)) status = finish_any(c, list);
        if (status == MPC_OK) status = start_batch(c, &list->batches[i]);
    }
    for (uint32_t i = 0; i < list->count; i++) status = finish_batch(c, &list->batches[i], status);
    return status;
}

/* Equal kernels of several programs are compiled once. */
static mpc_status list_missing(mpc_cubins *c, missing_kernels *m) {
    for (uint32_t i = 0; i < c->wanted.count; i++) {
        uint32_t seen = 0;
        const wanted_kernel *w = &c->wanted.data[i];
        if (w->file != MPC_NONE) continue;
        if (mpc_map_get(c->links, w->link, &seen) && seen != i) continue;
        if (!mpc_map_set(c->links, w->link, i)) return MPC_NO_MEMORY;
        m->ids[m->count++] = i;
    }
    return MPC_OK;
}

static mpc_status compile_missing(mpc_cubins *c, missing_kernels *m) {
    batch_list list = {.count = 0};
    mpc_status status = list_missing(c, m);
    for (int heavy = 1; heavy >= 0; heavy--) /* what takes longest begins first */
        for (uint32_t i = 0; i < m->count && status == MPC_OK; i++)
            if (!m->taken[i] && c->wanted.data[m->ids[i]].kernel->tensor_cores == (heavy == 1))
                status = fill_batches(c, m, i, &list);
    if (status == MPC_OK) status = run_batches(c, &list);
    for (uint32_t i = 0; i < MAX_BATCHES; i++) {
        mpc_array_free(&list.batches[i].kernels);
        mpc_array_free(&list.batches[i].wanted);
    }
    return status;
}

mpc_status mpc_cubins_build(mpc_cubins *c) {
    mpc_status status = look_all_up(c);
    missing_kernels m = {.ids = mpc_alloc((c->wanted.count + 1) * sizeof *m.ids),
                         .taken = mpc_alloc(c->wanted.count + 1)};
    if (!m.ids || !m.taken) status = MPC_NO_MEMORY;
    if (m.taken) memset(m.taken, 0, c->wanted.count + 1);
    if (status == MPC_OK) status = compile_missing(c, &m);
    mpc_free(m.ids);
    mpc_free(m.taken);
    if (status == MPC_OK) status = look_all_up(c);
    for (size_t i = 0; i < c->wanted.count && status == MPC_OK; i++)
        if (c->wanted.data[i].file == MPC_NONE)
            status = mpc_error(c->sink, "E662", "compiled kernels vanish from the cache, %s", c->folder);
    return status;
}

uint32_t mpc_cubins_compiled(const mpc_cubins *c) { return c->compiled; }

/* ---- using ---- */

uint32_t mpc_cubins_file_count(const mpc_cubins *c) { return (uint32_t)c->files.count; }

uint32_t mpc_cubins_file_of(const mpc_cubins *c, uint32_t kernel) { return c->wanted.data[kernel].file; }

static mpc_status read_whole(FILE *file, char **content, uint64_t *bytes) {
    struct stat st;
    if (fstat(fileno(file), &st) != 0) return MPC_FAILED;
    *bytes = (uint64_t)st.st_size;
    *content = mpc_alloc((size_t)*bytes + 1);
    if (!*content) return MPC_NO_MEMORY;
    (*content)[*bytes] = 0;
    return fread(*content, 1, (size_t)*bytes, file) == *bytes ? MPC_OK : MPC_FAILED;
}

/* The trailer stays: ELF ignores what follows its sections. */
mpc_status mpc_cubins_read(const mpc_cubins *c, uint32_t file, char **content, uint64_t *bytes) {
    const char *path = c->files.data[file].path;
    *content = NULL;
    FILE *f = fopen(path, "re");
    mpc_status status = f ? read_whole(f, content, bytes) : MPC_FAILED;
    int reason = errno;
    if (f) fclose(f);
    if (status == MPC_OK) return MPC_OK;
    mpc_free(*content);
    *content = NULL;
    return status == MPC_FAILED
               ? mpc_error(c->sink, "E662", "can't read compiled kernels, %s: %s", path, strerror(reason))
               : status;
}

mpc_status mpc_cubins_report(const mpc_cubins *c, uint32_t kernel, mpc_kernel_report *report) {
    char *content = NULL;
    uint64_t bytes = 0;
    mpc_status status = mpc_cubins_read(c, mpc_cubins_file_of(c, kernel), &content, &bytes);
    *report = (mpc_kernel_report){0};
    if (status == MPC_OK) *report = mpc_kernel_report_find(c->wanted.data[kernel].kernel->name, content, bytes);
    mpc_free(content);
    return status;
}

/* The file stays, for others that have looked it up and don't mind: what is made anew takes its name or the links. */
void mpc_cubins_forget(mpc_cubins *c, uint32_t file) {
    c->files.data[file].usable = false;
    c->files.data[file].forgotten = true;
    for (size_t i = 0; i < c->wanted.count; i++)
        if (c->wanted.data[i].file == file) c->wanted.data[i].file = MPC_NONE;
}
