/* Preloaded into every process of a command under attack (tests/campaigns/torture/field): a disk
 * that is full from the n-th write on, a disk that is read-only, a clock that jumps. The processes
 * share one page, HIL_HOOKS_STATE. Paths below HIL_HOOKS_PLACES (separated by ':') are on the full
 * disk; the first of them is the read-only one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { HEALTHY, FULL, READ_ONLY };

struct state {
    _Atomic int64_t disk;
    /* Of a full disk: the writes that fail, counted from 0: from the first to before the last. */
    _Atomic int64_t first;
    _Atomic int64_t last;
    /* Writes so far, of all processes. */
    _Atomic int64_t writes;
    /* Seconds by which the clock is wrong, in turn, each for so many milliseconds; 0: it is right.
     */
    _Atomic int64_t period_ms;
    _Atomic int64_t jumps_s[8];
};

static struct state *state;
static const char *places;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *const found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        abort();
    }
    return found;
}

__attribute__((constructor)) static void open_state(void) {
    const char *const path = getenv("HIL_HOOKS_STATE");
    places = getenv("HIL_HOOKS_PLACES");
    const int file = path != NULL && places != NULL ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *const page =
        mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    state = page != MAP_FAILED ? page : NULL;
    (void)close(file);
}

static int is_below(const char *path) {
    for (const char *place = places; *place != '\0';) {
        const size_t size = strcspn(place, ":");
        if (size > 0 && strncmp(path, place, size) == 0 &&
            (path[size] == '/' || path[size] == '\0')) {
            return 1;
        }
        if (atomic_load(&state->disk) == READ_ONLY) {
            return 0;
        }
        place += size + (place[size] == ':');
    }
    return 0;
}

/* The path of an open file or folder; "" where it has none. */
static void path_of(int file, char *path, size_t max) {
    char entry[40];
    (void)snprintf(entry, sizeof entry, "/proc/self/fd/%d", file);
    const ssize_t size = readlink(entry, path, max - 1);
    path[size > 0 ? size : 0] = '\0';
}

static int is_there(int folder, const char *path) {
    char whole[2 * PATH_MAX];
    if (state == NULL || atomic_load(&state->disk) == HEALTHY || path == NULL) {
        return 0;
    }
    if (path[0] == '/') {
        return is_below(path);
    }
    if (folder == AT_FDCWD) {
        if (getcwd(whole, PATH_MAX) == NULL) {
            return 0;
        }
    } else {
        path_of(folder, whole, PATH_MAX);
    }
    const size_t size = strlen(whole);
    (void)snprintf(whole + size, sizeof whole - size, "/%s", path);
    return is_below(whole);
}

static int file_is_there(int file) {
    char path[PATH_MAX];
    if (state == NULL || atomic_load(&state->disk) == HEALTHY) {
        return 0;
    }
    path_of(file, path, sizeof path);
    return is_below(path);
}

/* Whether what takes room on the disk fails, with errno set. */
static int has_no_room(void) {
    if (atomic_load(&state->disk) == READ_ONLY) {
        errno = EROFS;
        return 1;
    }
    const int64_t number = atomic_fetch_add(&state->writes, 1);
    if (number >= atomic_load(&state->first) && number < atomic_load(&state->last)) {
        errno = ENOSPC;
        return 1;
    }
    return 0;
}

/* Whether what changes the disk, but takes no room, fails. */
static int may_not_change(void) {
    errno = EROFS;
    return atomic_load(&state->disk) == READ_ONLY;
}

/* -- files ------------------------------------------------------------------------------------ */

static int refused(int folder, const char *path, int flags) {
    const int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
    if (!writes || !is_there(folder, path)) {
        return 0;
    }
    return (flags & O_CREAT) != 0 ? has_no_room() : may_not_change();
}

#define MODE(flags, last)                                                                          \
    mode_t mode = 0;                                                                               \
    if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) {                              \
        va_list list;                                                                              \
        va_start(list, last);                                                                      \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

int open(const char *path, int flags, ...) {
    MODE(flags, flags)
    return refused(AT_FDCWD, path, flags) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags, flags)
    return refused(AT_FDCWD, path, flags) ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE(flags, flags)
    return refused(folder, path, flags) ? -1 : REAL(openat)(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags, flags)
    return refused(folder, path, flags) ? -1 : REAL(openat64)(folder, path, flags, mode);
}

int creat(const char *path, mode_t mode) {
    return refused(AT_FDCWD, path, O_CREAT | O_WRONLY) ? -1 : REAL(creat)(path, mode);
}

