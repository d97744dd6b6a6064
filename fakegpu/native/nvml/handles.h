/* Handles of GPUs and of the parts of a partitioned GPU.
 *
 * The handle of a GPU is the address of its record. The handle of a part is a place inside that record, never read
 * through the handle: in the first 64 bytes there is one for each MIG device, GPU instance and compute instance. So a
 * handle says what it is and to which GPU it belongs, in every process alike, and is valid while its part exists. As
 * nvml.h has it, a handle is used again for the next part in the same place.
 */
#ifndef FAKEGPU_HANDLES_H
#define FAKEGPU_HANDLES_H

#include "core/result.h"
#include "core/layout.h"
#include "core/segment.h"

enum { FG_AT_MIG_DEVICES = 8, FG_AT_GPU_INSTANCES = 16, FG_AT_COMPUTE_INSTANCES = 40 };

_Static_assert(FG_AT_MIG_DEVICES + FG_COMPUTE_INSTANCES <= FG_AT_GPU_INSTANCES, "handles do not overlap");
_Static_assert(FG_AT_GPU_INSTANCES + FG_GPU_INSTANCES <= FG_AT_COMPUTE_INSTANCES, "handles do not overlap");
_Static_assert(FG_AT_COMPUTE_INSTANCES + FG_COMPUTE_INSTANCES <= 64, "handles end before the state");

/* The GPU behind a handle, NULL for anything that is not one of this session's handles. */
static inline const struct fg_gpu *fg_gpu_of(const struct fg_segment *segment, nvmlDevice_t device)
{
    uintptr_t offset = (uintptr_t)device - (uintptr_t)segment->gpus;
    if (offset % sizeof(struct fg_gpu) != 0 || offset / sizeof(struct fg_gpu) >= fg_attached_gpus)
        return NULL;
    const struct fg_gpu *gpu = (const struct fg_gpu *)device;
    if (gpu == NULL)
        __builtin_unreachable(); /* so that callers need not look twice */
    return gpu;
}

static inline nvmlDevice_t fg_handle_of(const struct fg_gpu *gpu)
{
    return (nvmlDevice_t)(uintptr_t)gpu;
}

static inline void *fg_handle_at(const struct fg_gpu *gpu, unsigned int place)
{
    return (char *)(uintptr_t)gpu + place;
}

/* The GPU to which a handle of a part belongs, and the part's number; NULL for any other pointer. */
const struct fg_gpu *fg_part_of(const struct fg_segment *segment, const void *handle, unsigned int first,
                                unsigned int count, unsigned int *number);

/* The GPU of a MIG device that exists, and the slot of its compute instance; NULL for any other pointer. */
const struct fg_gpu *fg_mig_parent(const struct fg_segment *segment, nvmlDevice_t device, int *slot);

/* Why a handle is no GPU's: NOT_SUPPORTED for a MIG device's, else INVALID_ARGUMENT. */
nvmlReturn_t fg_refuse_handle(const struct fg_segment *segment, nvmlDevice_t device);

#endif
