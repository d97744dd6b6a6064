/* Follows a path of the view, as the kernel follows one of its own: see path_resolution(7). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view.h"

enum { MOST_LINKS = 40 };

/* A path on the way; `place` is how far it has come. */
struct walk {
    struct tracee *tracee;
    struct place *place;
    char rest[2 * PATH_ROOM]; /* what has yet to be followed */
    int links;
    bool is_plain;    /* by names alone, in one binding */
    bool is_faithful; /* it begins where the kernel does, and all links are those that the kernel would meet */
};

/* Reads a link; a negative error number where there is none. */
ssize_t link_target(const char *path, char *target)
{
    ssize_t length = readlink(path, target, PATH_ROOM - 1);
    if (length >= 0)
        target[length] = 0;
    return length < 0 ? -errno : length;
}

static pid_t process_of(struct tracee *one)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", one->thread);
    FILE *file = one->process ? NULL : fopen(path, "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "Tgid: %d", &one->process) != 1)
        ;
    if (file)
        fclose(file);
    return one->process;
}

/* Whether below /proc/PID, where a link leads to more than its text says. */
bool is_of_process(const char *real) { return strncmp(real, "/proc/", 6) == 0 && isdigit((unsigned char)real[6]); }

static void set_rest(struct walk *walk, const char *rest) { memmove(walk->rest, rest, strlen(rest) + 1); }

/* Stops here: the kernel has to say what is wrong with the rest. */
static int leave_rest(struct walk *walk, const char *rest, bool *has_end)
{
    struct place *place = walk->place;
    rest += strspn(rest, "/");
    *has_end = true;
    bool has_room = append(place->real, "/") && append(place->real, rest) && append(place->view, "/");
    return has_room && append(place->view, rest) ? 0 : -ENAMETOOLONG;
}

static void go_to(struct walk *walk, size_t length)
{
    walk->place->view[length] = 0;
    walk->is_plain = false;
    real_of(walk->place->view, walk->place->real);
}

static void go_up(struct walk *walk)
{
    const char *slash = strrchr(walk->place->view, '/');
    go_to(walk, slash ? (size_t)(slash - walk->place->view) : 0);
}

/* Goes on where a link leads; `rest` is what comes after it. */
static int follow_link(struct walk *walk, const char *target, const char *rest)
{
    struct place *place = walk->place;
    char again[PATH_ROOM], both[2 * PATH_ROOM];
    if (++walk->links > MOST_LINKS)
        return -ELOOP;
    if (strcmp(place->view, place->real) && (link_target(place->view, again) < 0 || strcmp(again, target)))
        walk->is_faithful = false;
    if (snprintf(both, sizeof both, "%s%s", target, rest) >= (int)sizeof both)
        return -ENAMETOOLONG;
    set_rest(walk, both);
    if (*target == '/')
        go_to(walk, 0);
    else
        go_up(walk);
    return 0;
}

/* Goes on in the view where a process's own link leads; whether it is known where that is. */
static bool follow_magic(struct walk *walk, const char *target, const char *rest)
{
    struct place *place = walk->place;
    char view[PATH_ROOM];
    if (strcmp(strrchr(place->real, '/'), "/root") == 0) {
        go_to(walk, 0);
    } else if (*target == '/' && shown_at(target, view)) {
        strcpy(place->view, view);
        strcpy(place->real, target);
    } else {
        return false;
    }
    walk->is_plain = walk->is_faithful = false;
    set_rest(walk, rest);
    return true;
}

/* Goes to an entry of the folder where the walk is; "self" of /proc is the process that asks, unless itself is meant. */
static bool enter(struct walk *walk, const char *name, bool is_own_name)
{
    struct place *place = walk->place;
    char number[64];
    if (!is_own_name && strcmp(place->real, "/proc") == 0) {
        bool is_thread = strcmp(name, "thread-self") == 0;
        snprintf(number, sizeof number, is_thread ? "%d/task/%d" : "%d", process_of(walk->tracee), walk->tracee->thread);
        name = is_thread || strcmp(name, "self") == 0 ? number : name;
    }
    if (!append(place->view, "/") || !append(place->view, name))
        return false;
    const struct binding *found = binding_at(place->view);
    walk->is_plain &= !found;
    return found ? (bool)strcpy(place->real, found->real) : append(place->real, "/") && append(place->real, name);
}

