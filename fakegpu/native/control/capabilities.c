/* Files of MIG instances below a machine's folder. Writing them again completes what a process that was killed left
 * out.
 *
 * Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"; open-gpu-kernel-modules 595.45.04,
 * kernel-open/nvidia/nv-caps.c: numbers of minors, content of the files.
 */
#include "control/capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_MINOR 3u /* after those of the fabric, of MIG's configuration and of its monitor */
#define ALL_MAY_READ 0444

struct path {
    char text[PATH_MAX];
};

__attribute__((format(printf, 2, 3))) static bool name_path(struct path *path, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(path->text, sizeof path->text, format, values);
    va_end(values);
    return length >= 0 && (size_t)length < sizeof path->text;
}

uint32_t fg_capability_minor(uint32_t gpu_minor, uint32_t instance, int32_t part)
{
    uint32_t whole = gpu_minor * FG_CAPABILITY_INSTANCES + instance;
    return FIRST_MINOR + whole * (1u + FG_CAPABILITY_PARTS) + (uint32_t)(part + 1);
}

static int write_text(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, ALL_MAY_READ);
    if (file < 0)
        return errno;
    int error = write(file, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : EIO;
    close(file);
    return error;
}

/* A reader finds the whole file or none. */
static int make_file(const char *path, const char *text)
{
    struct path draft;
    if (access(path, F_OK) == 0)
        return 0;
    if (!name_path(&draft, "%s~", path))
        return ENAMETOOLONG;
    unlink(draft.text);
    int error = write_text(draft.text, text);
    return error == 0 && rename(draft.text, path) != 0 ? errno : error;
}

/* One instance: its folder, the file `access` in it, and its device node. The folder is created first and removed
 * last, so without a folder there is nothing to remove. */
static int settle(const struct path *folder, const struct path *node, unsigned int minor, bool is_here)
{
    struct path file;
    char text[96];
    if (!name_path(&file, "%s/access", folder->text))
        return ENAMETOOLONG;
    if (!is_here && access(folder->text, F_OK) != 0)
        return 0;
    if (!is_here) {
        unlink(node->text);
        unlink(file.text);
        return rmdir(folder->text) == 0 ? 0 : errno;
    }
    if (mkdir(folder->text, 0755) != 0 && errno != EEXIST)
        return errno;
    snprintf(text, sizeof text, "DeviceFileMinor: %u\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor, ALL_MAY_READ);
    int error = make_file(file.text, text);
    return error != 0 ? error : make_file(node->text, "");
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

/* A GPU instance where `part` is negative, else one of its compute instances. */
static int settle_part(const char *root, const struct fg_gpu_state *state, const struct path *instance, unsigned int id,
                       int part)
{
    unsigned int minor = fg_capability_minor(state->identity.minor_number, id, part);
    bool is_here = part < 0 ? state->mig.gpu_instances[id].is_here : has_part(&state->mig, id, part);
    struct path folder = *instance, node;
    if ((part >= 0 && !name_path(&folder, "%s/ci%d", instance->text, part)) ||
        !name_path(&node, "%s/dev/nvidia-caps/nvidia-cap%u", root, minor))
        return ENAMETOOLONG;
    return settle(&folder, &node, minor, is_here);
}

int fg_write_capabilities(const char *folder, const struct fg_gpu_state *state)
{
    struct path all, instance;
    unsigned int gpu_minor = state->identity.minor_number;
    int error = 0;
    if (!name_path(&all, "%s/proc/driver/nvidia/capabilities/gpu%u/mig", folder, gpu_minor))
        return ENAMETOOLONG;
    if (access(all.text, F_OK) != 0)
        return 0;
    for (unsigned int id = 0; id < FG_CAPABILITY_INSTANCES; id++) {
        bool is_here = state->mig.gpu_instances[id].is_here;
        if (!name_path(&instance, "%s/gi%u", all.text, id))
            return ENAMETOOLONG;
        if (is_here)
            error = settle_part(folder, state, &instance, id, -1);
        for (int part = 0; part < (int)FG_CAPABILITY_PARTS && error == 0; part++)
            error = settle_part(folder, state, &instance, id, part);
        if (!is_here && error == 0)
            error = settle_part(folder, state, &instance, id, -1);
        if (error != 0)
            return error;
    }
    return 0;
}
