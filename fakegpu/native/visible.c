/* Looking for device nodes. */
#include "visible.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

unsigned int fg_visible[FG_GPUS_MAX];
unsigned int fg_visible_count;

nvmlReturn_t fg_look_for_devices(const struct fg_segment *segment)
{
    const char *folder = getenv("FAKEGPU_DEV");
    unsigned int count = 0;
    for (unsigned int index = 0; index < segment->gpu_count; index++) {
        FG_READ_EVEN_IF_LOST(&segment->gpus[index], fault, fault);
        FG_READ_EVEN_IF_LOST(&segment->gpus[index], modes, modes);
        if (fault.is_unplugged || modes.is_draining)
            continue;
        if (folder != NULL && *folder != '\0') {
            char path[PATH_MAX];
            FG_READ_EVEN_IF_LOST(&segment->gpus[index], identity, identity);
            int length = snprintf(path, sizeof path, "%s/nvidia%u", folder, identity.minor_number);
            if (length < 0 || (size_t)length >= sizeof path || access(path, F_OK) != 0)
                continue;
        }
        fg_visible[count++] = index;
    }
    fg_visible_count = count;
    return NVML_SUCCESS;
}
