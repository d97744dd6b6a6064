/*
 * Runs a program in a view: simkubelet-view TABLE FOLDER PROGRAM ARGUMENT...
 *
 * TABLE is the descriptor of what load_bindings reads, FOLDER where the program begins, if its view has it. The
 * supervisor is a process of its own that is nobody's child, so the program keeps its id and parent, and has no child
 * that it did not start. Where there can be none it prints a line and exits with 125; with 127 where the program cannot
 * be run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "view.h"

extern char **environ;

#define GIVEN "SIMKUBELET_GIVEN_" /* _internal/enter_view.py */

static const long OPTIONS = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK
                            | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;

/* Takes what the program's processes are known by out of this one's command line and environment. */
static void forget_program(char **words)
{
    for (char **word = words; *word; word++)
        memset(*word, 0, strlen(*word));
    for (char **entry = environ; *entry; entry++)
        memset(*entry, 0, strlen(*entry));
    environ = NULL;
}

/* Gives what is only for the program its name: nothing that runs before obeys it, this one's loader least of all. */
static void name_given_variables(void)
{
    size_t count = 0, place = 0;
    while (environ[count])
        count++;
    while (count--) {
        char *entry = environ[place];
        if (strncmp(entry, GIVEN, sizeof GIVEN - 1)) {
            place++;
            continue;
        }
        for (char **later = environ + place; *later; later++)
            later[0] = later[1];
        putenv(entry + sizeof GIVEN - 1);
    }
}

/* Has no files open but 3, a copy of `file`. */
static void keep_open(int file)
{
    int none = open("/dev/null", O_RDWR);
    for (int number = 0; number < 3; number++)
        dup2(none, number);
    dup2(file, 3);
    if (syscall(SYS_close_range, 4, ~0u, 0))
        for (int number = 4; number < sysconf(_SC_OPEN_MAX); number++)
            close(number);
}

static void run_supervisor(pid_t program, int table, int ready, char **words)
{
    const char *refused = NULL;
    char byte, folder[64];
    forget_program(words);
    load_bindings(table);
    keep_open(ready);
    /* A rule of Landlock is about this folder as the kernel has it in memory, which it may forget and make again. */
    snprintf(folder, sizeof folder, "/proc/%d", program);
    open(folder, O_PATH | O_CLOEXEC);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, SIG_IGN); /* It comes to all that a plugin has started. */
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    /* Read first: a program that is traced ends with this process. */
    errno = EIO;
    if (chdir("/") || !read_memory(&(struct tracee){.thread = program}, (word)&byte, &byte, 1)
        || ptrace(PTRACE_SEIZE, program, 0, OPTIONS))
        refused = strerror(errno);
    if (write(3, refused ? refused : "", refused ? strlen(refused) : 1) > 0 && !refused) {
        close(3);
        supervise(program);
    }
    _exit(0);
}

static void start_supervisor(int table, char **words)
{
    int ready[2], status;
    pid_t program = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = pipe2(ready, O_CLOEXEC) ? -1 : fork();
    if (child == 0) {
        /* No key of a terminal reaches it. In a session of its own it would wait for its turn after others' programs. */
        setpgid(0, 0);
        if (fork() == 0)
            run_supervisor(program, table, ready[1], words);
        _exit(0);
    }
    char answer[128] = "no process can be made";
    ssize_t length = child < 0 ? (ssize_t)strlen(answer) : -1;
    if (child > 0) {
        close(ready[1]);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        while ((length = read(ready[0], answer, sizeof answer - 1)) < 0 && errno == EINTR)
            ;
        close(ready[0]);
    }
    prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    if (length == 1 && !*answer)
        return;
    answer[length > 0 ? length : 0] = 0;
    fprintf(stderr, "ptrace is refused: %s\n", length > 0 ? answer : "its supervisor has ended");
    exit(125);
}

/* As execvp, which would let a shell run what is no program. */
static void execute(char **words)
{
    const char *folder = getenv("PATH");
    char path[PATH_ROOM];
    int error = ENOENT;
    if (strchr(words[0], '/'))
        execv(words[0], words), error = errno;
    else
        for (folder = folder ? folder : "/bin:/usr/bin"; *folder; folder += strspn(folder, ":")) {
            int length = (int)strcspn(folder, ":");
            snprintf(path, sizeof path, "%.*s/%s", length, folder, words[0]);
            execv(path, words);
            error = errno == ENOENT || errno == ENOTDIR ? error : errno;
            folder += length;
        }
    errno = error;
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "--tried") == 0)
        return access("/simkubelet/self/status", R_OK) ? 125 : 0;
    if (count < 4) {
        fputs("usage: simkubelet-view TABLE FOLDER PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    int table = atoi(words[1]);
    start_supervisor(table, words);
    close(table);
    name_given_variables();
    install_filter();
    if (chdir("/") || (chdir(words[2]) && errno == ENOSYS))
        return 125;
    execute(words + 3);
    fprintf(stderr, "cannot run %s: %s\n", words[3], strerror(errno));
    return 127;
}
