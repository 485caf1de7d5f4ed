/* Compiles a program's kernels with the system's compiler and loads them. The text is cut into a few translation units
 * of about equal size that compile side by side; each is a shared object of its own with its own key (text, compiler
 * version, flags, processor), so there is no link step. The cut depends on the text only: a program finds its objects
 * again whatever the number of threads. */
#include "runtime/cpu/jit.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/cpu/cpu_model.h"
#include "runtime/cpu/object_cache.h"
#include "runtime/cpu/subprocess.h"

enum { MAX_UNITS = 16, UNIT_TEXT = 32 << 10 };

static const char *const compile_flags[] = {
    "-std=gnu17", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-w", "-x", "c"};
enum { FLAG_COUNT = sizeof compile_flags / sizeof compile_flags[0] };

typedef struct jit_unit {
    uint32_t begin, end; /* kernels */
    mpc_str text;
    char *path, *source, *object; /* final name; temporary source and object */
    mpc_subprocess process;
    bool running, compiled;
    void *handle;
} jit_unit;

struct mpc_jit {
    mpc_arena *arena;
    jit_unit units[MAX_UNITS];
    uint32_t unit_count;
    uint32_t compiled;
    const char *folder, *command;
    char *words[MPC_MAX_ARGUMENTS]; /* of the command */
    uint32_t word_count;
    uint64_t key; /* of everything but the text */
    const mpc_sink *sink;
};

/* ---- the compiler ---- */

const char *mpc_compiler_command(const char *compiler) {
    if (compiler && *compiler) return compiler;
    const char *variable = getenv("MPC_CC");
    return variable && *variable ? variable : "cc";
}

static bool split_words(const char *command, mpc_arena *arena, char **words, uint32_t *count) {
    *count = 0;
    for (const char *p = command;;) {
        p += strspn(p, " \t");
        size_t length = strcspn(p, " \t");
        if (length == 0) return *count > 0;
        if (*count == MPC_MAX_ARGUMENTS / 2) return false;
        words[*count] = mpc_arena_strndup(arena, p, length);
        if (!words[(*count)++]) return false;
        p += length;
    }
}

static bool ask_version(char *const *words, uint32_t count, mpc_str *out) {
    char version[] = "--version";
    char *arguments[MPC_MAX_ARGUMENTS];
    memcpy(arguments, words, count * sizeof *words);
    arguments[count] = version;
    arguments[count + 1] = NULL;
    mpc_subprocess process;
    return mpc_subprocess_start(&process, arguments) && mpc_subprocess_finish(&process, out) == 0;
}

bool mpc_compiler_version(const char *compiler, mpc_str *out) {
    mpc_arena *arena = mpc_arena_create();
    char *words[MPC_MAX_ARGUMENTS];
    uint32_t count = 0;
    mpc_str all = {0};
    bool found =
        arena && split_words(mpc_compiler_command(compiler), arena, words, &count) && ask_version(words, count, &all);
    if (found) mpc_str_append_n(out, mpc_str_cstr(&all), strcspn(mpc_str_cstr(&all), "\n"));
    mpc_str_free(&all);
    mpc_arena_destroy(arena);
    return found;
}

static bool find_compiler(mpc_jit *jit) {
    mpc_str version = {0};
    bool found = split_words(jit->command, jit->arena, jit->words, &jit->word_count) &&
                 ask_version(jit->words, jit->word_count, &version);
    mpc_str all = {0};
    mpc_str_printf(&all, "%s|%s|%016llx", jit->command, mpc_str_cstr(&version), (unsigned long long)mpc_cpu_key());
    for (size_t i = 0; i < FLAG_COUNT; i++) mpc_str_printf(&all, "|%s", compile_flags[i]);
    found = found && !all.failed;
    jit->key = mpc_hash_bytes(mpc_str_cstr(&all), all.length);
    mpc_str_free(&version);
    mpc_str_free(&all);
    if (!found)
        mpc_error(jit->sink, "E660", "no C compiler: `%s` can't be run (set MPC_CC to one, or use --device ref)",
                  jit->command);
    return found;
}

/* ---- cutting ---- */

static void cut_units(mpc_jit *jit, const mpc_kernel *kernels, uint32_t count) {
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += strlen(kernels[i].text);
    size_t wanted = total / UNIT_TEXT + 1;
    if (wanted > MAX_UNITS) wanted = MAX_UNITS;
    size_t done = 0;
    uint32_t next = 0;
    for (size_t u = 0; u < wanted; u++) {
        jit_unit *unit = &jit->units[jit->unit_count++];
        unit->begin = next;
        while (next < count && (u + 1 == wanted || done < total * (u + 1) / wanted))
            done += strlen(kernels[next++].text);
        unit->end = next;
    }
}

static bool write_text(jit_unit *unit, const char *prelude, const mpc_kernel *kernels) {
    mpc_str_append(&unit->text, prelude);
    mpc_str_append(&unit->text, "\n");
    for (uint32_t i = unit->begin; i < unit->end; i++) {
        mpc_str_append(&unit->text, kernels[i].text);
        mpc_str_append(&unit->text, "\n");
    }
    return !unit->text.failed;
}

static bool name_unit(mpc_jit *jit, jit_unit *unit, uint32_t number) {
    uint64_t text = mpc_hash_bytes(mpc_str_cstr(&unit->text), unit->text.length);
    unsigned long long a = text, b = jit->key ^ (text * 31 + unit->text.length);
    /* thread and process apart: the address of `unit` differs between loads that run at the same time */
    unsigned long long own = (unsigned long long)(uintptr_t)unit;
    unit->path = mpc_arena_printf(jit->arena, "%s/%016llx%016llx.so", jit->folder, a, b);
    unit->source =
        mpc_arena_printf(jit->arena, "%s/%016llx.%ld.%llx.%u.tmp.c", jit->folder, a, (long)getpid(), own, number);
    unit->object =
        mpc_arena_printf(jit->arena, "%s/%016llx.%ld.%llx.%u.tmp.so", jit->folder, a, (long)getpid(), own, number);
    return unit->path && unit->source && unit->object;
}

/* ---- compiling ---- */

static bool write_file(const char *path, const mpc_str *text) {
    FILE *file = fopen(path, "we");
    if (!file) return false;
    bool ok = fwrite(mpc_str_cstr(text), 1, text->length, file) == text->length;
    return fclose(file) == 0 && ok;
}

static mpc_status start_compiler(mpc_jit *jit, jit_unit *unit) {
    if (!write_file(unit->source, &unit->text))
        return mpc_error(jit->sink, "E662", "can't write to the cache of compiled kernels, %s: %s", jit->folder,
                         strerror(errno));
    char output_flag[] = "-o";
    char *arguments[MPC_MAX_ARGUMENTS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < jit->word_count; i++) arguments[n++] = jit->words[i];
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        arguments[n] = mpc_arena_strdup(jit->arena, compile_flags[i]);
        if (!arguments[n++]) return MPC_NO_MEMORY;
    }
    arguments[n++] = unit->source;
    arguments[n++] = output_flag;
    arguments[n++] = unit->object;
    arguments[n] = NULL;
    unit->running = mpc_subprocess_start(&unit->process, arguments);
    return unit->running ? MPC_OK : mpc_error(jit->sink, "E660", "the C compiler `%s` can't be run", jit->command);
}

