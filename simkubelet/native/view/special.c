/* Calls with more than a path: names of Unix sockets, and programs, which may be scripts for interpreters. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "view.h"

enum { NAME_ROOM = sizeof((struct sockaddr_un *)0)->sun_path, PATH_BEGIN = offsetof(struct sockaddr_un, sun_path) };
enum { MOST_NAMES = 256 };

/* Source: Linux v6.1, fs/exec.c, ``exec_binprm``, ``_STK_LIM / 4 * 3``; include/uapi/linux/binfmts.h. */
enum { LINE_BYTES = 257, MOST_SCRIPTS = 5, MOST_WORDS = 2 * MOST_SCRIPTS + 1, MOST_ARGUMENTS = 6 << 17 };

/* The latest names with which sockets were bound, as the kernel knows them and as the program gave them. */
static struct {
    char real[NAME_ROOM], given[NAME_ROOM + 1];
} names[MOST_NAMES];
static unsigned bound;

static const char *given_name(const char *real)
{
    for (unsigned back = 1; *real && back <= bound && back <= MOST_NAMES; back++)
        if (strcmp(names[(bound - back) % MOST_NAMES].real, real) == 0)
            return names[(bound - back) % MOST_NAMES].given;
    return NULL;
}

/* Writes a name that the kernel takes for a path; one that is too long begins with its folder, opened for the call. */
static int shortened(struct tracee *tracee, const char *real, char *name)
{
    char folder[PATH_ROOM];
    if (strlen(real) < NAME_ROOM)
        return strcpy(name, real), 0;
    char *slash = strrchr(strcpy(folder, real), '/');
    *slash = 0;
    int file = tracee->folder ? tracee->folder : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return -errno;
    tracee->folder = file;
    return snprintf(name, NAME_ROOM, "/proc/%d/fd/%d/%s", getpid(), file, slash + 1) < NAME_ROOM ? 0 : -ENAMETOOLONG;
}

/* A call with an address is about to be made. */
int enter_address(struct tracee *tracee, const struct call *call, struct registers *r)
{
    struct sockaddr_un address = {0};
    struct place place;
    char given[NAME_ROOM + 1] = "";
    size_t size = (unsigned)*argument(r, call->path + 1);
    if (!*argument(r, call->path) || size <= PATH_BEGIN || size > sizeof address)
        return GO_ON;
    if (!read_memory(tracee, *argument(r, call->path), &address, size))
        return -EFAULT;
    if (address.sun_family != AF_UNIX || !*address.sun_path)
        return GO_ON;
    memcpy(given, address.sun_path, size - PATH_BEGIN);
    int outcome = resolve(tracee, -1, given, call->follow, &place);
    if (outcome == CHANGED)
        outcome = -refusal(call->kind, 0, &place);
    else if (!outcome)
        return GO_ON;
    if (!outcome && !place.is_natural)
        outcome = shortened(tracee, place.real, address.sun_path);
    if (outcome || place.is_natural)
        return outcome;
    size = PATH_BEGIN + strlen(address.sun_path) + 1;
    *argument(r, call->path + 1) = size;
    *argument(r, call->path) = put(tracee, &address, size);
    if (!*argument(r, call->path))
        return NEEDS_MEMORY;
    if (call->kind == BIND && strlen(given) < NAME_ROOM) {
        strcpy(names[bound % MOST_NAMES].real, address.sun_path);
        strcpy(names[bound++ % MOST_NAMES].given, given);
    }
    return CHANGED;
}

/* A call has written an address, and its length over that of the room for it. */
void leave_name(struct tracee *tracee, struct registers *r)
{
    struct sockaddr_un address = {0};
    char real[NAME_ROOM + 1] = "";
    socklen_t size;
    word there = *argument(&tracee->call, 1), length = *argument(&tracee->call, 2);
    if ((long)RESULT(r) < 0 || !read_memory(tracee, length, &size, sizeof size) || size <= PATH_BEGIN
        || size > sizeof address || size > tracee->room || !read_memory(tracee, there, &address, size)
        || address.sun_family != AF_UNIX)
        return;
    memcpy(real, address.sun_path, size - PATH_BEGIN);
    const char *given = given_name(real);
    if (!given)
        return;
    strcpy(address.sun_path, given);
    size = PATH_BEGIN + (socklen_t)strlen(given) + 1;
    write_memory(tracee, there, &address, size < tracee->room ? size : tracee->room);
    write_memory(tracee, length, &size, sizeof size);
}

