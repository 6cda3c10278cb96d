// For LD_PRELOAD: counts the system calls that write below one directory, and lets one of them fail, or ends the process there.
//
// `faults_arm` says which, or the environment: APSCOPE_FAULTS_UNDER=directory, APSCOPE_FAULTS_AT=number from 1,
// APSCOPE_FAULTS_MODE=a name of MODES, APSCOPE_FAULTS_LOG=a file that gets the calls' list at the end.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { COUNT, KILL, KILL_AFTER, KILL_HALF, NO_SPACE, DISK_FULL, IO_ERROR, INTERRUPT };
static const char *const MODES[] = {"count", "kill", "kill_after", "kill_half", "no_space", "disk_full", "io_error", "interrupt"};

#define LOG_BYTES (1 << 20)

// Shared with the process that forked this one, which looks at it when this one is gone.
struct shared {
    char under[PATH_MAX];
    long at;
    int mode;
    atomic_long calls;
    atomic_long used;
    char log[LOG_BYTES];
};
static struct shared *shared;
static long (*raw)(long, ...);

void faults_arm(const char *under, long at, int mode) {
    snprintf(shared->under, sizeof shared->under, "%s", under);
    shared->at = at;
    shared->mode = mode;
    atomic_store(&shared->calls, 0);
    memset(shared->log, 0, (size_t)atomic_exchange(&shared->used, 0));
}

// One line a call: its number, name, flags (s: takes space, d: data that can be half written) and paths.
const char *faults_log(void) { return shared->log; }

__attribute__((constructor)) static void begin(void) {
    if (raw) {
        return;
    }
    *(void **)&raw = dlsym(RTLD_NEXT, "syscall");
    shared = (struct shared *)raw(SYS_mmap, NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0L);
    const char *under = getenv("APSCOPE_FAULTS_UNDER"), *at = getenv("APSCOPE_FAULTS_AT"), *word = getenv("APSCOPE_FAULTS_MODE");
    if (!under) {
        return;
    }
    int mode = COUNT;
    for (int i = 0; word && i < (int)(sizeof MODES / sizeof *MODES); ++i) {
        mode = strcmp(word, MODES[i]) == 0 ? i : mode;
    }
    faults_arm(under, at ? atol(at) : 0, mode);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("APSCOPE_FAULTS_LOG");
    int fd = path ? (int)raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd >= 0) {
        raw(SYS_write, fd, shared->log, strlen(shared->log));
        raw(SYS_close, fd);
    }
}

// ---- Which calls write below the directory ------------------------------------------------------

enum { SPACE = 1, DATA = 2 };
struct call {
    const char *name;  // NULL: none that counts
    int flags;
    char paths[2 * PATH_MAX + 8];
};

// Appends a path to the call's; whether it is below the directory.
static int below(struct call *call, long directory, const char *path) {
    char whole[2 * PATH_MAX] = "", link[64];
    if (!path || path[0] != '/') {
        ssize_t n;
        if (directory == AT_FDCWD) {
            n = readlink("/proc/self/cwd", whole, PATH_MAX - 1);
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%ld", directory);
            n = readlink(link, whole, PATH_MAX - 1);
        }
        if (n < 0) {
            return 0;
        }
        whole[n] = 0;
    }
    if (path && path[0]) {
        size_t n = strlen(whole);
        snprintf(whole + n, sizeof whole - n, "%s%s", n ? "/" : "", path);
    }
    size_t length = strlen(shared->under), used = strlen(call->paths);
    int found = strncmp(whole, shared->under, length) == 0 && (whole[length] == '/' || whole[length] == 0);
    const char *shown = found ? whole + length + (whole[length] == '/') : whole;
    snprintf(call->paths + used, sizeof call->paths - used, " %s", shown);
    return found;
}

