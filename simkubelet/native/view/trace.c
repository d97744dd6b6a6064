/* Follows the threads of a program: see ptrace(2), from "Attaching and detaching" to "Syscall-stops". */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "view.h"

enum { BUCKETS = 256 };
static struct tracee *threads[BUCKETS];

/* Where a thread is in its list, or would be. */
static struct tracee **place_of(pid_t thread)
{
    struct tracee **at = &threads[thread % BUCKETS];
    while (*at && (*at)->thread != thread)
        at = &(*at)->next;
    return at;
}

static struct tracee *found(pid_t thread)
{
    struct tracee **at = place_of(thread);
    if (!*at && !(*at = calloc(1, sizeof **at)))
        exit(1);
    (*at)->thread = thread;
    return *at;
}

/* Whether a process, or for a negative number a group of processes, is the program's own or has ended. */
bool may_change(pid_t process)
{
    char path[64], stat[512] = "", *end;
    int left; /* threads, also where the first one has ended */
    for (size_t bucket = 0; process < -1 && bucket < BUCKETS; bucket++)
        for (struct tracee *one = threads[bucket]; one; one = one->next)
            if (getpgid(one->thread) == -process)
                return true;
    if (process > 0 && *place_of(process))
        return true;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    /* Source: proc(5): the third and the twentieth field of /proc/PID/stat. */
    if (file >= 0 && read(file, stat, sizeof stat - 1) > 0 && (end = strrchr(stat, ')'))
        && sscanf(end, ") Z%*d%*d%*d%*d%*d%*u%*u%*u%*u%*u%*u%*u%*d%*d%*d%*d%d", &left) == 1 && left <= 1)
        process = 0;
    if (file >= 0)
        close(file);
    return !process || (kill(process, 0) && errno == ESRCH);
}

static void forget_memory(struct tracee *tracee)
{
    if (tracee->memory > 0)
        close(tracee->memory);
    tracee->memory = 0;
    tracee->scratch = 0;
}

static void forget(pid_t thread)
{
    struct tracee **at = place_of(thread), *gone = *at;
    if (!gone)
        return;
    *at = gone->next;
    forget_memory(gone);
    free(gone);
}

/* The first stop of a thread, or one with all others of its program: the former waits for its parent's event. */
static void stopped(struct tracee *tracee, int signal)
{
    bool is_group = signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    tracee->held = tracee->is_known ? 0 : signal;
    if (tracee->is_known)
        ptrace(is_group ? PTRACE_LISTEN : PTRACE_CONT, tracee->thread, 0, 0);
}

static void release(struct tracee *tracee)
{
    tracee->is_known = true;
    if (tracee->held)
        stopped(tracee, tracee->held);
}

/* Those whose parents have ended before they said so. */
static void release_all(void)
{
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        for (struct tracee *one = threads[bucket]; one; one = one->next)
            if (one->held)
                release(one);
}

static void handle(struct tracee *tracee, int signal, int event)
{
    struct tracee *child;
    unsigned long about = 0; /* a thread: the new one, or the one that executed */
    if (event && event != PTRACE_EVENT_SECCOMP)
        ptrace(PTRACE_GETEVENTMSG, tracee->thread, 0, &about);
    switch (event) {
    case PTRACE_EVENT_STOP:
        stopped(tracee, signal);
        return;
    case PTRACE_EVENT_SECCOMP:
        ptrace(enter_call(tracee) ? PTRACE_SYSCALL : PTRACE_CONT, tracee->thread, 0, 0);
        return;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
        /* It has a copy of the parent's memory or, until it executes a program, that memory while the parent waits. */
        child = found((pid_t)about);
        child->scratch = event == PTRACE_EVENT_CLONE ? 0 : tracee->scratch;
        child->size = tracee->size;
        release(child);
        break;
    case PTRACE_EVENT_EXEC:
        if ((pid_t)about != tracee->thread)
            forget((pid_t)about);
        forget_memory(tracee);
        tracee->state = RUNNING;
        break;
    default:
        if (signal == (SIGTRAP | 0x80))
            leave_call(tracee);
    }
    ptrace(PTRACE_CONT, tracee->thread, 0, event || signal == (SIGTRAP | 0x80) ? 0 : signal);
}

/* Returns when a program has ended; what it started ends with this process. */
void supervise(pid_t program)
{
    found(program)->is_known = true;
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno == EINTR)
            continue;
        if (thread < 0)
            return;
        if (WIFSTOPPED(status)) {
            handle(found(thread), WSTOPSIG(status), status >> 16);
        } else if (thread == program) {
            return;
        } else {
            forget(thread);
            release_all();
        }
    }
}
