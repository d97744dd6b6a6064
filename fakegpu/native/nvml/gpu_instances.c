/* GPU instances: profiles, placements, creating, destroying. */
#include "nvml/mig.h"

#include <stdio.h>

/* Step 3: declares `mig`, for a GPU that can be partitioned. */
#define FG_READ_MIG                                                                                                    \
    FG_READ(gpu, modes, modes);                                                                                        \
    FG_REQUIRE(modes.mig_supported, NVML_ERROR_NOT_SUPPORTED);                                                         \
    FG_READ(gpu, mig, mig)

/* The members that every version of a profile's struct has; the flags differ. */
#define FG_ENGINES_OF(profile)                                                                                         \
    .sliceCount = (profile)->slices, .instanceCount = (profile)->instances,                                            \
    .multiprocessorCount = (profile)->multiprocessors, .copyEngineCount = (profile)->copy_engines,                     \
    .decoderCount = (profile)->decoders, .encoderCount = (profile)->encoders, .jpegCount = (profile)->jpegs,           \
    .ofaCount = (profile)->ofas, .memorySizeMB = (profile)->memory_mib

FG_API nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info)
{
    FG_ENTER(device, info != NULL && profile < NVML_GPU_INSTANCE_PROFILE_COUNT);
    FG_READ_MIG;
    const struct fg_mig_profile *found = &mig.profiles[profile];
    FG_REQUIRE(found->is_here, NVML_ERROR_NOT_SUPPORTED);
    *info = (nvmlGpuInstanceProfileInfo_t){
        .id = found->id,
        .isP2pSupported = found->capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_P2P,
        FG_ENGINES_OF(found),
    };
    return NVML_SUCCESS;
}

static void fill_v2(nvmlGpuInstanceProfileInfo_v2_t *info, const struct fg_mig_profile *profile)
{
    *info = (nvmlGpuInstanceProfileInfo_v2_t){
        .version = nvmlGpuInstanceProfileInfo_v2,
        .id = profile->id,
        .isP2pSupported = profile->capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_P2P,
        FG_ENGINES_OF(profile),
    };
    snprintf(info->name, sizeof info->name, "MIG %.*s", (int)sizeof profile->name, profile->name);
}

static void fill_v3(nvmlGpuInstanceProfileInfo_v3_t *info, const struct fg_mig_profile *profile)
{
    *info = (nvmlGpuInstanceProfileInfo_v3_t){
        .version = nvmlGpuInstanceProfileInfo_v3,
        .id = profile->id,
        FG_ENGINES_OF(profile),
        .capabilities = profile->capabilities,
    };
    snprintf(info->name, sizeof info->name, "MIG %.*s", (int)sizeof profile->name, profile->name);
}

/* Later versions begin with the version, then the same members, and have more room. */
static nvmlReturn_t fill_any(nvmlGpuInstanceProfileInfo_v2_t *info, const struct fg_mig_profile *profile)
{
    if (info->version == nvmlGpuInstanceProfileInfo_v2)
        fill_v2(info, profile);
    else if (info->version == nvmlGpuInstanceProfileInfo_v3)
        fill_v3((nvmlGpuInstanceProfileInfo_v3_t *)(void *)info, profile);
    else
        return NVML_ERROR_INVALID_ARGUMENT; /* and not a mismatch of versions: driver 580 on an H200 */
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                            nvmlGpuInstanceProfileInfo_v2_t *info)
{
    FG_ENTER(device, info != NULL && profile < NVML_GPU_INSTANCE_PROFILE_COUNT);
    FG_READ_MIG;
    FG_REQUIRE(mig.profiles[profile].is_here, NVML_ERROR_NOT_SUPPORTED);
    return fill_any(info, &mig.profiles[profile]);
}

FG_API nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
                                                nvmlGpuInstanceProfileInfo_v2_t *info)
{
    unsigned int profile;
    FG_ENTER(device, info != NULL);
    FG_READ_MIG;
    const struct fg_mig_profile *found = fg_mig_profile_by_id(&mig, id, &profile);
    FG_REQUIRE(found != NULL, NVML_ERROR_INVALID_ARGUMENT);
    return fill_any(info, found);
}

