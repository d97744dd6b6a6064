/* Files of MIG instances below a machine's folder. Writing them again completes what a process that was killed left
 * out. Another program may put links and pipes in their place at any moment: each folder is opened from the one above it
 * and no link is followed, and no file is opened but one that is new.
 *
 * Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"; open-gpu-kernel-modules 595.45.04,
 * kernel-open/nvidia/nv-caps.c: numbers of minors, content of the files.
 */
#include "control/capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_MINOR 3u /* after those of the fabric, of MIG's configuration and of its monitor */
#define ALL_MAY_READ 0444
#define NAME_BYTES 32u

uint32_t fg_capability_minor(uint32_t gpu_minor, uint32_t instance, int32_t part)
{
    uint32_t whole = gpu_minor * FG_CAPABILITY_INSTANCES + instance;
    return FIRST_MINOR + whole * (1u + FG_CAPABILITY_PARTS) + (uint32_t)(part + 1);
}

/* Of a folder's entry. */
static int open_folder(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The folder at a path below another one, NULL for the end; -1 with errno. Closes `folder`. */
static int open_below(int folder, const char *const *names)
{
    for (; folder >= 0 && *names != NULL; names++) {
        int below = open_folder(folder, *names), error = errno;
        close(folder);
        folder = below;
        errno = error;
    }
    return folder;
}

static int write_text(int folder, const char *name, const char *text)
{
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, ALL_MAY_READ);
    if (file < 0)
        return errno;
    int error = write(file, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : EIO;
    close(file);
    return error;
}

/* A reader finds the whole file or none. */
static int make_file(int folder, const char *name, const char *text)
{
    char draft[NAME_BYTES + 1];
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
        return 0;
    snprintf(draft, sizeof draft, "%s~", name);
    unlinkat(folder, draft, 0);
    int error = write_text(folder, draft, text);
    return error == 0 && renameat(folder, draft, folder, name) != 0 ? errno : error;
}

/* One instance: its folder, the file `access` in it, and its device node. */
struct instance {
    int parent; /* the folder of its folder */
    char name[NAME_BYTES];
    unsigned int minor;
    int nodes; /* the folder of its node */
    bool is_here;
};

static void name_node(const struct instance *instance, char node[NAME_BYTES])
{
    snprintf(node, NAME_BYTES, "nvidia-cap%u", instance->minor);
}

static int make_instance(const struct instance *instance)
{
    char text[96], node[NAME_BYTES];
    name_node(instance, node);
    if (mkdirat(instance->parent, instance->name, 0755) != 0 && errno != EEXIST)
        return errno;
    int folder = open_folder(instance->parent, instance->name);
    if (folder < 0)
        return errno;
    snprintf(text, sizeof text, "DeviceFileMinor: %u\nDeviceFileMode: %d\nDeviceFileModify: 1\n", instance->minor,
             ALL_MAY_READ);
    int error = make_file(folder, "access", text);
    close(folder);
    return error != 0 ? error : make_file(instance->nodes, node, "");
}

/* The folder is created first and removed last, so without a folder there is nothing to remove. */
static int remove_instance(const struct instance *instance)
{
    char node[NAME_BYTES];
    name_node(instance, node);
    int folder = open_folder(instance->parent, instance->name);
    if (folder < 0)
        return errno == ENOENT ? 0 : errno;
    unlinkat(instance->nodes, node, 0);
    unlinkat(folder, "access", 0);
    close(folder);
    return unlinkat(instance->parent, instance->name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

static int settle(const struct instance *instance)
{
    return instance->is_here ? make_instance(instance) : remove_instance(instance);
}

static bool has_part(const struct fg_mig *mig, unsigned int instance, int part)
{
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++) {
        const struct fg_compute_instance *compute = &mig->compute_instances[slot];
        if (compute->is_here && compute->gpu_instance == instance && compute->id == (unsigned int)part)
            return true;
    }
    return false;
}

/* The compute instances of a GPU instance; without its folder there are none to remove. */
static int settle_parts(const struct fg_gpu_state *state, const struct instance *whole, unsigned int id)
{
    int folder = open_folder(whole->parent, whole->name), error = 0;
    if (folder < 0)
        return errno == ENOENT ? 0 : errno;
    for (int part = 0; part < (int)FG_CAPABILITY_PARTS && error == 0; part++) {
        struct instance compute = {
            .parent = folder,
            .nodes = whole->nodes,
            .minor = fg_capability_minor(state->identity.minor_number, id, part),
            .is_here = has_part(&state->mig, id, part),
        };
        snprintf(compute.name, sizeof compute.name, "ci%d", part);
        error = settle(&compute);
    }
    close(folder);
    return error;
}

static int settle_all(const struct fg_gpu_state *state, int folder, int nodes)
{
    int error = 0;
    for (unsigned int id = 0; id < FG_CAPABILITY_INSTANCES && error == 0; id++) {
        struct instance whole = {
            .parent = folder,
            .nodes = nodes,
            .minor = fg_capability_minor(state->identity.minor_number, id, -1),
            .is_here = state->mig.gpu_instances[id].is_here,
        };
        snprintf(whole.name, sizeof whole.name, "gi%u", id);
        if (whole.is_here)
            error = settle(&whole);
        if (error == 0)
            error = settle_parts(state, &whole, id);
        if (!whole.is_here && error == 0)
            error = settle(&whole);
    }
    return error;
}

int fg_write_capabilities(const char *folder, const struct fg_gpu_state *state)
{
    char gpu[NAME_BYTES];
    snprintf(gpu, sizeof gpu, "gpu%u", state->identity.minor_number);
    const char *const all[] = {"proc", "driver", "nvidia", "capabilities", gpu, "mig", NULL};
    const char *const nodes[] = {"dev", "nvidia-caps", NULL};
    int instances = open_below(open_folder(AT_FDCWD, folder), all);
    if (instances < 0)
        return errno == ENOENT ? 0 : errno;
    int place = open_below(open_folder(AT_FDCWD, folder), nodes);
    int error = place < 0 ? errno : settle_all(state, instances, place);
    if (place >= 0)
        close(place);
    close(instances);
    return error;
}
