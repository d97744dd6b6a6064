/* The calls that name files, and the filter that lets all others pass. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "view.h"

/* The last of Linux 7.2. Later ones, which may have paths, are refused as by a kernel that lacks them. */
enum { NEWEST = 471, IOPRIO_WHO_USER = 3, LISTENER = 1 << 3 };

/* Newer than the headers of some systems; the numbers are those of all architectures. */
#define SYS_pidfd_open_ 434
#define SYS_openat2_ 437
#define SYS_faccessat2_ 439
#define SYS_fchmodat2_ 452

enum { NOT_LINKS = AT_SYMLINK_NOFOLLOW, LINKS = AT_SYMLINK_FOLLOW };

static const struct call calls[] = {
    {SYS_openat, OPEN, 0, 1, 2, FOLLOW, O_NOFOLLOW}, {SYS_openat2_, OPEN_HOW, 0, 1, 2, FOLLOW, 0},
    {SYS_newfstatat, LOOK_UP, 0, 1, 3, FOLLOW, NOT_LINKS}, {SYS_statx, LOOK_UP, 0, 1, 2, FOLLOW, NOT_LINKS},
    {SYS_faccessat, ACCESS, 0, 1, -1, FOLLOW, 0}, {SYS_faccessat2_, ACCESS, 0, 1, 3, FOLLOW, NOT_LINKS},
    {SYS_mkdirat, CREATE, 0, 1, -1, ENTRY, 0}, {SYS_mknodat, CREATE, 0, 1, -1, ENTRY, 0},
    {SYS_symlinkat, CREATE, 1, 2, -1, ENTRY, 0}, {SYS_unlinkat, UNLINK, 0, 1, 2, ENTRY, 0},
    {SYS_renameat2, RENAME, 0, 1, -1, ENTRY, 0}, {SYS_linkat, LINK, 0, 1, 4, NO_FOLLOW, LINKS},
    {SYS_readlinkat, READ_LINK, 0, 1, -1, NO_FOLLOW, 0}, {SYS_fchmodat, CHANGE, 0, 1, -1, FOLLOW, 0},
    {SYS_fchmodat2_, CHANGE, 0, 1, 3, FOLLOW, NOT_LINKS}, {SYS_fchownat, CHANGE, 0, 1, 4, FOLLOW, NOT_LINKS},
    {SYS_utimensat, CHANGE, 0, 1, 3, FOLLOW, NOT_LINKS}, {SYS_setxattr, CHANGE, -1, 0, -1, FOLLOW, 0},
    {SYS_lsetxattr, CHANGE, -1, 0, -1, NO_FOLLOW, 0}, {SYS_removexattr, CHANGE, -1, 0, -1, FOLLOW, 0},
    {SYS_lremovexattr, CHANGE, -1, 0, -1, NO_FOLLOW, 0}, {SYS_fchmod, CHANGE_OPENED, 0, -1, -1, FOLLOW, 0},
    {SYS_fchown, CHANGE_OPENED, 0, -1, -1, FOLLOW, 0}, {SYS_fsetxattr, CHANGE_OPENED, 0, -1, -1, FOLLOW, 0},
    {SYS_fremovexattr, CHANGE_OPENED, 0, -1, -1, FOLLOW, 0}, {SYS_truncate, TRUNCATE, -1, 0, -1, FOLLOW, 0},
    {SYS_execveat, EXECUTE, 0, 1, 4, FOLLOW, NOT_LINKS}, {SYS_execve, EXECUTE, -1, 0, -1, FOLLOW, 0},
    {SYS_chdir, LOOK_UP, -1, 0, -1, FOLLOW, 0}, {SYS_statfs, LOOK_UP, -1, 0, -1, FOLLOW, 0},
    {SYS_getxattr, LOOK_UP, -1, 0, -1, FOLLOW, 0}, {SYS_lgetxattr, LOOK_UP, -1, 0, -1, NO_FOLLOW, 0},
    {SYS_listxattr, LOOK_UP, -1, 0, -1, FOLLOW, 0}, {SYS_llistxattr, LOOK_UP, -1, 0, -1, NO_FOLLOW, 0},
    {SYS_inotify_add_watch, LOOK_UP, -1, 1, 2, FOLLOW, IN_DONT_FOLLOW},
    {SYS_name_to_handle_at, LOOK_UP, 0, 1, 4, NO_FOLLOW, LINKS}, {SYS_fanotify_mark, LOOK_UP, 3, 4, -1, FOLLOW, 0},
    {SYS_getcwd, GET_CWD, -1, -1, -1, FOLLOW, 0}, {SYS_bind, BIND, -1, 1, -1, ENTRY, 0},
    {SYS_connect, CONNECT, -1, 1, -1, FOLLOW, 0}, {SYS_sendto, CONNECT, -1, 4, -1, FOLLOW, 0},
    {SYS_getsockname, SOCKET_NAME, -1, 1, -1, FOLLOW, 0}, {SYS_getpeername, SOCKET_NAME, -1, 1, -1, FOLLOW, 0},
    {SYS_kill, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_tkill, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_tgkill, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_rt_sigqueueinfo, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_rt_tgsigqueueinfo, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_pidfd_open_, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_ptrace, PROCESS, -1, 1, -1, FOLLOW, 0}, {SYS_kcmp, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_process_vm_readv, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_process_vm_writev, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_migrate_pages, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_move_pages, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_prlimit64, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_sched_setparam, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_sched_setscheduler, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_sched_setattr, PROCESS, -1, 0, -1, FOLLOW, 0},
    {SYS_sched_setaffinity, PROCESS, -1, 0, -1, FOLLOW, 0}, {SYS_setpriority, PROCESS, -1, 1, 0, FOLLOW, PRIO_USER},
    {SYS_ioprio_set, PROCESS, -1, 1, 0, FOLLOW, IOPRIO_WHO_USER},
    {SYS_accept, SOCKET_NAME, -1, 1, -1, FOLLOW, 0}, {SYS_accept4, SOCKET_NAME, -1, 1, -1, FOLLOW, 0},
#ifdef SYS_renameat
    {SYS_renameat, RENAME, 0, 1, -1, ENTRY, 0},
#endif
#ifdef SYS_open
    {SYS_open, OPEN, -1, 0, 1, FOLLOW, O_NOFOLLOW}, {SYS_creat, OPEN, -1, 0, -1, FOLLOW, 0},
    {SYS_stat, LOOK_UP, -1, 0, -1, FOLLOW, 0}, {SYS_lstat, LOOK_UP, -1, 0, -1, NO_FOLLOW, 0},
    {SYS_access, ACCESS, -1, 0, -1, FOLLOW, 0}, {SYS_mkdir, CREATE, -1, 0, -1, ENTRY, 0},
    {SYS_mknod, CREATE, -1, 0, -1, ENTRY, 0}, {SYS_symlink, CREATE, -1, 1, -1, ENTRY, 0},
    {SYS_unlink, REMOVE_FILE, -1, 0, -1, ENTRY, 0}, {SYS_rmdir, REMOVE_FOLDER, -1, 0, -1, ENTRY, 0},
    {SYS_rename, RENAME, -1, 0, -1, ENTRY, 0}, {SYS_link, LINK, -1, 0, -1, NO_FOLLOW, 0},
    {SYS_readlink, READ_LINK, -1, 0, -1, NO_FOLLOW, 0}, {SYS_chmod, CHANGE, -1, 0, -1, FOLLOW, 0},
    {SYS_chown, CHANGE, -1, 0, -1, FOLLOW, 0}, {SYS_lchown, CHANGE, -1, 0, -1, NO_FOLLOW, 0},
    {SYS_utime, CHANGE, -1, 0, -1, FOLLOW, 0}, {SYS_utimes, CHANGE, -1, 0, -1, FOLLOW, 0},
    {SYS_futimesat, CHANGE, 0, 1, -1, FOLLOW, 0},
#endif
};