static void classify(struct call *call, long number, const long *a) {
    call->name = NULL;
    call->paths[0] = 0;
    int found = 0;
#define OF_FD(SYSCALL, fd, FLAGS) \
    case SYS_##SYSCALL: call->name = #SYSCALL; call->flags = FLAGS; found = below(call, fd, NULL); break
#define OF_PATH(SYSCALL, directory, path, FLAGS) \
    case SYS_##SYSCALL: call->name = #SYSCALL; call->flags = FLAGS; found = below(call, directory, (const char *)(path)); break
    switch (number) {
    case SYS_openat:
        if (a[2] & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) {
            call->name = "openat";
            call->flags = a[2] & O_CREAT ? SPACE : 0;
            found = below(call, a[0], (const char *)a[1]);
        }
        break;
    case SYS_mmap:
        if (a[3] & MAP_SHARED && a[2] & PROT_WRITE && !(a[3] & MAP_ANONYMOUS) && a[4] >= 0) {
            call->name = "mmap";
            call->flags = 0;
            found = below(call, a[4], NULL);
        }
        break;
    case SYS_renameat2:
        call->name = "renameat2";
        call->flags = SPACE;
        found = below(call, a[0], (const char *)a[1]);
        found |= below(call, a[2], (const char *)a[3]);
        break;
    case SYS_linkat:
        call->name = "linkat";
        call->flags = SPACE;
        found = below(call, a[0], (const char *)a[1]);
        found |= below(call, a[2], (const char *)a[3]);
        break;
    OF_FD(write, a[0], SPACE | DATA);
    OF_FD(pwrite64, a[0], SPACE | DATA);
    OF_FD(writev, a[0], SPACE);
    OF_FD(pwritev, a[0], SPACE);
    OF_FD(pwritev2, a[0], SPACE);
    OF_FD(ftruncate, a[0], SPACE);
    OF_FD(fallocate, a[0], SPACE);
    OF_FD(copy_file_range, a[2], SPACE);
    OF_FD(sendfile, a[0], SPACE);
    OF_FD(fsync, a[0], SPACE);
    OF_FD(fdatasync, a[0], SPACE);
    OF_FD(fchmod, a[0], 0);
    OF_FD(fchown, a[0], 0);
    OF_PATH(symlinkat, a[1], a[2], SPACE);
    OF_PATH(mkdirat, a[0], a[1], SPACE);
    OF_PATH(unlinkat, a[0], a[1], 0);
    OF_PATH(truncate, AT_FDCWD, a[0], SPACE);
    OF_PATH(fchmodat, a[0], a[1], 0);
    OF_PATH(fchownat, a[0], a[1], 0);
    OF_PATH(utimensat, a[0], a[1], 0);
    default: break;
    }
#undef OF_FD
#undef OF_PATH
    call->name = found ? call->name : NULL;
}

// ---- What happens at one ------------------------------------------------------------------------

static void end_process(void) {
    raw(SYS_kill, raw(SYS_getpid), SIGKILL);
    for (;;) {
        raw(SYS_pause);
    }
}

static void note(long number, const struct call *call) {
    char line[sizeof call->paths + 64];
    int n = snprintf(line, sizeof line, "%ld %s %s%s%s\n", number, call->name, call->flags & SPACE ? "s" : "-", call->flags & DATA ? "d" : "-",
                     call->paths);
    long place = atomic_fetch_add(&shared->used, n);
    if (place + n < LOG_BYTES) {
        memcpy(shared->log + place, line, (size_t)n);
    }
}

static long with_fault(long number, const long *a, const struct call *call) {
    long now = atomic_fetch_add(&shared->calls, 1) + 1;
    int saved = errno, mode = shared->mode;
    note(now, call);
    errno = saved;
    int here = now == shared->at, later = shared->at > 0 && now > shared->at;
    if (here && mode == KILL) {
        end_process();
    }
    if (here && mode == KILL_HALF) {
        if (call->flags & DATA) {
            raw(number, a[0], a[1], a[2] / 2, a[3], a[4], a[5]);
        }
        end_process();
    }
    if (here && mode == INTERRUPT) {
        raise(SIGINT);
    }
    if (here && mode == IO_ERROR) {
        errno = EIO;
        return -1;
    }
    if (here && mode == DISK_FULL && call->flags & DATA && a[2] > 1) {  // what still finds room is written, as disks do
        return raw(number, a[0], a[1], a[2] / 2, a[3], a[4], a[5]);
    }
    if (call->flags & SPACE && ((here && mode == NO_SPACE) || ((here || later) && mode == DISK_FULL))) {
        errno = ENOSPC;
        return -1;
    }
    long result = raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (here && mode == KILL_AFTER) {
        end_process();
    }
    return result;
}

static long run(long number, long a0, long a1, long a2, long a3, long a4, long a5) {
    begin();
    const long a[] = {a0, a1, a2, a3, a4, a5};
    if (shared->under[0]) {
        struct call call;
        int saved = errno;
        classify(&call, number, a);
        errno = saved;
        if (call.name) {
            return with_fault(number, a, &call);
        }
    }
    return raw(number, a0, a1, a2, a3, a4, a5);
}

// ---- libc's functions ---------------------------------------------------------------------------

#define L(x) (long)(x)
#define ALIAS(name) __attribute__((alias(#name)))
#pragma GCC diagnostic ignored "-Wattribute-alias"

long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; ++i) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    return run(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define MODE_ARGUMENT(flags) \
    long mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, int); \
        va_end(list); \
    }

int open(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags)
    return (int)run(SYS_openat, AT_FDCWD, L(path), flags, mode, 0, 0);
}
int open64(const char *path, int flags, ...) ALIAS(open);
int openat(int directory, const char *path, int flags, ...) {
    MODE_ARGUMENT(flags)
    return (int)run(SYS_openat, directory, L(path), flags, mode, 0, 0);
}
int openat64(int directory, const char *path, int flags, ...) ALIAS(openat);
int creat(const char *path, mode_t mode) { return (int)run(SYS_openat, AT_FDCWD, L(path), O_CREAT | O_WRONLY | O_TRUNC, mode, 0, 0); }
int creat64(const char *path, mode_t mode) ALIAS(creat);

