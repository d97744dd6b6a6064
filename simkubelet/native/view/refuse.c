/* What a program may not change in its view, and the error that a read-only mount would give it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view.h"

static mode_t mode_of(const char *real, int flags)
{
    struct stat found;
    return fstatat(AT_FDCWD, real, &found, flags) ? 0 : found.st_mode;
}

/* What an entry is, 0 where there is none; `folder` gets the path of the folder that has it. */
static mode_t entry_mode(const char *real, char *folder)
{
    size_t length = strlen(strcpy(folder, real));
    while (length > 1 && folder[length - 1] == '/')
        folder[--length] = 0;
    mode_t mode = mode_of(folder, AT_SYMLINK_NOFOLLOW);
    *strrchr(folder, '/') = 0;
    return *folder ? mode : (strcpy(folder, "/"), mode);
}

/* An error of a folder's: where there is no folder the kernel says so. */
static int unless_missing(const struct place *place, int error)
{
    char folder[PATH_ROOM];
    entry_mode(place->real, folder);
    return S_ISDIR(mode_of(folder, 0)) ? error : 0;
}

/* Whether the last part of a path is "." or "..", which no entry is. */
static bool ends_in_dots(const struct place *place)
{
    const char *slash = strrchr(place->view, '/');
    return slash && (strcmp(slash, "/.") == 0 || strcmp(slash, "/..") == 0);
}

/* What shows the file that a link below /proc/PID leads to; NULL where nothing does. */
static const struct binding *binding_of(const char *link)
{
    char target[PATH_ROOM], view[PATH_ROOM];
    return link_target(link, target) > 0 && *target == '/' ? shown_at(target, view) : NULL;
}

/* Whether permissions, owners and times of what it shows are the program's: in /proc its own files can be written alone. */
static bool is_own(const struct binding *binding) { return binding->is_writable && strcmp(binding->real, "/proc"); }

/* The same for a change of that file: one without a name, such as a pipe or memory, is the program's own. */
static int refusal_of_link(const char *link)
{
    struct stat found;
    const struct binding *binding = binding_of(link);
    if (binding)
        return is_own(binding) ? 0 : EROFS;
    mode_t kind = stat(link, &found) || !found.st_nlink ? 0 : found.st_mode & S_IFMT;
    return kind && kind != S_IFIFO && kind != S_IFSOCK ? EROFS : 0;
}

static int refusal_to_open(unsigned flags, const struct place *place)
{
    bool is_writing = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC, makes = flags & O_CREAT;
    const struct binding *binding = place->binding;
    if (is_writing && is_of_process(place->real) && !may_change(atoi(place->real + strlen("/proc/"))))
        return EROFS;
    if (place->is_magic)
        binding = binding_of(place->real);
    if ((!is_writing && !makes) || flags & O_PATH || !binding || binding->is_writable)
        return 0;
    mode_t mode = mode_of(place->real, 0);
    if (makes && place->real[strlen(place->real) - 1] == '/')
        return 0;
    if (!mode)
        return makes ? unless_missing(place, EROFS) : 0;
    if (S_ISDIR(mode))
        return (flags & O_TMPFILE) == O_TMPFILE ? EROFS : 0;
    if (!S_ISREG(mode) || !is_writing || (makes && flags & O_EXCL))
        return 0;
    return flags & O_TRUNC || !faccessat(AT_FDCWD, place->real, W_OK, AT_EACCESS) ? EROFS : 0;
}

static int refusal_to_remove(enum kind kind, const struct place *place)
{
    char folder[PATH_ROOM], above[PATH_ROOM];
    bool is_folder = S_ISDIR(entry_mode(place->real, folder));
    if (ends_in_dots(place))
        return 0;
    if (!place->parent->is_writable)
        return unless_missing(place, EROFS);
    if (strcmp(place->binding->view, place->view))
        return 0;
    char *slash = strrchr(strcpy(above, place->view), '/');
    if (slash)
        *slash = 0;
    if (!real_of(above, folder) || faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
        return EACCES;
    return is_folder == (kind == REMOVE_FOLDER) ? EBUSY : is_folder ? EISDIR : ENOTDIR;
}

/* The error number for a call that the view does not allow, 0 for one that it does. */
int refusal(enum kind kind, unsigned flags, const struct place *place)
{
    char folder[PATH_ROOM];
    mode_t mode;
    switch (kind) {
    case OPEN:
    case OPEN_HOW:
        return refusal_to_open(flags, place);
    case TRUNCATE:
        return refusal_to_open(O_WRONLY, place);
    case CREATE:
    case BIND:
        return place->parent->is_writable || entry_mode(place->real, folder) ? 0 : unless_missing(place, EROFS);
    case REMOVE_FILE:
    case REMOVE_FOLDER:
        return refusal_to_remove(kind, place);
    case CHANGE:
        if (place->is_magic)
            return refusal_of_link(place->real);
        return !is_own(place->binding) && mode_of(place->real, AT_SYMLINK_NOFOLLOW) ? EROFS : 0;
    case ACCESS:
        mode = place->binding->is_writable || !(flags & W_OK) ? 0 : mode_of(place->real, 0);
        return (S_ISREG(mode) || S_ISDIR(mode)) && !faccessat(AT_FDCWD, place->real, (int)flags & 7, 0) ? EROFS : 0;
    default:
        return 0;
    }
}

static bool is_bound(const struct place *place)
{
    return strcmp(place->binding->view, place->view) == 0 || has_bindings_below(place->view);
}

/* The same for a call that makes one entry from another. */
int refusal_of_two(enum kind kind, const struct place *old, const struct place *new)
{
    char folder[PATH_ROOM];
    mode_t mode = entry_mode(old->real, folder), new_mode = entry_mode(new->real, folder);
    int error;
    const struct binding *linked = old->is_magic ? binding_of(old->real) : old->binding;
    if (kind == LINK && (!mode || new_mode))
        return 0;
    if (kind == LINK)
        error = !new->parent->is_writable ? EROFS : linked != new->parent ? EXDEV : 0;
    else if (old->parent != new->parent)
        error = EXDEV;
    else if (ends_in_dots(old) || ends_in_dots(new))
        error = EBUSY;
    else if (!old->parent->is_writable)
        error = EROFS;
    else if (!mode || (new_mode && S_ISDIR(mode) != S_ISDIR(new_mode)))
        error = 0;
    else if (strcmp(old->view, new->view) == 0 && strcmp(old->binding->view, old->view))
        error = 0; /* it stays where it is, whatever is bound below */
    else
        error = is_bound(old) || is_bound(new) ? EBUSY : 0;
    return unless_missing(old, 1) ? unless_missing(new, error) : 0;
}

/* The same for what changes a file that is open. */
int refusal_opened(struct tracee *tracee, int file)
{
    char link[64];
    snprintf(link, sizeof link, file == AT_FDCWD ? "/proc/%d/cwd" : "/proc/%d/fd/%d", tracee->thread, file);
    return refusal_of_link(link);
}
