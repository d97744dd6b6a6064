/* MIG mode and MIG devices. */
#include "nvml/mig.h"
#include "control/capabilities.h"
#include "core/alive.h"
#include "core/clock.h"
#include "core/ring.h"
#include "core/segment.h"

static void post_change(struct fg_segment *segment, unsigned int gpu, unsigned int gpu_instance,
                        unsigned int compute_instance)
{
    struct fg_event event = {
        .type = nvmlEventMigConfigChange,
        .gpu = gpu,
        .gpu_instance = gpu_instance,
        .compute_instance = compute_instance,
        .timestamp_us = fg_now_us(),
    };
    fg_post(segment, &event);
}

nvmlReturn_t fg_mig_commit(struct fg_change *change, unsigned int gpu_instance, unsigned int compute_instance)
{
    char folder[PATH_MAX];
    fg_write_state(&change->writable.segment->gpus[change->gpu], &change->state);
    if (fg_segment_folder(folder))
        fg_write_capabilities(folder, &change->state); /* the instance is there with or without its files */
    post_change(change->writable.segment, change->gpu, gpu_instance, compute_instance);
    return fg_change_abandon(change, NVML_SUCCESS); /* what is written stays */
}

nvmlReturn_t fg_has_processes(const struct fg_gpu *gpu, unsigned int gpu_instance, unsigned int compute_instance,
                              bool *has_some)
{
    struct fg_processes users;
    FG_TRY(fg_processes_alive(gpu, &users));
    *has_some = false;
    for (unsigned int index = 0; index < users.count; index++) {
        const struct fg_process *user = &users.entries[index];
        *has_some |= user->gpu_instance == gpu_instance &&
                     (compute_instance == NVML_COMPUTE_INSTANCE_ID_ANY || user->compute_instance == compute_instance);
    }
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    FG_ENTER(device, current != NULL && pending != NULL);
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(modes.mig_supported, NVML_ERROR_NOT_SUPPORTED);
    *current = modes.mig_current;
    *pending = modes.mig_pending;
    return NVML_SUCCESS;
}

static bool has_instances(const struct fg_mig *mig)
{
    for (unsigned int id = 0; id < FG_GPU_INSTANCES; id++)
        if (mig->gpu_instances[id].is_here)
            return true;
    return false;
}

/* The mode takes effect at once when nothing uses the GPU: the driver resets the GPU where that is needed. */
FG_API nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    FG_ENTER(device, activation != NULL && (mode == NVML_DEVICE_MIG_DISABLE || mode == NVML_DEVICE_MIG_ENABLE));
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(modes.mig_supported, NVML_ERROR_NOT_SUPPORTED);
    struct fg_processes users;
    FG_TRY(fg_processes_alive(gpu, &users));
    FG_CHANGE(gpu, change);
    struct fg_modes *changed = &change.state.modes;
    changed->mig_pending = mode;
    bool is_used = users.count > 0 || has_instances(&change.state.mig);
    *activation = changed->mig_current != mode && is_used ? NVML_ERROR_IN_USE : NVML_SUCCESS;
    if (*activation == NVML_SUCCESS)
        changed->mig_current = mode;
    return fg_mig_commit(&change, NVML_GPU_INSTANCE_ID_ANY, NVML_COMPUTE_INSTANCE_ID_ANY);
}

FG_API nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    FG_ENTER(device, count != NULL);
    FG_READ(gpu, modes, modes);
    FG_READ(gpu, mig, mig);
    *count = modes.mig_current ? mig.compute_slices : 0;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig_device)
{
    FG_ENTER(device, mig_device != NULL);
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(modes.mig_supported, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, mig, mig);
    FG_REQUIRE(!modes.mig_current || index < mig.compute_slices, NVML_ERROR_INVALID_ARGUMENT);
    FG_TRY(fg_hide_parts(gpu, &mig));
    int slot = fg_mig_device_slot(&mig, index);
    FG_REQUIRE(slot >= 0, NVML_ERROR_NOT_FOUND);
    *mig_device = fg_handle_at(gpu, FG_AT_MIG_DEVICES + (unsigned int)slot);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig_device)
{
    FG_ENTER_ANY(device, is_mig_device != NULL);
    FG_READ(gpu, fault, fault);
    *is_mig_device = FG_IS_MIG_DEVICE;
    return NVML_SUCCESS;
}

/* Steps 1 to 3 for functions that take MIG devices only: declares `mig` and `part`, the device's compute instance. A
 * whole GPU is answered with `refusal`. */
#define FG_ENTER_MIG_DEVICE(device, arguments_are_valid, refusal)                                                      \
    FG_ENTER_ANY(device, arguments_are_valid);                                                                         \
    FG_REQUIRE(FG_IS_MIG_DEVICE, refusal);                                                                             \
    FG_READ(gpu, mig, mig);                                                                                            \
    const struct fg_compute_instance *part = &mig.compute_instances[slot];                                             \
    FG_REQUIRE(part->is_here, NVML_ERROR_INVALID_ARGUMENT)

FG_API nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    FG_ENTER_MIG_DEVICE(device, id != NULL, NVML_ERROR_INVALID_ARGUMENT);
    *id = part->gpu_instance;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    FG_ENTER_MIG_DEVICE(device, id != NULL, NVML_ERROR_INVALID_ARGUMENT);
    *id = part->id;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_device, nvmlDevice_t *device)
{
    FG_ENTER_MIG_DEVICE(mig_device, device != NULL, NVML_ERROR_INVALID_ARGUMENT);
    *device = fg_handle_of(gpu);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    FG_ENTER_MIG_DEVICE(device, attributes != NULL, NVML_ERROR_NOT_SUPPORTED);
    const struct fg_mig_profile *profile = &mig.profiles[mig.gpu_instances[part->gpu_instance].profile];
    unsigned int slices = fg_mig_compute_slices(part->profile, profile->slices);
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = fg_mig_compute_multiprocessors(&mig, profile, slices),
        .sharedCopyEngineCount = profile->copy_engines,
        .sharedDecoderCount = profile->decoders,
        .sharedEncoderCount = profile->encoders,
        .sharedJpegCount = profile->jpegs,
        .sharedOfaCount = profile->ofas,
        .gpuInstanceSliceCount = profile->slices,
        .computeInstanceSliceCount = slices,
        .memorySizeMB = profile->memory_mib,
    };
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlDeviceGetAttributes, nvmlDeviceGetAttributes_v2);
