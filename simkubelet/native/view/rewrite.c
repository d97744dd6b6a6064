/*
 * Translates the calls of a thread: it sees paths of its view, the kernel real ones.
 *
 * A call whose path differs gets another in scratch memory that the thread maps for itself: nothing is written below its
 * stack pointer. When it returns its registers are as before, and hold the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "view.h"

/* The memory of a thread, by a file to be read: containers may refuse process_vm_readv(2), which does the same. */
static int memory_of(struct tracee *tracee)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", tracee->thread);
    if (tracee->memory <= 0)
        tracee->memory = open(path, O_RDONLY | O_CLOEXEC);
    return tracee->memory;
}

bool read_memory(struct tracee *tracee, word address, void *into, size_t size)
{
    return pread(memory_of(tracee), into, size, (off_t)address) == (ssize_t)size;
}

bool write_memory(struct tracee *tracee, word address, const void *from, size_t size)
{
    /* Nobody under these rules of Landlock may open the file of another's memory to write it. */
    struct iovec here = {(void *)from, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t written = process_vm_writev(tracee->thread, &here, 1, &there, 1, 0);
    if (written >= 0 || errno == EFAULT)
        return written == (ssize_t)size;
    for (size_t done = 0, more, before; done < size; done += more) {
        /* A whole word is in one page; what it has besides stays as it is. */
        long some;
        before = (address + done) % sizeof some;
        more = size - done < sizeof some - before ? size - done : sizeof some - before;
        if (!read_memory(tracee, address + done - before, &some, sizeof some))
            return false;
        memcpy((char *)&some + before, (const char *)from + done, more);
        if (ptrace(PTRACE_POKEDATA, tracee->thread, address + done - before, some))
            return false;
    }
    return true;
}

/*
 * Reads a path; its length, 0 for none or an empty one, a negative error number. The kernel may be able to read what
 * cannot be read here, such as memory that a thread maps meanwhile, so that is not left to it.
 */
int read_path(struct tracee *tracee, word address, char *path)
{
    for (size_t size = 0, more; size < PATH_ROOM; size += more) {
        /* Up to the end of a page: what is behind it may not be there. */
        more = PATH_ROOM - (size_t)((address + size) % PATH_ROOM);
        more = more > PATH_ROOM - size ? PATH_ROOM - size : more;
        if (!read_memory(tracee, address + size, path + size, more))
            return address ? -EFAULT : 0;
        if (memchr(path + size, 0, more))
            return (int)strlen(path);
    }
    return -ENAMETOOLONG;
}

/* Puts something into a thread's scratch memory; its address there, 0 where it has no room. */
word put(struct tracee *tracee, const void *what, size_t size)
{
    word address = tracee->scratch + tracee->used;
    tracee->used += (size + 7) & ~(size_t)7;
    if (!tracee->scratch || tracee->used > tracee->size)
        return 0;
    if (!write_memory(tracee, address, what, size))
        tracee->scratch = 0;
    return tracee->scratch ? address : 0;
}

/* Lets the thread map memory, and make its call again afterwards. */
static void map_scratch(struct tracee *tracee, struct registers *r)
{
    tracee->size = tracee->used > SCRATCH_BYTES ? tracee->used : SCRATCH_BYTES;
    word words[] = {0, tracee->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1ull, 0};
    for (int index = 0; index < 6; index++)
        *argument(r, index) = words[index];
    NUMBER(r) = SYS_mmap;
    tracee->state = MAPPING;
}

/* Gives the kernel another path, unless it comes to the same place by itself. */
int exchange(struct tracee *tracee, struct registers *r, int index, const struct place *place)
{
    if (place->is_natural)
        return GO_ON;
    word address = put(tracee, place->real, strlen(place->real) + 1);
    *argument(r, index) = address;
    return address ? CHANGED : NEEDS_MEMORY;
}

/* Writes a path of the view as the result of a call, instead of the real one; what the kernel answers is left alone. */
static int answer_path(struct tracee *tracee, struct registers *r, const char *link, int buffer, bool has_end)
{
    char real[PATH_ROOM], view[PATH_ROOM];
    if (link_target(link, real) <= 0 || *real != '/' || !shown_at(real, view) || strcmp(real, view) == 0)
        return GO_ON;
    size_t size = strlen(*view ? view : strcpy(view, "/")) + has_end, room = *argument(r, buffer + 1);
    if (size > room && has_end)
        return -ERANGE;
    size = size > room ? room : size;
    if (!size)
        return -EINVAL;
    /* The result may be in the register of the first argument. */
    if (!write_memory(tracee, *argument(r, buffer), view, size))
        return -EFAULT;
    RESULT(r) = size;
    return ANSWERED;
}

/* The flags of a call; -1 for those of openat2 that nobody translates. */
static long flags_of(struct tracee *tracee, const struct call *call, struct registers *r)
{
    word how[3]; /* flags, mode, resolve */
    unsigned flags = call->flags < 0 ? 0 : (unsigned)*argument(r, call->flags);
    if (call->kind == OPEN_HOW)
        return read_memory(tracee, *argument(r, 2), how, sizeof how) && !how[2] ? (long)how[0] : -1;
    if (call->kind == ACCESS)
        return ((unsigned)*argument(r, call->path + 1) & 7) | (flags & ~7u);
    return call->kind == OPEN && call->flags < 0 ? O_CREAT | O_WRONLY | O_TRUNC : flags;
}

static enum follow follow_of(const struct call *call, unsigned flags, const char *path)
{
    if (call->kind == OPEN || call->kind == OPEN_HOW) {
        if (flags & O_CREAT && path[strlen(path) - 1] == '/')
            return ENTRY;
        return flags & O_NOFOLLOW || (flags & O_CREAT && flags & O_EXCL) ? NO_FOLLOW : FOLLOW;
    }
    return !(flags & call->turned) ? call->follow : call->follow == FOLLOW ? NO_FOLLOW : FOLLOW;
}

static int enter_two(struct tracee *tracee, const struct call *call, struct registers *r, const struct place *old)
{
    struct place new;
    char path[PATH_ROOM];
    int second = call->folder < 0 ? call->path + 1 : call->path + 2;
    int outcome = *argument(r, second) ? read_path(tracee, *argument(r, second), path) : -EFAULT;
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    outcome = resolve(tracee, call->folder < 0 ? -1 : (int)*argument(r, second - 1), path, ENTRY, &new);
    if (outcome != CHANGED)
        return outcome;
    if ((outcome = refusal_of_two(call->kind, old, &new)))
        return -outcome;
    outcome = exchange(tracee, r, call->path, old);
    int of_new = exchange(tracee, r, second, &new);
    return of_new > outcome ? of_new : outcome;
}

/* A call that names no file but, in its flags or by having no path, one that is open. */
static int enter_opened(struct tracee *tracee, const struct call *call, struct registers *r, int file, long flags)
{
    struct place old;
    char link[64] = "/proc/self/cwd";
    bool is_named = file != AT_FDCWD || flags & AT_EMPTY_PATH;
    if (call->kind == CHANGE_OPENED || (call->kind == CHANGE && is_named))
        return -refusal_opened(tracee, file);
    if (call->kind != LINK || !(flags & AT_EMPTY_PATH))
        return GO_ON;
    if (file != AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int outcome = resolve(tracee, -1, link, FOLLOW, &old);
    return outcome == CHANGED ? enter_two(tracee, call, r, &old) : outcome;
}

static int enter_path(struct tracee *tracee, const struct call *call, struct registers *r)
{
    struct place place;
    char path[PATH_ROOM];
    long flags = flags_of(tracee, call, r);
    int folder = call->folder < 0 ? -1 : (int)*argument(r, call->folder);
    if (flags < 0)
        return -ENOSYS;
    int outcome = call->kind == CHANGE_OPENED ? 0 : read_path(tracee, *argument(r, call->path), path);
    if (outcome <= 0)
        return outcome ? outcome : enter_opened(tracee, call, r, folder, flags);
    outcome = resolve(tracee, folder, path, follow_of(call, (unsigned)flags, path), &place);
    if (outcome != CHANGED)
        return outcome;
    if (call->kind == RENAME || call->kind == LINK)
        return enter_two(tracee, call, r, &place);
    enum kind kind = call->kind != UNLINK ? call->kind : flags & AT_REMOVEDIR ? REMOVE_FOLDER : REMOVE_FILE;
    if ((outcome = refusal(kind, (unsigned)flags, &place)))
        return -outcome;
    if (kind == READ_LINK && place.is_magic)
        outcome = answer_path(tracee, r, place.real, call->path + 1, false);
    return outcome ? outcome : exchange(tracee, r, call->path, &place);
}

static int enter(struct tracee *tracee, const struct call *call, struct registers *r)
{
    char link[64];
    unsigned which;
    pid_t process;
    switch (call->kind) {
    case GET_CWD:
        snprintf(link, sizeof link, "/proc/%d/cwd", tracee->thread);
        return answer_path(tracee, r, link, 0, true);
    case EXECUTE:
        return enter_execute(tracee, call, r);
    case BIND:
    case CONNECT:
        return enter_address(tracee, call, r);
    case SOCKET_NAME:
        return read_memory(tracee, *argument(r, 2), &tracee->room, sizeof tracee->room) ? WATCHED : GO_ON;
    case PROCESS:
        which = call->flags < 0 ? 0 : (unsigned)*argument(r, call->flags);
        process = (pid_t)*argument(r, call->path);
        if (call->turned && which == call->turned)
            return -EPERM;
        if (call->turned && which == call->turned - 1)
            process = -process;
        return !process || may_change(process) ? GO_ON : -EPERM;
    default:
        return enter_path(tracee, call, r);
    }
}

/* A thread is about to make a call; whether it is to stop when that returns. */
bool enter_call(struct tracee *tracee)
{
    struct registers r;
    if (exchange_registers(false, tracee->thread, &r))
        return false;
    const struct call *call = find_call((long)NUMBER(&r));
    tracee->call = r;
    tracee->used = 0;
    int outcome = !call ? GO_ON : memory_of(tracee) < 0 ? -EMFILE : enter(tracee, call, &r);
    tracee->state = outcome == CHANGED ? REWRITTEN : outcome == WATCHED ? NAMING : RUNNING;
    tracee->mappings = outcome == NEEDS_MEMORY ? tracee->mappings + 1 : 0;
    if (tracee->mappings > 2)
        outcome = -ENOMEM; /* nobody can write there */
    if (outcome < 0) {
        r = tracee->call;
        RESULT(&r) = (word)outcome;
    }
    if (outcome < 0 || outcome == ANSWERED)
        NUMBER(&r) = -1;
    if (outcome == NEEDS_MEMORY) {
        r = tracee->call;
        map_scratch(tracee, &r);
    }
    if (outcome != GO_ON && outcome != WATCHED)
        exchange_registers(true, tracee->thread, &r);
    return tracee->state != RUNNING;
}

/* A thread has made a call that was changed, or one whose result is. */
void leave_call(struct tracee *tracee)
{
    struct registers r;
    if (tracee->state == RUNNING || exchange_registers(false, tracee->thread, &r))
        return;
    word result = RESULT(&r);
    bool is_mapped = tracee->state == MAPPING && result < -(word)PATH_ROOM;
    if (tracee->state == NAMING)
        leave_name(tracee, &r);
    if (tracee->state == MAPPING)
        tracee->scratch = is_mapped ? result : 0;
    if (tracee->folder)
        close(tracee->folder);
    tracee->folder = 0;
    for (int index = 0; index < 6; index++)
        *argument(&r, index) = *argument(&tracee->call, index);
    RESULT(&r) = result;
    if (is_mapped) {
        r = tracee->call;
        rewind_call(&r);
    }
    tracee->state = RUNNING;
    exchange_registers(true, tracee->thread, &r);
}