static mpc_status finish_compiler(mpc_jit *jit, jit_unit *unit) {
    if (!unit->running) return MPC_OK;
    mpc_str output = {0};
    int status = mpc_subprocess_finish(&unit->process, &output);
    unit->running = false;
    mpc_status result = MPC_OK;
    if (status != 0) {
        const char *said = mpc_str_cstr(&output);
        result =
            mpc_error(jit->sink, "E661", "the C compiler `%s` failed on generated code (exit status %d); it said: %.*s",
                      jit->command, status, (int)strnlen(said, 600), said);
    } else if (!mpc_cache_publish(unit->object, unit->path)) {
        result = mpc_error(jit->sink, "E662", "can't write to the cache of compiled kernels, %s", jit->folder);
    }
    mpc_str_free(&output);
    unlink(unit->source);
    if (result != MPC_OK) unlink(unit->object);
    unit->compiled = result == MPC_OK;
    jit->compiled += unit->compiled;
    return result;
}

/* At most `jobs` compilers run: before another one starts, the oldest is waited for. */
static mpc_status compile_missing(mpc_jit *jit, unsigned jobs) {
    mpc_status status = MPC_OK;
    uint32_t oldest = 0, running = 0;
    for (uint32_t i = 0; i < jit->unit_count && status == MPC_OK; i++) {
        if (mpc_cache_check(jit->units[i].path)) continue;
        for (; running >= jobs && status == MPC_OK; oldest++) {
            running -= jit->units[oldest].running;
            status = finish_compiler(jit, &jit->units[oldest]);
        }
        if (status == MPC_OK) status = start_compiler(jit, &jit->units[i]);
        running++;
    }
    for (uint32_t i = 0; i < jit->unit_count; i++) {
        mpc_status finished = finish_compiler(jit, &jit->units[i]);
        if (status == MPC_OK) status = finished;
    }
    return status;
}