/* Reads the line "#!INTERPRETER WORD" of a script; false for another program. */
static bool read_line(const char *real, char *line, char **interpreter, char **word)
{
    int file = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = file < 0 ? -1 : read(file, line, LINE_BYTES - 1);
    if (file >= 0)
        close(file);
    if (length < 3 || strncmp(line, "#!", 2) || faccessat(AT_FDCWD, real, X_OK, AT_EACCESS))
        return false;
    line[length] = 0;
    bool is_cut = length == LINE_BYTES - 1 && !strchr(line, '\n');
    line[strcspn(line, "\n")] = 0;
    *interpreter = line + 2 + strspn(line + 2, " \t");
    char *end = *interpreter + strcspn(*interpreter, " \t");
    if (is_cut && !*end)
        return false;
    *word = end + strspn(end, " \t");
    for (char *last = *word + strlen(*word); last > *word && strchr(" \t", last[-1]); last--)
        last[-1] = 0;
    *end = 0;
    return **interpreter;
}

/* Executes an interpreter as the kernel would: with words of its own, among them the script's path, and the rest. */
static int interpret(struct tracee *tracee, struct registers *r, int path, const char *const *words, const char *real)
{
    word given = *argument(r, path + 1), one = 1, none = 0;
    *argument(r, path) = put(tracee, real, strlen(real) + 1);
    word list[MOST_WORDS], count = 0;
    for (; *words; words++)
        if (**words)
            list[count++] = put(tracee, *words, strlen(*words) + 1);
    word begin = put(tracee, list, 8 * count), end = begin;
    /* The program's own arguments without its name, and the zero at their end. */
    for (word at = given, some[PATH_ROOM / 8]; one;) {
        size_t most = PATH_ROOM - at % PATH_ROOM < 8 ? 1 : (PATH_ROOM - at % PATH_ROOM) / 8, length = 0;
        if (!read_memory(tracee, at, some, 8 * most))
            break;
        while (one && length < most)
            one = some[length++];
        bool has_name = at == given && *some;
        end = put(tracee, some + has_name, 8 * (length - has_name));
        at += 8 * length;
        if (at - given > 8 * MOST_ARGUMENTS)
            return -E2BIG;
    }
    if (one)
        end = put(tracee, &none, 8);
    *argument(r, path + 1) = begin;
    return end ? CHANGED : NEEDS_MEMORY;
}

int enter_execute(struct tracee *tracee, const struct call *call, struct registers *r)
{
    struct place place, interpreter;
    char path[PATH_ROOM], given[PATH_ROOM], lines[MOST_SCRIPTS + 1][LINE_BYTES], *name, *word;
    /* Filled from its end, as the words of an interpreter that is a script come before those of its script. */
    const char *list[MOST_WORDS + 1] = {NULL}, **words = list + MOST_WORDS;
    int folder = call->folder < 0 ? -1 : (int)*argument(r, call->folder), scripts = 0;
    bool is_link = call->flags >= 0 && *argument(r, call->flags) & call->turned;
    int outcome = read_path(tracee, *argument(r, call->path), path);
    if (outcome <= 0)
        return outcome;
    outcome = resolve(tracee, folder, path, is_link ? NO_FOLLOW : FOLLOW, &place);
    if (outcome != CHANGED)
        return outcome;
    bool is_natural = place.is_natural;
    *--words = strcpy(given, *path == '/' || folder < 0 ? path : place.view);
    for (; !place.is_magic && read_line(place.real, lines[scripts], &name, &word); scripts++) {
        if (scripts == MOST_SCRIPTS)
            return -ELOOP;
        if (resolve(tracee, -1, name, FOLLOW, &interpreter) != CHANGED)
            break;
        *--words = word;
        *--words = name;
        is_natural &= interpreter.is_natural;
        place = interpreter;
    }
    if (scripts && !is_natural)
        return interpret(tracee, r, call->path, words, place.real);
    return scripts ? GO_ON : exchange(tracee, r, call->path, &place);
}