/*
 * Answered at once. A plugin is root on its node: a user's is told so, and has the user's rights. No filter sees the
 * calls of io_uring, the flags of clone3 and whom pidfd_send_signal is for, instead of which C libraries and Go take
 * clone and kill, as where a container has none of them. Newer calls with a path have older ones beside them. What makes
 * or enters namespaces, mounts or a root changes where the kernel finds paths; it takes rights that nobody has here. A
 * memfd_secret has paths that only the kernel reads. Keys of the user are shared by all who are that user.
 */
static const struct {
    short number, error;
} answered[] = {
    {SYS_getuid, 0}, {SYS_geteuid, 0}, {SYS_getgid, 0}, {SYS_getegid, 0}, {SYS_mount, EPERM}, {SYS_umount2, EPERM},
    {SYS_pivot_root, EPERM}, {SYS_chroot, EPERM}, {SYS_setns, EPERM}, {SYS_swapon, EPERM}, {SYS_swapoff, EPERM},
    {SYS_acct, EPERM}, {SYS_quotactl, EPERM}, {SYS_bpf, EPERM}, {SYS_open_by_handle_at, EPERM},
    {SYS_lookup_dcookie, EPERM}, {SYS_add_key, ENOSYS}, {SYS_request_key, ENOSYS}, {SYS_keyctl, ENOSYS},
#ifdef SYS_uselib
    {SYS_uselib, ENOSYS},
#endif
    {424, ENOSYS}, /* pidfd_send_signal */
    {425, ENOSYS}, /* io_uring_setup */
    {426, ENOSYS}, /* io_uring_enter */
    {427, ENOSYS}, /* io_uring_register */
    {428, ENOSYS}, /* open_tree */
    {429, ENOSYS}, /* move_mount */
    {430, ENOSYS}, /* fsopen */
    {431, ENOSYS}, /* fsconfig */
    {432, ENOSYS}, /* fsmount */
    {433, ENOSYS}, /* fspick */
    {435, ENOSYS}, /* clone3 */
    {438, EPERM}, /* pidfd_getfd */
    {442, ENOSYS}, /* mount_setattr */
    {447, ENOSYS}, /* memfd_secret */
    {463, ENOSYS}, /* setxattrat */
    {464, ENOSYS}, /* getxattrat */
    {465, ENOSYS}, /* listxattrat */
    {466, ENOSYS}, /* removexattrat */
    {467, ENOSYS}, /* open_tree_attr */
    {468, ENOSYS}, /* file_getattr */
    {469, ENOSYS}, /* file_setattr */
};

