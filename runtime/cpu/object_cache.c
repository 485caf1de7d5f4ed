/* The cache of compiled objects. A half-written or damaged object could kill the process inside dlopen, so every file
 * ends with a checksum of all bytes before it (ELF ignores what follows its sections) and is checked before it is
 * loaded. Files appear by rename only. */
#include "runtime/cpu/object_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

typedef struct trailer {
    char magic[8];
    uint64_t size, hash;
} trailer;

enum { STALE_SECONDS = 3600, KEY_DIGITS = 16 };

static const char trailer_magic[8] = {'m', 'p', 'c', 'o', 'b', 'j', '1', '\n'};

static bool make_folders(char *path) {
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!made) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool is_usable(char *path) { return make_folders(path) && access(path, W_OK | X_OK) == 0; }

/* Without a home that can be written to: a folder that is ours alone. Others can make one of this name, but not give it
 * to us. */
static char *temporary_folder(mpc_arena *arena) {
    const char *base = getenv("TMPDIR");
    struct stat st;
    char *path = mpc_arena_printf(arena, "%s/mpc-%ld", base && *base ? base : "/tmp", (long)geteuid());
    if (!path || (mkdir(path, 0700) != 0 && errno != EEXIST)) return NULL;
    bool ours = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
    return ours && access(path, W_OK | X_OK) == 0 ? path : NULL;
}

static bool is_due(const char *mark, time_t now) {
    struct stat st;
    if (stat(mark, &st) == 0 && st.st_mtime <= now && now - st.st_mtime < STALE_SECONDS) return false;
    int fd = open(mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool touched = futimens(fd, NULL) == 0;
    close(fd);
    return touched;
}

/* KEY.*.tmp*, as compilers' results are called until they are published. */
static bool is_temporary(const char *name) {
    return strspn(name, "0123456789abcdef") >= KEY_DIGITS && strstr(name, ".tmp") != NULL;
}

/* Removes what processes left that were killed while they compiled: at most once an hour, so that a large folder costs
 * next to nothing. */
static void sweep(const char *folder) {
    char mark[4096];
    struct stat st;
    time_t now = time(NULL);
    if ((size_t)snprintf(mark, sizeof mark, "%s/swept", folder) >= sizeof mark || !is_due(mark, now)) return;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (is_temporary(e->d_name) && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            !S_ISDIR(st.st_mode) && now - st.st_mtime > STALE_SECONDS)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
}

static char *find_folder(const char *wanted, mpc_arena *arena) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (wanted && *wanted) {
        path = mpc_arena_strdup(arena, wanted);
        return path && is_usable(path) ? path : NULL;
    }
    if (xdg && *xdg) path = mpc_arena_printf(arena, "%s/mpc", xdg);
    else if (home && *home) path = mpc_arena_printf(arena, "%s/.cache/mpc", home);
    return path && is_usable(path) ? path : temporary_folder(arena);
}

const char *mpc_cache_folder(const char *wanted, mpc_arena *arena) {
    const char *folder = find_folder(wanted, arena);
    if (folder) sweep(folder);
    return folder;
}

/* FNV-1a over 64-bit words: eight times as fast as over bytes, and a checksum is all that is needed. */
static uint64_t checksum(const uint8_t *data, uint64_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    for (; size > 0; data++, size--) hash = (hash ^ *data) * 0x100000001b3u;
    return hash;
}

static const uint8_t *map_file(int fd, uint64_t *size) {
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size <= 0) return NULL;
    *size = (uint64_t)st.st_size;
    void *data = mmap(NULL, (size_t)*size, PROT_READ, MAP_PRIVATE, fd, 0);
    return data == MAP_FAILED ? NULL : data;
}

static bool is_whole(int fd) {
    uint64_t size = 0;
    const uint8_t *data = map_file(fd, &size);
    if (!data) return false;
    trailer end = {0};
    bool whole = size > sizeof end;
    if (whole) {
        memcpy(&end, data + size - sizeof end, sizeof end);
        whole = memcmp(end.magic, trailer_magic, sizeof trailer_magic) == 0 && end.size == size - sizeof end &&
                end.hash == checksum(data, end.size);
    }
    munmap((void *)(uintptr_t)data, (size_t)size);
    return whole;
}

bool mpc_cache_check(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool whole = is_whole(fd);
    close(fd);
    if (!whole) unlink(path);
    return whole;
}

static bool append_trailer(int fd) {
    uint64_t size = 0;
    const uint8_t *data = map_file(fd, &size);
    if (!data) return false;
    trailer end = {.size = size, .hash = checksum(data, size)};
    memcpy(end.magic, trailer_magic, sizeof trailer_magic);
    munmap((void *)(uintptr_t)data, (size_t)size);
    return lseek(fd, 0, SEEK_END) >= 0 && write(fd, &end, sizeof end) == (ssize_t)sizeof end;
}

bool mpc_cache_publish(const char *temporary, const char *path) {
    int fd = open(temporary, O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = append_trailer(fd);
    ok = close(fd) == 0 && ok;
    return ok && rename(temporary, path) == 0;
}
