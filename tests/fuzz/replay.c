/* Main program of a fuzz target without libFuzzer: runs every file it is given, and every file of a folder. Names are
 * printed before the run, so that the last one is the finding; a file that takes longer than its seconds ends the
 * program. */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/fuzz/harness.h"

enum {
    MOST_SECONDS = 30, /* with sanitizers, on a busy machine */
    MOST_KILOBYTES = 512 << 10
};

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
static const bool MEMORY_IS_OURS = false; /* a sanitizer keeps what was freed */
#else
static const bool MEMORY_IS_OURS = true;
#endif

static unsigned files;

static void replay_file(const char *path, size_t size) {
    uint8_t *data = malloc(size ? size : 1); /* exactly the file's size: a byte read behind it is seen */
    FILE *f = fopen(path, "rb");
    if (!f || !data || fread(data, 1, size, f) != size) abort();
    fclose(f);
    fprintf(stderr, "%s\n", path);
    alarm(MOST_SECONDS);
    LLVMFuzzerTestOneInput(data, size);
    alarm(0);
    struct rusage used;
    if (MEMORY_IS_OURS && getrusage(RUSAGE_SELF, &used) == 0)
        fuzz_require(used.ru_maxrss <= MOST_KILOBYTES, "a small input takes little memory");
    free(data);
    files++;
}

static void replay(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) return;
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return;
    }
    DIR *dir = opendir(path);
    if (!dir) abort();
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.') replay(inner);
    }
    closedir(dir);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) replay(argv[i]);
    fprintf(stderr, "%u files\n", files);
    return files == 0;
}