FG_API nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                     nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    unsigned int profile, found = 0;
    FG_ENTER(device, count != NULL);
    FG_READ_MIG;
    FG_REQUIRE_ADMINISTRATOR;
    const struct fg_mig_profile *wanted = fg_mig_profile_by_id(&mig, id, &profile);
    FG_REQUIRE(wanted != NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int start = 0; start < mig.memory_slices; start++) {
        if ((wanted->starts >> start & 1u) == 0)
            continue;
        if (placements != NULL)
            placements[found] = (nvmlGpuInstancePlacement_t){.start = start, .size = wanted->size};
        found++;
    }
    *count = found;
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlDeviceGetGpuInstancePossiblePlacements, nvmlDeviceGetGpuInstancePossiblePlacements_v2);

/* Of a GPU whose MIG mode is off, all instances that would fit are free: nvidia-smi 580.159.04 lists 7/7, 4/4, ... of
 * an H200. */
FG_API nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    unsigned int profile;
    FG_ENTER(device, count != NULL);
    FG_READ_MIG;
    FG_REQUIRE_ADMINISTRATOR;
    FG_REQUIRE(fg_mig_profile_by_id(&mig, id, &profile) != NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = fg_mig_capacity(&mig, profile);
    return NVML_SUCCESS;
}

static nvmlReturn_t create(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int profile_id,
                           unsigned int start, unsigned int size, nvmlGpuInstance_t *instance)
{
    unsigned int profile, id;
    FG_READ_MIG;
    FG_REQUIRE(modes.mig_current, NVML_ERROR_NOT_SUPPORTED);
    const struct fg_mig_profile *wanted = fg_mig_profile_by_id(&mig, profile_id, &profile);
    FG_REQUIRE(wanted != NULL && (start == FG_ANY_START || size == wanted->size), NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    nvmlReturn_t result = NVML_ERROR_NOT_SUPPORTED;
    if (change.state.modes.mig_current)
        result = fg_mig_create(&change.state.mig, profile, start, &id);
    if (result != NVML_SUCCESS)
        return fg_change_abandon(&change, result);
    *instance = fg_handle_at(gpu, FG_AT_GPU_INSTANCES + id);
    return fg_mig_commit(&change, id, NVML_COMPUTE_INSTANCE_ID_ANY);
}

FG_API nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t *instance)
{
    FG_ENTER(device, instance != NULL);
    return create(segment, gpu, profile_id, FG_ANY_START, 0, instance);
}

FG_API nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile_id,
                                                const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *instance)
{
    FG_ENTER(device, placement != NULL && placement->start != FG_ANY_START && instance != NULL);
    return create(segment, gpu, profile_id, placement->start, placement->size, instance);
}

FG_API nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    FG_ENTER_GPU_INSTANCE(handle, true);
    bool is_used;
    FG_TRY(fg_has_processes(gpu, id, NVML_COMPUTE_INSTANCE_ID_ANY, &is_used));
    FG_CHANGE(gpu, change);
    nvmlReturn_t result = NVML_ERROR_INVALID_ARGUMENT;
    if (change.state.mig.gpu_instances[id].is_here)
        result = is_used ? NVML_ERROR_IN_USE : fg_mig_destroy(&change.state.mig, id);
    if (result != NVML_SUCCESS)
        return fg_change_abandon(&change, result);
    return fg_mig_commit(&change, id, NVML_COMPUTE_INSTANCE_ID_ANY);
}

FG_API nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    FG_ENTER_GPU_INSTANCE(handle, info != NULL);
    const struct fg_mig_profile *profile = &mig.profiles[instance->profile];
    *info = (nvmlGpuInstanceInfo_t){
        .device = fg_handle_of(gpu),
        .id = id,
        .profileId = profile->id,
        .placement = {.start = instance->start, .size = profile->size},
    };
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t *instances,
                                 unsigned int *count)
{
    unsigned int profile, found = 0;
    FG_ENTER(device, instances != NULL && count != NULL);
    FG_READ_MIG;
    FG_REQUIRE_ADMINISTRATOR;
    FG_REQUIRE(fg_mig_profile_by_id(&mig, profile_id, &profile) != NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int id = 0; id < FG_GPU_INSTANCES; id++)
        if (mig.gpu_instances[id].is_here && mig.gpu_instances[id].profile == profile)
            instances[found++] = fg_handle_at(gpu, FG_AT_GPU_INSTANCES + id);
    *count = found;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
    FG_ENTER(device, instance != NULL);
    FG_READ_MIG;
    FG_REQUIRE_ADMINISTRATOR;
    FG_REQUIRE(id < FG_GPU_INSTANCES && mig.gpu_instances[id].is_here, NVML_ERROR_NOT_FOUND);
    *instance = fg_handle_at(gpu, FG_AT_GPU_INSTANCES + id);
    return NVML_SUCCESS;
}
