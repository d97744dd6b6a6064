/* Compute instances: profiles, places, creating, destroying. Their profile ids are their
 * NVML_COMPUTE_INSTANCE_PROFILE_*. */
#include "nvml/mig.h"

#include <stdio.h>

/* What one profile gives within one GPU instance. */
struct offer {
    unsigned int slices; /* zero: nothing, the instance does not have the profile */
    unsigned int count;
    unsigned int multiprocessors;
    uint32_t starts;
    const struct fg_mig_profile *whole;
};

static struct offer offer_of(const struct fg_mig *mig, const struct fg_gpu_instance *instance, unsigned int profile)
{
    const struct fg_mig_profile *whole = &mig->profiles[instance->profile];
    unsigned int slices = 0;
    if (profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        slices = fg_mig_compute_slices(profile, whole->slices);
    if (slices == 0)
        return (struct offer){0};
    uint32_t starts = fg_mig_compute_starts(slices, whole->slices);
    return (struct offer){
        .slices = slices,
        .count = (unsigned int)__builtin_popcount(starts),
        .multiprocessors = fg_mig_compute_multiprocessors(mig, whole, slices),
        .starts = starts,
        .whole = whole,
    };
}

static void write_name(char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], const struct offer *offer)
{
    char text[48];
    fg_mig_compute_name(offer->whole, offer->slices, text);
    snprintf(name, NVML_DEVICE_NAME_V2_BUFFER_SIZE, "MIG %s", text);
}

static bool are_profiles(unsigned int profile, unsigned int engine_profile)
{
    return profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && engine_profile < NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT;
}

#define FG_FILL_OFFER(info, profile, offer)                                                                            \
    do {                                                                                                               \
        (info)->id = (profile);                                                                                        \
        (info)->sliceCount = (offer)->slices;                                                                          \
        (info)->instanceCount = (offer)->count;                                                                        \
        (info)->multiprocessorCount = (offer)->multiprocessors;                                                        \
        (info)->sharedCopyEngineCount = (offer)->whole->copy_engines;                                                  \
        (info)->sharedDecoderCount = (offer)->whole->decoders;                                                         \
        (info)->sharedEncoderCount = (offer)->whole->encoders;                                                         \
        (info)->sharedJpegCount = (offer)->whole->jpegs;                                                               \
        (info)->sharedOfaCount = (offer)->whole->ofas;                                                                 \
    } while (0)

FG_API nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned int profile,
                                                    unsigned int engine_profile, nvmlComputeInstanceProfileInfo_t *info)
{
    FG_ENTER_GPU_INSTANCE(handle, info != NULL && are_profiles(profile, engine_profile));
    struct offer offer = offer_of(&mig, instance, profile);
    FG_REQUIRE(offer.slices > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_FILL_OFFER(info, profile, &offer);
    return NVML_SUCCESS;
}

FG_API nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned int profile,
                                                     unsigned int engine_profile,
                                                     nvmlComputeInstanceProfileInfo_v2_t *info)
{
    FG_ENTER_GPU_INSTANCE(handle, info != NULL && are_profiles(profile, engine_profile));
    FG_REQUIRE(info->version == nvmlComputeInstanceProfileInfo_v2 || info->version == nvmlComputeInstanceProfileInfo_v3,
               NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    struct offer offer = offer_of(&mig, instance, profile);
    FG_REQUIRE(offer.slices > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_FILL_OFFER(info, profile, &offer);
    write_name(info->name, &offer);
    if (info->version == nvmlComputeInstanceProfileInfo_v3)
        ((nvmlComputeInstanceProfileInfo_v3_t *)(void *)info)->capabilities = 0;
    return NVML_SUCCESS;
}

FG_API nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle, unsigned int profile,
                                                          unsigned int *count)
{
    FG_ENTER_GPU_INSTANCE(handle, count != NULL);
    FG_REQUIRE_ADMINISTRATOR;
    FG_REQUIRE(offer_of(&mig, instance, profile).slices > 0, NVML_ERROR_NOT_SUPPORTED);
    *count = fg_mig_compute_capacity(&mig, id, profile);
    return NVML_SUCCESS;
}

FG_API nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t handle, unsigned int profile,
                                                           nvmlComputeInstancePlacement_t *placements,
                                                           unsigned int *count)
{
    FG_ENTER_GPU_INSTANCE(handle, count != NULL);
    FG_REQUIRE_ADMINISTRATOR;
    struct offer offer = offer_of(&mig, instance, profile);
    FG_REQUIRE(offer.slices > 0, NVML_ERROR_NOT_SUPPORTED);
    unsigned int found = 0;
    for (unsigned int start = 0; start < offer.whole->slices; start++) {
        if ((offer.starts >> start & 1u) == 0)
            continue;
        if (placements != NULL)
            placements[found] = (nvmlComputeInstancePlacement_t){.start = start, .size = offer.slices};
        found++;
    }
    *count = found;
    return NVML_SUCCESS;
}

