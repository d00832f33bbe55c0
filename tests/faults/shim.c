// Faults at chosen calls: a library that LD_PRELOAD puts between the program and the C library.
//
// It counts calls on paths below FAULT_ROOT and acts at the FAULT_AT-th of those that FAULT_CALLS names: an error (FAULT_ERRNO;
// with FAULT_STAYS all later ones fail as well), a signal before or after the call (FAULT_SIGNAL,
// FAULT_AFTER), or a jump of the wall clock by FAULT_JUMP seconds. What it did is appended to FAULT_LOG. With none of them it
// counts, and says how many calls there were when the program ends.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, CREATE, WRITE, FSYNC, RENAME, MKDIR, UNLINK, LOCK, CALLS };
static const char *const NAMES[CALLS] = {"open", "create", "write", "fsync", "rename", "mkdir", "unlink", "lock"};

static const char *root, *calls, *log_path;
static long at, error, stays, signal_number, after, jump;
static atomic_long counted, seen[CALLS], jumped;
static _Thread_local int signal_after;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void start(void) {
    root = getenv("FAULT_ROOT");
    calls = getenv("FAULT_CALLS");
    log_path = getenv("FAULT_LOG");
    at = number("FAULT_AT"), error = number("FAULT_ERRNO"), stays = number("FAULT_STAYS");
    signal_number = number("FAULT_SIGNAL"), after = number("FAULT_AFTER"), jump = number("FAULT_JUMP");
}

// Past the functions below.
static void say(const char *line) {
    long fd = log_path ? syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (fd >= 0) {
        syscall(SYS_write, fd, line, strlen(line));
        syscall(SYS_close, fd);
    }
}

__attribute__((destructor)) static void end(void) {
    char line[200];
    int length = 0;
    for (int call = 0; call < CALLS && !at; call++)
        length += snprintf(line + length, sizeof line - length, "%s %ld\n", NAMES[call], seen[call]);
    if (length) say(line);
}

// Returns the error that the call must give, or 0.
static int fault(int call, const char *path) {
    if (!root || !path || strncmp(path, root, strlen(root)) != 0) return 0;
    seen[call]++;
    if (!at || !calls || !strstr(calls, NAMES[call])) return 0;
    long now = ++counted;
    if (now < at || (now > at && !stays)) return 0;
    if (now == at) {
        char line[PATH_MAX + 20];
        snprintf(line, sizeof line, "%s %s\n", NAMES[call], path);
        say(line);
        jumped = 1;
        if (signal_number && after)
            signal_after = 1;
        else if (signal_number)
            kill(getpid(), signal_number);
    }
    return error;
}

// Opening to read, or to write.
static int opening(int flags) {
    return flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC) ? CREATE : OPEN;
}

static const char *path_of(int fd, char *buffer) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, buffer, PATH_MAX - 1);
    if (length < 0) return NULL;
    buffer[length] = 0;
    return buffer;
}

static const char *path_at(int fd, const char *path, char *buffer) {
    if (!path || path[0] == '/' || fd == AT_FDCWD) return path;
    if (!path_of(fd, buffer)) return NULL;
    size_t length = strlen(buffer);
    snprintf(buffer + length, PATH_MAX - length, "/%s", path);
    return buffer;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL_IF(cause) do { int cause_ = (cause); if (cause_) { errno = cause_; return -1; } } while (0)
#define RETURN(value) do { __typeof__(value) value_ = (value); int errno_ = errno; \
    if (signal_after) { signal_after = 0; kill(getpid(), signal_number); } errno = errno_; return value_; } while (0)

#define OPEN_AS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        REAL(name); \
        FAIL_IF(fault(opening(flags), path)); \
        RETURN(real(path, flags, mode)); \
    }
OPEN_AS(open)
OPEN_AS(open64)

#define OPENAT_AS(name) \
    int name(int fd, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        REAL(name); \
        char buffer[PATH_MAX]; \
        FAIL_IF(fault(opening(flags), path_at(fd, path, buffer))); \
        RETURN(real(fd, path, flags, mode)); \
    }
OPENAT_AS(openat)
OPENAT_AS(openat64)

ssize_t write(int fd, const void *bytes, size_t count) {
    REAL(write);
    char buffer[PATH_MAX];
    long before = counted;
    int cause = fault(WRITE, root ? path_of(fd, buffer) : NULL);
    // A disk that fills up takes what still fits.
    if (cause == ENOSPC && count > 1 && before + 1 == at) return real(fd, bytes, count / 2);
    FAIL_IF(cause);
    RETURN(real(fd, bytes, count));
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags) {
    REAL(copy_file_range);
    char buffer[PATH_MAX];
    FAIL_IF(fault(WRITE, path_of(out, buffer)));
    RETURN(real(in, from, out, to, count, flags));
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    char buffer[PATH_MAX];
    FAIL_IF(fault(WRITE, path_of(fd, buffer)));
    RETURN(real(fd, length));
}

int fsync(int fd) {
    REAL(fsync);
    char buffer[PATH_MAX];
    FAIL_IF(fault(FSYNC, path_of(fd, buffer)));
    RETURN(real(fd));
}

int fdatasync(int fd) {
    REAL(fdatasync);
    char buffer[PATH_MAX];
    FAIL_IF(fault(FSYNC, path_of(fd, buffer)));
    RETURN(real(fd));
}

int rename(const char *from, const char *to) {
    REAL(rename);
    FAIL_IF(fault(RENAME, to));
    RETURN(real(from, to));
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    FAIL_IF(fault(MKDIR, path));
    RETURN(real(path, mode));
}

int unlink(const char *path) {
    REAL(unlink);
    FAIL_IF(fault(UNLINK, path));
    RETURN(real(path));
}

int rmdir(const char *path) {
    REAL(rmdir);
    FAIL_IF(fault(UNLINK, path));
    RETURN(real(path));
}

int unlinkat(int fd, const char *path, int flags) {
    REAL(unlinkat);
    char buffer[PATH_MAX];
    FAIL_IF(fault(UNLINK, path_at(fd, path, buffer)));
    RETURN(real(fd, path, flags));
}

int flock(int fd, int operation) {
    REAL(flock);
    char buffer[PATH_MAX];
    FAIL_IF(fault(LOCK, path_of(fd, buffer)));
    RETURN(real(fd, operation));
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && jumped && clock == CLOCK_REALTIME) now->tv_sec += jump;
    return result;
}