ssize_t write(int fd, const void *data, size_t n) { return run(SYS_write, fd, L(data), L(n), 0, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return run(SYS_pwrite64, fd, L(data), L(n), at, 0, 0); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) ALIAS(pwrite);
ssize_t writev(int fd, const struct iovec *parts, int n) { return run(SYS_writev, fd, L(parts), n, 0, 0, 0); }
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) { return run(SYS_pwritev, fd, L(parts), n, at, 0, 0); }
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t at) ALIAS(pwritev);
ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags) { return run(SYS_pwritev2, fd, L(parts), n, at, 0, flags); }
ssize_t pwritev64v2(int fd, const struct iovec *parts, int n, off64_t at, int flags) ALIAS(pwritev2);
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *place, size_t n, unsigned flags) {
    return run(SYS_copy_file_range, from, L(at), to, L(place), L(n), flags);
}
ssize_t sendfile(int to, int from, off_t *at, size_t n) { return run(SYS_sendfile, to, from, L(at), L(n), 0, 0); }
ssize_t sendfile64(int to, int from, off64_t *at, size_t n) ALIAS(sendfile);
int ftruncate(int fd, off_t n) { return (int)run(SYS_ftruncate, fd, n, 0, 0, 0, 0); }
int ftruncate64(int fd, off64_t n) ALIAS(ftruncate);
int truncate(const char *path, off_t n) { return (int)run(SYS_truncate, L(path), n, 0, 0, 0, 0); }
int truncate64(const char *path, off64_t n) ALIAS(truncate);
int fallocate(int fd, int mode, off_t at, off_t n) { return (int)run(SYS_fallocate, fd, mode, at, n, 0, 0); }
int fallocate64(int fd, int mode, off64_t at, off64_t n) ALIAS(fallocate);
int posix_fallocate(int fd, off_t at, off_t n) { return run(SYS_fallocate, fd, 0, at, n, 0, 0) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t at, off64_t n) ALIAS(posix_fallocate);
int fsync(int fd) { return (int)run(SYS_fsync, fd, 0, 0, 0, 0, 0); }
int fdatasync(int fd) { return (int)run(SYS_fdatasync, fd, 0, 0, 0, 0, 0); }

int rename(const char *from, const char *to) { return (int)run(SYS_renameat2, AT_FDCWD, L(from), AT_FDCWD, L(to), 0, 0); }
int renameat(int a, const char *from, int b, const char *to) { return (int)run(SYS_renameat2, a, L(from), b, L(to), 0, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return (int)run(SYS_renameat2, a, L(from), b, L(to), flags, 0); }
int link(const char *from, const char *to) { return (int)run(SYS_linkat, AT_FDCWD, L(from), AT_FDCWD, L(to), 0, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return (int)run(SYS_linkat, a, L(from), b, L(to), flags, 0); }
int symlink(const char *target, const char *path) { return (int)run(SYS_symlinkat, L(target), AT_FDCWD, L(path), 0, 0, 0); }
int symlinkat(const char *target, int directory, const char *path) { return (int)run(SYS_symlinkat, L(target), directory, L(path), 0, 0, 0); }
int unlink(const char *path) { return (int)run(SYS_unlinkat, AT_FDCWD, L(path), 0, 0, 0, 0); }
int unlinkat(int directory, const char *path, int flags) { return (int)run(SYS_unlinkat, directory, L(path), flags, 0, 0, 0); }
int rmdir(const char *path) { return (int)run(SYS_unlinkat, AT_FDCWD, L(path), AT_REMOVEDIR, 0, 0, 0); }
int mkdir(const char *path, mode_t mode) { return (int)run(SYS_mkdirat, AT_FDCWD, L(path), mode, 0, 0, 0); }
int mkdirat(int directory, const char *path, mode_t mode) { return (int)run(SYS_mkdirat, directory, L(path), mode, 0, 0, 0); }

int chmod(const char *path, mode_t mode) { return (int)run(SYS_fchmodat, AT_FDCWD, L(path), mode, 0, 0, 0); }
int fchmodat(int directory, const char *path, mode_t mode, int flags) { return (int)run(SYS_fchmodat, directory, L(path), mode, flags, 0, 0); }
int fchmod(int fd, mode_t mode) { return (int)run(SYS_fchmod, fd, mode, 0, 0, 0, 0); }
int fchown(int fd, uid_t user, gid_t group) { return (int)run(SYS_fchown, fd, user, group, 0, 0, 0); }
int chown(const char *path, uid_t user, gid_t group) { return (int)run(SYS_fchownat, AT_FDCWD, L(path), user, group, 0, 0); }
int fchownat(int directory, const char *path, uid_t user, gid_t group, int flags) {
    return (int)run(SYS_fchownat, directory, L(path), user, group, flags, 0);
}
int utimensat(int directory, const char *path, const struct timespec times[2], int flags) {
    return (int)run(SYS_utimensat, directory, L(path), L(times), flags, 0, 0);
}
int futimens(int fd, const struct timespec times[2]) { return (int)run(SYS_utimensat, fd, 0, L(times), 0, 0, 0); }
void *mmap(void *at, size_t n, int access, int flags, int fd, off_t place) { return (void *)run(SYS_mmap, L(at), L(n), access, flags, fd, place); }
void *mmap64(void *at, size_t n, int access, int flags, int fd, off64_t place) ALIAS(mmap);