/* Follows the first name of what is left; `has_end` is set where there is no more to do. */
static int follow_name(struct walk *walk, enum follow follow, bool *has_end)
{
    struct place *place = walk->place;
    char name[256], target[PATH_ROOM];
    struct stat found;
    const char *begin = walk->rest + strspn(walk->rest, "/"), *rest = begin + strcspn(begin, "/");
    size_t length = (size_t)(rest - begin);
    bool is_last = *has_end = !rest[strspn(rest, "/")];
    if (!length)
        return 0;
    if (length >= sizeof name)
        return leave_rest(walk, begin, has_end);
    memcpy(name, begin, length);
    name[length] = 0;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        if ((is_last && follow == ENTRY) || lstat(place->real, &found) || !S_ISDIR(found.st_mode))
            return leave_rest(walk, begin, has_end);
        if (name[1])
            go_up(walk);
        set_rest(walk, rest);
        return !is_last || append(place->real, "/.") ? 0 : -ENAMETOOLONG;
    }
    bool is_own_name = is_last && (follow == ENTRY || (follow == NO_FOLLOW && !*rest));
    if (!enter(walk, name, is_own_name))
        return -ENAMETOOLONG;
    ssize_t link = is_own_name ? -EINVAL : link_target(place->real, target);
    if (link == -ENAMETOOLONG)
        return (int)link; /* a folder so deep that nobody can say whether the view has it */
    if (link >= 0 && is_of_process(place->real)) {
        if (!may_change(atoi(place->real + strlen("/proc/"))))
            return -EACCES;
        place->is_magic = is_last;
        *has_end = is_last;
        if (is_last || follow_magic(walk, target, rest))
            return 0;
        return *target == '/' ? -EACCES : leave_rest(walk, rest, has_end);
    }
    *has_end = is_last && link < 0;
    if (link >= 0)
        return follow_link(walk, target, rest);
    if (is_last) {
        place->is_magic = is_own_name && is_of_process(place->real);
        return !*rest || append(place->real, "/") ? 0 : -ENAMETOOLONG;
    }
    if (link != -EINVAL)
        return leave_rest(walk, rest, has_end);
    set_rest(walk, rest);
    return 0;
}

/* Whether the real path is that of the view, which has no end as "/." */
static bool is_same(const struct place *place)
{
    size_t length = strlen(place->view);
    const char *end = place->real + length;
    return length && strncmp(place->view, place->real, length) == 0 && (!*end || !strcmp(end, "/") || !strcmp(end, "/."));
}

/* Says where a path leads that a thread gives to the kernel, from a folder's descriptor (negative: its own folder). */
int resolve(struct tracee *tracee, int folder, const char *path, enum follow follow, struct place *place)
{
    struct walk walk = {.tracee = tracee, .place = place, .is_plain = *path != '/'};
    char link[64], above[PATH_ROOM];
    *place->view = 0, place->is_magic = false;
    snprintf(link, sizeof link, folder < 0 ? "/proc/%d/cwd" : "/proc/%d/fd/%d", tracee->thread, folder);
    ssize_t begin = *path == '/' ? 0 : link_target(link, place->real);
    if (begin < 0)
        return begin == -ENOENT ? -EBADF : (int)begin;
    if (*path == '/')
        real_of("", place->real);
    else if (*place->real != '/')
        return -ENOTDIR;
    else if (!shown_at(place->real, place->view))
        return -EACCES;
    walk.is_faithful = *path == '/' || strcmp(place->view, place->real) == 0;
    strcpy(walk.rest, path);
    for (bool has_end = false; !has_end;) {
        int error = follow_name(&walk, follow, &has_end);
        if (error)
            return error;
    }
    place->binding = binding_above(place->view);
    char *slash = strrchr(strcpy(above, place->view), '/');
    if (slash)
        *slash = 0;
    place->parent = binding_above(above);
    place->is_natural = walk.is_plain || (walk.is_faithful && is_same(place));
    return CHANGED;
}