static nvmlReturn_t create(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int gpu_instance,
                           unsigned int profile, unsigned int start, nvmlComputeInstance_t *handle)
{
    unsigned int slot;
    FG_CHANGE(gpu, change);
    struct fg_mig *mig = &change.state.mig;
    nvmlReturn_t result = NVML_ERROR_INVALID_ARGUMENT;
    if (mig->gpu_instances[gpu_instance].is_here)
        result = fg_mig_create_compute(mig, gpu_instance, profile, start, &slot);
    if (result != NVML_SUCCESS)
        return fg_change_abandon(&change, result);
    *handle = fg_handle_at(gpu, FG_AT_COMPUTE_INSTANCES + slot);
    return fg_mig_commit(&change, gpu_instance, mig->compute_instances[slot].id);
}

FG_API nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned int profile,
                                            nvmlComputeInstance_t *compute_instance)
{
    FG_ENTER_GPU_INSTANCE(handle, compute_instance != NULL);
    FG_REQUIRE(offer_of(&mig, instance, profile).slices > 0, NVML_ERROR_NOT_SUPPORTED);
    return create(segment, gpu, id, profile, FG_ANY_START, compute_instance);
}

FG_API nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t handle, unsigned int profile,
                                                         const nvmlComputeInstancePlacement_t *placement,
                                                         nvmlComputeInstance_t *compute_instance)
{
    FG_ENTER_GPU_INSTANCE(handle, placement != NULL && placement->start != FG_ANY_START && compute_instance != NULL);
    struct offer offer = offer_of(&mig, instance, profile);
    FG_REQUIRE(offer.slices > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(placement->size == offer.slices, NVML_ERROR_INVALID_ARGUMENT);
    return create(segment, gpu, id, profile, placement->start, compute_instance);
}

/* Steps 1 to 3 of functions of a compute instance: declares `gpu`, `place`, `mig` and `compute`. */
#define FG_ENTER_COMPUTE_INSTANCE(handle, arguments_are_valid)                                                         \
    FG_ENTER_SESSION;                                                                                                  \
    unsigned int place;                                                                                                \
    const struct fg_gpu *gpu =                                                                                         \
        fg_part_of(segment, (handle), FG_AT_COMPUTE_INSTANCES, FG_COMPUTE_INSTANCES, &place);                          \
    FG_REQUIRE(gpu != NULL && (arguments_are_valid), NVML_ERROR_INVALID_ARGUMENT);                                     \
    FG_APPLY_FAULTS(segment, gpu);                                                                                     \
    FG_READ(gpu, mig, mig);                                                                                            \
    const struct fg_compute_instance *compute = &mig.compute_instances[place];                                         \
    FG_REQUIRE(compute->is_here, NVML_ERROR_INVALID_ARGUMENT)

FG_API nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    FG_ENTER_COMPUTE_INSTANCE(handle, true);
    bool is_used;
    FG_TRY(fg_has_processes(gpu, compute->gpu_instance, compute->id, &is_used));
    FG_CHANGE(gpu, change);
    struct fg_compute_instance *doomed = &change.state.mig.compute_instances[place];
    if (!doomed->is_here || is_used)
        return fg_change_abandon(&change, is_used ? NVML_ERROR_IN_USE : NVML_ERROR_INVALID_ARGUMENT);
    *doomed = (struct fg_compute_instance){0};
    return fg_mig_commit(&change, compute->gpu_instance, compute->id);
}

FG_API nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned int profile,
                                          nvmlComputeInstance_t *compute_instances, unsigned int *count)
{
    FG_ENTER_GPU_INSTANCE(handle, compute_instances != NULL && count != NULL);
    FG_REQUIRE_ADMINISTRATOR;
    FG_REQUIRE(offer_of(&mig, instance, profile).slices > 0, NVML_ERROR_NOT_SUPPORTED);
    unsigned int found = 0;
    for (unsigned int place = 0; place < FG_COMPUTE_INSTANCES; place++) {
        const struct fg_compute_instance *compute = &mig.compute_instances[place];
        if (compute->is_here && compute->gpu_instance == id && compute->profile == profile)
            compute_instances[found++] = fg_handle_at(gpu, FG_AT_COMPUTE_INSTANCES + place);
    }
    *count = found;
    return NVML_SUCCESS;
}

FG_API nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned int compute_id,
                                             nvmlComputeInstance_t *compute_instance)
{
    FG_ENTER_GPU_INSTANCE(handle, compute_instance != NULL);
    FG_REQUIRE_ADMINISTRATOR;
    for (unsigned int place = 0; place < FG_COMPUTE_INSTANCES; place++) {
        const struct fg_compute_instance *compute = &mig.compute_instances[place];
        if (!compute->is_here || compute->gpu_instance != id || compute->id != compute_id)
            continue;
        *compute_instance = fg_handle_at(gpu, FG_AT_COMPUTE_INSTANCES + place);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

FG_API nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    FG_ENTER_COMPUTE_INSTANCE(handle, info != NULL);
    const struct fg_gpu_instance *instance = &mig.gpu_instances[compute->gpu_instance];
    *info = (nvmlComputeInstanceInfo_t){
        .device = fg_handle_of(gpu),
        .gpuInstance = fg_handle_at(gpu, FG_AT_GPU_INSTANCES + compute->gpu_instance),
        .id = compute->id,
        .profileId = compute->profile,
        .placement = {.start = compute->start, .size = offer_of(&mig, instance, compute->profile).slices},
    };
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlComputeInstanceGetInfo, nvmlComputeInstanceGetInfo_v2);
