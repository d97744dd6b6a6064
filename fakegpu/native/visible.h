/* Which GPUs a process may see: as with a driver, those whose device nodes it has. */
#ifndef FAKEGPU_VISIBLE_H
#define FAKEGPU_VISIBLE_H

#include "nvml_api.h"

/* Indices in the segment of the GPUs that can be seen, in order; they change at the first nvmlInit only. */
extern unsigned int fg_visible[FG_GPUS_MAX];
extern unsigned int fg_visible_count;

/* Looks for `nvidia<minor>` in the folder FAKEGPU_DEV; where that is not set, all GPUs can be seen. */
nvmlReturn_t fg_look_for_devices(const struct fg_segment *segment);

static inline const struct fg_gpu *fg_visible_gpu(const struct fg_segment *segment, unsigned int position)
{
    return &segment->gpus[fg_visible[position]];
}

#endif