/*
 * The kinds and numbers of ioctl(2) that change a file which is open for reading: attributes, version, encryption,
 * verity, and subvolumes of btrfs.
 *
 * Source: include/uapi/linux/fs.h, fscrypt.h, fsverity.h, msdos_fs.h and btrfs.h, fs/ext4/ext4.h (Linux 6.18).
 */
static const unsigned short refused_ioctls[] = {
    'f' << 8 | 2, 'f' << 8 | 4, 'v' << 8 | 2, 'X' << 8 | 32, 'r' << 8 | 17, 'f' << 8 | 9, 'f' << 8 | 12, 'f' << 8 | 19,
    'f' << 8 | 23, 'f' << 8 | 24, 'f' << 8 | 25, 'f' << 8 | 133, 0x9401, 0x940e, 0x940f, 0x9417, 0x9418, 0x941a, 0x9425,
    0x943f,
};

const struct call *find_call(long number)
{
    static const struct call *by_number[NEWEST + 1];
    for (size_t index = sizeof calls / sizeof *calls; !by_number[calls[0].number] && index--;)
        by_number[calls[index].number] = &calls[index];
    return number >= 0 && number <= NEWEST ? by_number[number] : NULL;
}

static struct sock_filter program[4 * NEWEST];
static unsigned short end;

