/* Handles of a partitioned GPU's parts.
 *
 * A handle is a place inside the GPU's record, never looked at through the handle: the first 64 bytes behind the
 * record's beginning, one for each MIG device, GPU instance and compute instance. So a handle says what it is and to
 * which GPU it belongs, in every process alike, and is valid while its part exists. As nvml.h has it, a handle is used
 * again for the next part in the same place.
 */
#ifndef FAKEGPU_MIG_H
#define FAKEGPU_MIG_H

#include "control/mig_rules.h"
#include "nvml/change.h"
#include "nvml/visible.h"

enum { FG_AT_MIG_DEVICES = 8, FG_AT_GPU_INSTANCES = 16, FG_AT_COMPUTE_INSTANCES = 40 };

_Static_assert(FG_AT_MIG_DEVICES + FG_COMPUTE_INSTANCES <= FG_AT_GPU_INSTANCES, "handles do not overlap");
_Static_assert(FG_AT_GPU_INSTANCES + FG_GPU_INSTANCES <= FG_AT_COMPUTE_INSTANCES, "handles do not overlap");
_Static_assert(FG_AT_COMPUTE_INSTANCES + FG_COMPUTE_INSTANCES <= 64, "handles end before the state");

/* The GPU to which a handle of a part belongs, and the part's number; NULL for any other pointer. */
const struct fg_gpu *fg_part_of(const struct fg_segment *segment, const void *handle, unsigned int first,
                                unsigned int count, unsigned int *number);

/* The GPU of a MIG device that exists, and the slot of its compute instance; NULL for any other pointer. */
const struct fg_gpu *fg_mig_parent(const struct fg_segment *segment, nvmlDevice_t device, int *slot);

/* Puts a changed partition in force and tells of it. */
nvmlReturn_t fg_mig_commit(struct fg_change *change, unsigned int gpu_instance, unsigned int compute_instance);

static inline void *fg_handle_at(const struct fg_gpu *gpu, unsigned int place)
{
    return (char *)(uintptr_t)gpu + place;
}

/* Steps 1 and 2 for functions that take MIG devices as well as GPUs: declares `segment`, `gpu` and `slot`, which is
 * negative for a GPU and else the MIG device's place in state.mig.compute_instances. */
#define FG_ENTER_ANY(device, arguments_are_valid)                                                                      \
    FG_ENTER_SESSION;                                                                                                  \
    int slot = -1;                                                                                                     \
    const struct fg_gpu *gpu = fg_gpu_of(segment, (device));                                                           \
    if (__builtin_expect(gpu == NULL, 0)) {                                                                            \
        int fg_slot = -1; /* of its own, so that `slot` stays in a register */                                         \
        gpu = fg_mig_parent(segment, (device), &fg_slot);                                                              \
        slot = fg_slot;                                                                                                \
    }                                                                                                                  \
    FG_REQUIRE(gpu != NULL && (arguments_are_valid), NVML_ERROR_INVALID_ARGUMENT);                                     \
    FG_MEET_FAULTS(segment, gpu)

#define FG_IS_MIG_DEVICE __builtin_expect(slot >= 0, 0)

/* Steps 1 to 3 of functions of a GPU instance: declares `gpu`, `id`, `mig` and `instance`. */
#define FG_ENTER_GPU_INSTANCE(handle, arguments_are_valid)                                                             \
    FG_ENTER_SESSION;                                                                                                  \
    unsigned int id;                                                                                                   \
    const struct fg_gpu *gpu = fg_part_of(segment, (handle), FG_AT_GPU_INSTANCES, FG_GPU_INSTANCES, &id);              \
    FG_REQUIRE(gpu != NULL && (arguments_are_valid), NVML_ERROR_INVALID_ARGUMENT);                                     \
    FG_MEET_FAULTS(segment, gpu);                                                                                      \
    FG_READ(gpu, mig, mig);                                                                                            \
    const struct fg_gpu_instance *instance = &mig.gpu_instances[id];                                                   \
    FG_REQUIRE(instance->is_here, NVML_ERROR_INVALID_ARGUMENT)

/* Step 4 of what a GPU in MIG mode does not tell, because its instances share no such figure. */
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

/* What only who may partition may ask. */
#define FG_REQUIRE_ADMINISTRATOR FG_REQUIRE(fg_may_partition(), NVML_ERROR_NO_PERMISSION)

/* Whether a process uses an instance, or any part of it where `compute_instance` is NVML_COMPUTE_INSTANCE_ID_ANY. */
nvmlReturn_t fg_has_processes(const struct fg_gpu *gpu, unsigned int gpu_instance, unsigned int compute_instance,
                              bool *has_some);

#endif
