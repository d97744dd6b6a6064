/* What functions of partitioned GPUs share: entering a GPU instance, changing the partition, and permissions. */
#ifndef FAKEGPU_MIG_H
#define FAKEGPU_MIG_H

#include "control/mig_rules.h"
#include "nvml/api.h"
#include "nvml/change.h"
#include "nvml/visible.h"

/* Puts a changed partition in force and posts an event. */
nvmlReturn_t fg_mig_commit(struct fg_change *change, unsigned int gpu_instance, unsigned int compute_instance);

/* Steps 1 to 3 of functions of a GPU instance: declares `gpu`, `id`, `mig` and `instance`. */
#define FG_ENTER_GPU_INSTANCE(handle, arguments_are_valid)                                                             \
    FG_ENTER_SESSION;                                                                                                  \
    unsigned int id;                                                                                                   \
    const struct fg_gpu *gpu = fg_part_of(segment, (handle), FG_AT_GPU_INSTANCES, FG_GPU_INSTANCES, &id);              \
    FG_REQUIRE(gpu != NULL && (arguments_are_valid), NVML_ERROR_INVALID_ARGUMENT);                                     \
    FG_APPLY_FAULTS(segment, gpu);                                                                                     \
    FG_READ(gpu, mig, mig);                                                                                            \
    const struct fg_gpu_instance *instance = &mig.gpu_instances[id];                                                   \
    FG_REQUIRE(instance->is_here, NVML_ERROR_INVALID_ARGUMENT)

/* Step 4 of what a GPU in MIG mode does not report, because its instances share no such figure. */
static inline nvmlReturn_t fg_refuse_mig_mode(const struct fg_gpu *gpu)
{
    uint32_t current_and_pending[2];
    bool is_lost;
    _Static_assert(offsetof(struct fg_modes, mig_current) % sizeof(fg_word) == 0, "readers copy whole words");
    _Static_assert(offsetof(struct fg_modes, mig_pending) == offsetof(struct fg_modes, mig_current) + 4, "both in one");
    FG_TRY(fg_read(gpu, offsetof(struct fg_gpu_state, modes.mig_current), current_and_pending,
                   sizeof current_and_pending, &is_lost));
    return current_and_pending[0] ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* Step 4 of what only a process that may partition GPUs may ask. */
#define FG_REQUIRE_ADMINISTRATOR FG_REQUIRE(fg_may_partition(), NVML_ERROR_NO_PERMISSION)

/* Whether a process uses an instance, or any part of it where `compute_instance` is NVML_COMPUTE_INSTANCE_ID_ANY. */
nvmlReturn_t fg_has_processes(const struct fg_gpu *gpu, unsigned int gpu_instance, unsigned int compute_instance,
                              bool *has_some);

#endif
