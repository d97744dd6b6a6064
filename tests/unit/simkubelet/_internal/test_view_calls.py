"""Which calls the supervisor of a view knows: none with a path, or with a descriptor for one, may pass it unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simkubelet._internal import bundle

SOURCE = bundle.CHECKOUT / "simkubelet/native/view/calls.c"
HEADERS = sorted(
    path
    # Debian's package has those of all its architectures, of which the supervisor knows two.
    for folder in ("", "x86_64-linux-gnu", "aarch64-linux-gnu")
    for path in Path("/usr/include", folder).glob("asm/unistd_64.h")
)
WITHOUT_PATHS = """
_sysctl adjtimex afs_syscall alarm arch_prctl brk cachestat capget capset clock_adjtime clock_getres
clock_gettime clock_nanosleep clock_settime clone close close_range copy_file_range create_module delete_module dup
dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
eventfd eventfd2 exit exit_group fadvise64 fallocate fanotify_init fchdir fcntl fdatasync fgetxattr finit_module
flistxattr flock fork fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake
get_kernel_syms get_mempolicy get_robust_list get_thread_area getcpu getdents getdents64 getgroups getitimer getpgid
getpgrp getpid getpmsg getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockopt gettid
gettimeofday init_module inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents
io_setup io_submit ioctl ioperm iopl ioprio_get kexec_file_load kexec_load landlock_add_rule
landlock_create_ruleset landlock_restrict_self listen listmount listns lseek lsm_get_self_attr lsm_list_modules
lsm_set_self_attr madvise map_shadow_stack mbind membarrier memfd_create mincore mlock mlock2 mlockall mmap modify_ldt
mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv
msgsnd msync munlock munlockall munmap nanosleep nfsservctl pause perf_event_open personality pipe pipe2 pkey_alloc
pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 process_madvise process_mrelease pselect6 putpmsg
pwrite64 pwritev pwritev2 query_module quotactl_fd read readahead readv reboot recvfrom recvmmsg recvmsg
remap_file_pages restart_syscall rseq rseq_slice_yield rt_sigaction rt_sigpending rt_sigprocmask
rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_get_priority_max sched_get_priority_min sched_getaffinity
sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_yield seccomp security select semctl
semget semop semtimedop sendfile sendmmsg sendmsg set_mempolicy set_mempolicy_home_node set_robust_list
set_thread_area set_tid_address setdomainname setfsgid setfsuid setgid setgroups sethostname setitimer setpgid
setregid setresgid setresuid setreuid setrlimit setsid setsockopt settimeofday setuid shmat shmctl shmdt shmget
shutdown sigaltstack signalfd signalfd4 socket socketpair splice statmount sync sync_file_range syncfs sysfs sysinfo
syslog tee time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tuxcall umask uname unshare uprobe uretprobe userfaultfd ustat vfork vhangup vmsplice vserver
wait4 waitid write writev
"""
"""Of Linux 7.2 on x86-64 and arm64; `newfstatat` and its like have other names in the headers of arm64."""


def known() -> set[str]:
    text = SOURCE.read_text()
    return {*re.findall(r"\{SYS_(\w+?)_?,", text), *re.findall(r"\{\d+, E\w+\}, /\* (\w+)", text)}


def newest() -> int:
    found = re.search(r"NEWEST = (\d+)", SOURCE.read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("header", HEADERS, ids=str)
def test_each_call_of_this_systems_headers_was_looked_at(header: Path) -> None:
    calls = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", header.read_text())}

    unseen = set(calls) - known() - set(WITHOUT_PATHS.split())

    assert {name for name in unseen if calls[name] <= newest()} == set()


def test_call_is_either_seen_or_without_a_path() -> None:
    assert known() & set(WITHOUT_PATHS.split()) == set()