/* ---- loading ---- */

static bool load_unit(jit_unit *unit, const mpc_kernel *kernels, mpc_kernel_fn *functions) {
    unit->handle = dlopen(unit->path, RTLD_NOW | RTLD_LOCAL);
    if (!unit->handle) return false;
    for (uint32_t i = unit->begin; i < unit->end; i++) {
        void *address = dlsym(unit->handle, kernels[i].name);
        if (!address) return false;
        memcpy(&functions[i], &address, sizeof address);
    }
    return true;
}

/* An object that passes its checksum and still doesn't load was made wrongly: make it once more. */
static mpc_status load_or_remake(mpc_jit *jit, jit_unit *unit, const mpc_kernel *kernels, mpc_kernel_fn *functions) {
    if (load_unit(unit, kernels, functions)) return MPC_OK;
    if (unit->handle) dlclose(unit->handle);
    unit->handle = NULL;
    unlink(unit->path);
    if (!unit->compiled) {
        mpc_status status = start_compiler(jit, unit);
        if (status == MPC_OK) status = finish_compiler(jit, unit);
        if (status != MPC_OK) return status;
        if (load_unit(unit, kernels, functions)) return MPC_OK;
    }
    const char *why = dlerror();
    return mpc_error(jit->sink, "E661", "compiled kernels can't be loaded: %s", why ? why : "a kernel is missing");
}

static mpc_status build(mpc_jit *jit, const char *prelude, const mpc_kernel *kernels, uint32_t count, unsigned jobs) {
    cut_units(jit, kernels, count);
    for (uint32_t i = 0; i < jit->unit_count; i++)
        if (!write_text(&jit->units[i], prelude, kernels) || !name_unit(jit, &jit->units[i], i)) return MPC_NO_MEMORY;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return compile_missing(jit, jobs > 0 ? jobs : cores > 0 ? (unsigned)cores : 1);
}

mpc_jit *mpc_jit_load(const char *prelude, const mpc_kernel *kernels, uint32_t kernel_count,
                      const mpc_jit_options *options, mpc_kernel_fn *functions, const mpc_sink *sink) {
    mpc_jit *jit = mpc_alloc(sizeof *jit);
    if (!jit) {
        mpc_error(sink, "E901", "there isn't enough memory to compile the kernels");
        return NULL;
    }
    *jit = (mpc_jit){.arena = mpc_arena_create(), .sink = sink, .command = mpc_compiler_command(options->compiler)};
    mpc_status status = jit->arena ? MPC_OK : MPC_NO_MEMORY;
    if (status == MPC_OK && kernel_count > 0) {
        jit->folder = mpc_cache_folder(options->cache_dir, jit->arena);
        if (!jit->folder)
            status = mpc_error(sink, "E662", "there is no folder for compiled kernels (set XDG_CACHE_HOME)");
        else if (!find_compiler(jit)) status = MPC_FAILED;
        else status = build(jit, prelude, kernels, kernel_count, options->jobs);
    }
    for (uint32_t i = 0; i < jit->unit_count && status == MPC_OK; i++)
        status = load_or_remake(jit, &jit->units[i], kernels, functions);
    if (status == MPC_OK) return jit;
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "there isn't enough memory to compile the kernels");
    mpc_jit_destroy(jit);
    return NULL;
}

void mpc_jit_destroy(mpc_jit *jit) {
    if (!jit) return;
    for (uint32_t i = 0; i < jit->unit_count; i++) {
        if (jit->units[i].handle) dlclose(jit->units[i].handle);
        mpc_str_free(&jit->units[i].text);
    }
    mpc_arena_destroy(jit->arena);
    mpc_free(jit);
}

uint32_t mpc_jit_compiled(const mpc_jit *jit) { return jit->compiled; }
