/* Which GPUs and MIG devices a process may see: as with a driver, those whose device nodes it has. */
#ifndef FAKEGPU_VISIBLE_H
#define FAKEGPU_VISIBLE_H

#include "nvml/api.h"

/* Indices in the segment of the GPUs that can be seen, in order; they change at the first nvmlInit only. */
extern unsigned int fg_visible[FG_GPUS_MAX];
extern unsigned int fg_visible_count;

/* Whether the process sees only GPUs whose device nodes it has, as in a container. */
extern bool fg_is_confined;

/* Looks for `nvidia<minor>` in the folder FAKEGPU_DEV, which is /dev for an installed driver; without such a folder all
 * GPUs can be seen. */
nvmlReturn_t fg_find_devices(const struct fg_segment *segment);

static inline const struct fg_gpu *fg_visible_gpu(const struct fg_segment *segment, unsigned int position)
{
    return &segment->gpus[fg_visible[position]];
}

/* Whether the process may look at all instances of partitioned GPUs, and whether it may partition them. */
bool fg_may_monitor(void);
bool fg_may_partition(void);

/* Removes from a copy of a GPU's partition the compute instances that the process may not see. */
nvmlReturn_t fg_hide_parts(const struct fg_gpu *gpu, struct fg_mig *mig);

/* Step 4 of what reports all instances of a GPU together. */
nvmlReturn_t fg_refuse_aggregate(const struct fg_gpu *gpu);

#define FG_REQUIRE_AGGREGATE(gpu)                                                                                      \
    do {                                                                                                               \
        if (__builtin_expect(fg_is_confined, 0))                                                                       \
            FG_TRY(fg_refuse_aggregate(gpu));                                                                          \
    } while (0)

#endif