static int stream_refused(const char *path, const char *mode) {
    const int makes = mode[0] == 'w' || mode[0] == 'a';
    return refused(AT_FDCWD, path,
                   makes                       ? O_WRONLY | O_CREAT
                   : strchr(mode, '+') != NULL ? O_RDWR
                                               : O_RDONLY);
}

FILE *fopen(const char *path, const char *mode) {
    return stream_refused(path, mode) ? NULL : REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return stream_refused(path, mode) ? NULL : REAL(fopen64)(path, mode);
}

ssize_t write(int file, const void *data, size_t size) {
    return file_is_there(file) && has_no_room() ? -1 : REAL(write)(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return file_is_there(file) && has_no_room() ? -1 : REAL(writev)(file, parts, count);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    return file_is_there(file) && has_no_room() ? -1 : REAL(pwrite)(file, data, size, offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    return file_is_there(file) && has_no_room() ? -1 : REAL(pwrite64)(file, data, size, offset);
}

/* What copies files: refused to everybody, so that they write. */
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    (void)out, (void)in, (void)offset, (void)size;
    errno = EINVAL;
    return -1;
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) {
    (void)out, (void)in, (void)offset, (void)size;
    errno = EINVAL;
    return -1;
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    (void)in, (void)from, (void)out, (void)to, (void)size, (void)flags;
    errno = ENOSYS;
    return -1;
}

/* Streams write within the C library, where nothing can be preloaded: their last chance to fail. */
static int stream_has_no_room(FILE *stream) {
    return (fcntl(fileno(stream), F_GETFL) & O_ACCMODE) != O_RDONLY &&
           file_is_there(fileno(stream)) && has_no_room();
}

int fflush(FILE *stream) {
    return stream != NULL && stream_has_no_room(stream) ? EOF : REAL(fflush)(stream);
}

int fclose(FILE *stream) {
    if (!stream_has_no_room(stream)) {
        return REAL(fclose)(stream);
    }
    const int number = errno;
    (void)REAL(fclose)(stream);
    errno = number;
    return EOF;
}

/* -- folders ---------------------------------------------------------------------------------- */

int mkdir(const char *path, mode_t mode) {
    struct stat found;
    const int is_new = stat(path, &found) != 0;
    return is_new && is_there(AT_FDCWD, path) && has_no_room() ? -1 : REAL(mkdir)(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    return is_there(folder, path) && has_no_room() ? -1 : REAL(mkdirat)(folder, path, mode);
}

int symlink(const char *target, const char *path) {
    return is_there(AT_FDCWD, path) && has_no_room() ? -1 : REAL(symlink)(target, path);
}

int link(const char *from, const char *to) {
    return is_there(AT_FDCWD, to) && has_no_room() ? -1 : REAL(link)(from, to);
}

int rename(const char *from, const char *to) {
    return is_there(AT_FDCWD, to) && has_no_room() ? -1 : REAL(rename)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return is_there(to_folder, to) && has_no_room()
               ? -1
               : REAL(renameat)(from_folder, from, to_folder, to);
}

int unlink(const char *path) {
    return is_there(AT_FDCWD, path) && may_not_change() ? -1 : REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags) {
    return is_there(folder, path) && may_not_change() ? -1 : REAL(unlinkat)(folder, path, flags);
}

int rmdir(const char *path) {
    return is_there(AT_FDCWD, path) && may_not_change() ? -1 : REAL(rmdir)(path);
}

int chmod(const char *path, mode_t mode) {
    return is_there(AT_FDCWD, path) && may_not_change() ? -1 : REAL(chmod)(path, mode);
}

int access(const char *path, int mode) {
    return (mode & W_OK) != 0 && is_there(AT_FDCWD, path) && may_not_change()
               ? -1
               : REAL(access)(path, mode);
}

int faccessat(int folder, const char *path, int mode, int flags) {
    return (mode & W_OK) != 0 && is_there(folder, path) && may_not_change()
               ? -1
               : REAL(faccessat)(folder, path, mode, flags);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    return is_there(folder, path) && may_not_change() ? -1
                                                      : REAL(utimensat)(folder, path, times, flags);
}

/* -- the clock -------------------------------------------------------------------------------- */

static time_t error_s(void) {
    const int64_t period_ms = state != NULL ? atomic_load(&state->period_ms) : 0;
    if (period_ms == 0) {
        return 0;
    }
    struct timespec now;
    (void)REAL(clock_gettime)(CLOCK_MONOTONIC, &now);
    const int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return (time_t)atomic_load(&state->jumps_s[now_ms / period_ms % 8]);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    const int result = REAL(clock_gettime)(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += error_s();
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    const int result = REAL(gettimeofday)(now, zone);
    if (result == 0) {
        now->tv_sec += error_s();
    }
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