static void add(unsigned short code, unsigned value, unsigned char if_so, unsigned char if_not)
{
    program[end++] = (struct sock_filter)BPF_JUMP(code, value, if_so, if_not);
}

static void add_return(unsigned value) { add(BPF_RET | BPF_K, value, 0, 0); }

static void add_load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0); }

static void add_if(unsigned number, unsigned char skipped) { add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, skipped); }

/* Refuses a call with some flags. */
static void add_refusal(unsigned number, size_t index, unsigned flags, unsigned error)
{
    add_if(number, 4);
    add_load(offsetof(struct seccomp_data, args) + 8 * index);
    add(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1);
    add_return(SECCOMP_RET_ERRNO | error);
    add_return(SECCOMP_RET_ALLOW);
}

static void refuse_ioctls(void)
{
    unsigned char count = sizeof refused_ioctls / sizeof *refused_ioctls;
    add_if(SYS_ioctl, count + 4);
    add_load(offsetof(struct seccomp_data, args) + 8);
    add(BPF_ALU | BPF_AND | BPF_K, 0xffff, 0, 0);
    for (unsigned char index = 0; index < count; index++)
        add(BPF_JMP | BPF_JEQ | BPF_K, refused_ioctls[index], count - index, 0);
    add_return(SECCOMP_RET_ALLOW);
    add_return(SECCOMP_RET_ERRNO | EPERM);
}

/* Lets all calls of this process and those that it starts pass but those of the table. */
void install_filter(void)
{
    add_load(offsetof(struct seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    add_return(SECCOMP_RET_KILL_PROCESS);
    add_load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1);
    add_return(SECCOMP_RET_ERRNO | ENOSYS);
    for (size_t index = 0; index < sizeof answered / sizeof *answered; index++) {
        add_if((unsigned)answered[index].number, 1);
        add_return(SECCOMP_RET_ERRNO | (unsigned)answered[index].error);
    }
    for (size_t index = 0; index < sizeof calls / sizeof *calls; index++) {
        const struct call *one = &calls[index];
        bool may_lack_address = one->kind == CONNECT || one->kind == SOCKET_NAME;
        bool may_be_itself = one->kind == PROCESS && one->flags < 0;
        size_t given = offsetof(struct seccomp_data, args) + 8 * (size_t)one->path;
        add_if((unsigned)one->number, may_lack_address ? 6 : may_be_itself ? 5 : 1);
        if (may_lack_address || may_be_itself)
            add_load(given);
        if (may_lack_address) {
            add_if(0, 3);
            add_load(given + 4);
            add_if(0, 1);
            add_return(SECCOMP_RET_ALLOW);
        } else if (may_be_itself) {
            add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
            add_if((unsigned)getpid(), 1);
            add_return(SECCOMP_RET_ALLOW);
        }
        add_return(SECCOMP_RET_TRACE);
    }
    /* A process that is not traced, or another one's child, would not end with the program. */
    add_refusal(SYS_clone, 0, CLONE_UNTRACED | CLONE_PARENT | CLONE_NEWUSER | CLONE_NEWNS, EPERM);
    add_refusal(SYS_unshare, 0, CLONE_NEWUSER | CLONE_NEWNS, EPERM);
    refuse_ioctls();
    /* The memory of a program that nobody may trace could not be written: it is told that it is one. */
    add_if(SYS_prctl, 4);
    add_load(offsetof(struct seccomp_data, args));
    add_if(PR_SET_DUMPABLE, 1);
    add_return(SECCOMP_RET_ERRNO);
    add_return(SECCOMP_RET_ALLOW);
    /* Whoever has a listener can let calls pass that are to be traced. */
    add_refusal(SYS_seccomp, 1, LISTENER, EBUSY);
    add_return(SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {end, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("a filter of system calls is refused");
        _exit(125);
    }
}
