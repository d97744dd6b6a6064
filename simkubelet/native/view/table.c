/* What is shown where in the view, found by either path. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "view.h"

static struct binding *bindings;
static size_t count, slots;
static const struct binding **by_view, **by_real;

/* The slot of a path: that of its binding, or the empty one where that would be. */
static const struct binding **slot_of(const struct binding **index, const char *path, size_t length)
{
    size_t sum = 14695981039346656037u; /* FNV-1a */
    for (size_t at = 0; at < length; at++)
        sum = (sum ^ (unsigned char)path[at]) * 1099511628211u;
    for (;; sum++) {
        const struct binding **slot = &index[sum % slots];
        const char *known = !*slot ? NULL : index == by_view ? (*slot)->view : (*slot)->real;
        if (!known || (strncmp(known, path, length) == 0 && !known[length]))
            return slot;
    }
}

/* Reads three texts for each, which end with a zero byte: "w" or "r", the path of the view, the real path. */
void load_bindings(int file)
{
    struct stat found;
    char *text = fstat(file, &found) ? MAP_FAILED : mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED)
        exit(1);
    for (const char *at = text; at < text + found.st_size; at++)
        count += !*at;
    count /= 3;
    slots = 4 * count + 1;
    bindings = calloc(count, sizeof *bindings);
    by_view = calloc(slots, sizeof *by_view);
    by_real = calloc(slots, sizeof *by_real);
    if (!bindings || !by_view || !by_real)
        exit(1);
    for (struct binding *one = bindings; one < bindings + count; one++) {
        one->is_writable = *text == 'w';
        one->view = text + strlen(text) + 1;
        one->real = one->view + strlen(one->view) + 1;
        text = (char *)one->real + strlen(one->real) + 1;
        *slot_of(by_view, one->view, strlen(one->view)) = one;
        /* What stands for a device leads back to none. */
        const struct binding **back = slot_of(by_real, one->real, strlen(one->real));
        if (strcmp(one->view, one->real) == 0 || (!*back && strcmp(one->real, "/dev/null")))
            *back = one;
    }
}

const struct binding *binding_at(const char *view) { return *slot_of(by_view, view, strlen(view)); }

static const struct binding *longest(const struct binding **index, const char *path)
{
    size_t length = strlen(path);
    const struct binding *found = *slot_of(index, path, length);
    while (!found && length)
        if (path[--length] == '/')
            found = *slot_of(index, path, length);
    return found;
}

/* The binding of a path of the view, or the innermost above it; there is always that of the root. */
const struct binding *binding_above(const char *view) { return longest(by_view, view); }

bool append(char *path, const char *text)
{
    size_t length = strlen(path), more = strlen(text);
    if (length + more >= PATH_ROOM)
        return false;
    memcpy(path + length, text, more + 1);
    return true;
}

bool real_of(const char *view, char *real)
{
    const struct binding *above = binding_above(view);
    return append(strcpy(real, above->real), view + strlen(above->view));
}

/* Writes the path of the view that shows what is at `real`; NULL where none does, as something else is shown there. */
const struct binding *shown_at(const char *real, char *view)
{
    const struct binding *above = longest(by_real, real);
    bool is_shown = above && append(strcpy(view, above->view), real + strlen(above->real));
    return is_shown && binding_above(view) == above ? above : NULL;
}

bool has_bindings_below(const char *view)
{
    size_t length = strlen(view);
    for (struct binding *one = bindings; one < bindings + count; one++)
        if (strncmp(one->view, view, length) == 0 && one->view[length] == '/')
            return true;
    return false;
}
