/*
 * A node's view without a mount namespace: a supervisor that traces a program and translates the paths of its calls.
 *
 * start.c runs the program, trace.c follows its threads, rewrite.c handles a call, special.c one that names a socket or
 * a program, refuse.c says what may not be changed, resolve.c follows a path, table.c knows what is shown where, and
 * calls.c which calls have paths.
 *
 * Kernel facts: ptrace(2), seccomp(2), path_resolution(7), unix(7).
 */
#ifndef SIMKUBELET_VIEW_H
#define SIMKUBELET_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "registers.h"

enum { PATH_ROOM = 4096, SCRATCH_BYTES = 4 * PATH_ROOM };

/* A file or folder `real` that is shown at the path `view`; the root's view is the empty text. */
struct binding {
    const char *view, *real;
    bool is_writable;
};

/* Where a path of the view leads. */
struct place {
    char view[PATH_ROOM], real[PATH_ROOM];
    const struct binding *binding; /* it, or the innermost above it */
    const struct binding *parent;  /* the same for the folder that has it */
    bool is_natural;               /* the kernel comes to the same place by itself */
    bool is_magic;                 /* a link below /proc/PID, which the kernel follows */
};

enum follow { FOLLOW, NO_FOLLOW, ENTRY }; /* the name of an entry is not even followed before a slash */

enum kind {
    LOOK_UP, OPEN, OPEN_HOW, ACCESS, CREATE, REMOVE_FILE, REMOVE_FOLDER, UNLINK, RENAME, LINK, CHANGE, CHANGE_OPENED,
    TRUNCATE, READ_LINK, GET_CWD, EXECUTE, BIND, CONNECT, SOCKET_NAME, PROCESS,
};

/* A call that is traced; numbers of arguments, -1 for none. A second path follows the first, each after its folder.
 * One that names a process has its id in the place of a path; with `turned` as its flags, not 0, it names all of a user,
 * with one less a group. */
struct call {
    short number;
    unsigned char kind;
    signed char folder, path, flags;
    enum follow follow; /* the last part of the path, unless the flags have... */
    unsigned turned;    /* ...one of these */
};

/* What becomes of a call; a negative error number is answered instead of it. */
enum outcome { GO_ON, CHANGED, NEEDS_MEMORY, WATCHED, ANSWERED };

struct tracee {
    pid_t thread, process;
    struct tracee *next;
    enum { RUNNING, MAPPING, REWRITTEN, NAMING } state;
    bool is_known;         /* its parent's event has come; before that... */
    int held;              /* ...it stopped with this signal */
    word scratch;          /* memory of its own for longer arguments, 0 for none */
    size_t size, used;     /* of that */
    int mappings;          /* how often it was mapped for the same call */
    int memory;            /* the file of its memory, 0 for none yet */
    struct registers call; /* as the program made the call */
    socklen_t room;        /* for the name of a socket */
    int folder;            /* an open one that has a socket, 0 for none */
};

void load_bindings(int file);
const struct binding *binding_at(const char *view);
const struct binding *binding_above(const char *view);
const struct binding *shown_at(const char *real, char *view);
bool has_bindings_below(const char *view);
bool append(char *path, const char *text);
bool real_of(const char *view, char *real);

ssize_t link_target(const char *path, char *target);
bool is_of_process(const char *real);
int resolve(struct tracee *, int folder, const char *path, enum follow, struct place *);

const struct call *find_call(long number);
void install_filter(void);

int refusal(enum kind, unsigned flags, const struct place *);
int refusal_of_two(enum kind, const struct place *old, const struct place *new);
int refusal_opened(struct tracee *, int file);

bool read_memory(struct tracee *, word address, void *, size_t);
bool write_memory(struct tracee *, word address, const void *, size_t);
int read_path(struct tracee *, word address, char *path);
word put(struct tracee *, const void *, size_t);
int exchange(struct tracee *, struct registers *, int index, const struct place *);
bool enter_call(struct tracee *);
void leave_call(struct tracee *);

int enter_address(struct tracee *, const struct call *, struct registers *);
void leave_name(struct tracee *, struct registers *);
int enter_execute(struct tracee *, const struct call *, struct registers *);

bool may_change(pid_t process);
void supervise(pid_t program);

#endif
