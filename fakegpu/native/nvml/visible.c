/* Looking for device nodes.
 *
 * Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"; nvml.h on aggregate information in MIG
 * mode; nvidia-container-toolkit issue 842: what a container with one MIG device is refused.
 */
#include "nvml/visible.h"
#include "control/capabilities.h"
#include "core/segment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_MINOR = 1, MONITOR_MINOR = 2 };

unsigned int fg_visible[FG_GPUS_MAX];
unsigned int fg_visible_count;
bool fg_is_confined;

static char *folder; /* FAKEGPU_DEV or /dev at the first nvmlInit; never freed, a thread may still read it */

static bool has_node(const char *name, unsigned int minor)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s%u", folder, name, minor);
    return access(path, F_OK) == 0;
}

nvmlReturn_t fg_find_devices(const struct fg_segment *segment)
{
    const char *wanted = getenv("FAKEGPU_DEV");
    unsigned int count = 0;
    if ((wanted == NULL || *wanted == '\0') && fg_segment_is_installed)
        wanted = "/dev";
    fg_is_confined = wanted != NULL && *wanted != '\0';
    if (fg_is_confined && (folder == NULL || strcmp(folder, wanted) != 0))
        folder = strdup(wanted);
    FG_REQUIRE(!fg_is_confined || folder != NULL, NVML_ERROR_MEMORY);
    for (unsigned int index = 0; index < fg_attached_gpus; index++) {
        FG_READ_EVEN_IF_LOST(&segment->gpus[index], fault, fault);
        FG_READ_EVEN_IF_LOST(&segment->gpus[index], modes, modes);
        FG_READ_EVEN_IF_LOST(&segment->gpus[index], identity, identity);
        if (!fault.is_unplugged && !modes.is_draining &&
            (!fg_is_confined || has_node("nvidia", identity.minor_number)))
            fg_visible[count++] = index;
    }
    fg_visible_count = count;
    return NVML_SUCCESS;
}

static bool is_granted(unsigned int capability_minor)
{
    return !fg_is_confined || has_node("nvidia-caps/nvidia-cap", capability_minor);
}

bool fg_may_monitor(void)
{
    return is_granted(MONITOR_MINOR);
}

bool fg_may_partition(void)
{
    return geteuid() == 0 && is_granted(CONFIG_MINOR);
}

nvmlReturn_t fg_hide_parts(const struct fg_gpu *gpu, struct fg_mig *mig)
{
    if (fg_may_monitor())
        return NVML_SUCCESS;
    FG_READ_EVEN_IF_LOST(gpu, identity, identity);
    unsigned int minor = identity.minor_number;
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++) {
        struct fg_compute_instance *part = &mig->compute_instances[slot];
        part->is_here = part->is_here && is_granted(fg_capability_minor(minor, part->gpu_instance, -1)) &&
                        is_granted(fg_capability_minor(minor, part->gpu_instance, (int32_t)part->id));
    }
    return NVML_SUCCESS;
}

nvmlReturn_t fg_refuse_aggregate(const struct fg_gpu *gpu)
{
    FG_READ(gpu, modes, modes);
    return modes.mig_current && !fg_may_monitor() ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}
