/* Handles that are not a GPU's. */
#include "nvml/handles.h"
#include "core/state_io.h"

const struct fg_gpu *fg_part_of(const struct fg_segment *segment, const void *handle, unsigned int first,
                                unsigned int count, unsigned int *number)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)segment->gpus;
    uintptr_t gpu = offset / sizeof(struct fg_gpu), place = offset % sizeof(struct fg_gpu);
    if (gpu >= fg_attached_gpus || place < first || place - first >= count)
        return NULL;
    *number = (unsigned int)(place - first);
    return &segment->gpus[gpu];
}

const struct fg_gpu *fg_mig_parent(const struct fg_segment *segment, nvmlDevice_t device, int *slot)
{
    unsigned int number;
    struct fg_mig mig;
    bool is_lost;
    const struct fg_gpu *gpu = fg_part_of(segment, device, FG_AT_MIG_DEVICES, FG_COMPUTE_INSTANCES, &number);
    if (gpu == NULL || fg_read(gpu, offsetof(struct fg_gpu_state, mig), &mig, sizeof mig, &is_lost) != NVML_SUCCESS)
        return NULL;
    *slot = (int)number;
    return mig.compute_instances[number].is_here ? gpu : NULL;
}

nvmlReturn_t fg_refuse_handle(const struct fg_segment *segment, nvmlDevice_t device)
{
    int slot;
    return fg_mig_parent(segment, device, &slot) != NULL ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}
