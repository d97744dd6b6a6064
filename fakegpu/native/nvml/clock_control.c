/* Clock control: locks, applications clocks, offsets, and permissions. */
#include "nvml/change.h"

/* Indices of what clocks can be moved. */
enum { GRAPHICS, MEMORY };

struct range {
    unsigned int lowest_mhz;
    unsigned int highest_mhz;
    unsigned int base_mhz;
};

static struct range graphics_range(const struct fg_clocks *clocks)
{
    return (struct range){
        .lowest_mhz = clocks->graphics_min_mhz,
        .highest_mhz = clocks->maximum_mhz[NVML_CLOCK_GRAPHICS],
        .base_mhz = clocks->default_application_mhz[NVML_CLOCK_GRAPHICS],
    };
}

static struct range memory_range(const struct fg_clocks *clocks)
{
    struct range range = {.highest_mhz = clocks->memory_mhz[0], .base_mhz = clocks->memory_mhz[0]};
    for (unsigned int index = 0; index < FG_MEMORY_CLOCKS_MAX && clocks->memory_mhz[index] != 0; index++)
        range.lowest_mhz = clocks->memory_mhz[index];
    return range;
}

/* A lock names clocks or NVML_CLOCK_LIMIT_ID_*; a value outside the range of the board means the nearest end of it. */
static unsigned int resolve(unsigned int mhz, struct range range)
{
    switch (mhz) {
    case NVML_CLOCK_LIMIT_ID_RANGE_START: return range.lowest_mhz;
    case NVML_CLOCK_LIMIT_ID_TDP: return range.base_mhz;
    case NVML_CLOCK_LIMIT_ID_UNLIMITED: return range.highest_mhz;
    default: return mhz < range.lowest_mhz ? range.lowest_mhz : mhz > range.highest_mhz ? range.highest_mhz : mhz;
    }
}

static nvmlReturn_t lock_graphics(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int min_mhz,
                                  unsigned int max_mhz)
{
    FG_CHANGE(gpu, change);
    change.state.clocks.locked_graphics_mhz[0] = min_mhz;
    change.state.clocks.locked_graphics_mhz[1] = max_mhz;
    return fg_change_commit(&change);
}

static nvmlReturn_t lock_memory(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int min_mhz,
                                unsigned int max_mhz)
{
    FG_CHANGE(gpu, change);
    change.state.clocks.locked_memory_mhz[0] = min_mhz;
    change.state.clocks.locked_memory_mhz[1] = max_mhz;
    return fg_change_commit(&change);
}

FG_API nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    FG_ENTER(device, true);
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE(min_mhz <= max_mhz, NVML_ERROR_INVALID_ARGUMENT);
    struct range range = graphics_range(&clocks);
    return lock_graphics(segment, gpu, resolve(min_mhz, range), resolve(max_mhz, range));
}

FG_API nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    return lock_graphics(segment, gpu, 0, 0);
}

/* Memory clocks can be locked on Ampere and newer boards. */
#define FG_REQUIRE_MEMORY_LOCK(gpu)                                                                                    \
    FG_READ(gpu, identity, identity);                                                                                  \
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_AMPERE, NVML_ERROR_NOT_SUPPORTED)

FG_API nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    FG_ENTER(device, true);
    FG_REQUIRE_MEMORY_LOCK(gpu);
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE(min_mhz <= max_mhz, NVML_ERROR_INVALID_ARGUMENT);
    struct range range = memory_range(&clocks);
    return lock_memory(segment, gpu, resolve(min_mhz, range), resolve(max_mhz, range));
}

FG_API nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    FG_REQUIRE_MEMORY_LOCK(gpu);
    return lock_memory(segment, gpu, 0, 0);
}

static bool is_graphics_clock(const struct fg_clocks *clocks, unsigned int memory_mhz, unsigned int mhz)
{
    for (unsigned int index = 0; index < FG_MEMORY_CLOCKS_MAX && clocks->memory_mhz[index] != 0; index++) {
        if (clocks->memory_mhz[index] != memory_mhz)
            continue;
        unsigned int count = 0;
        for (unsigned int khz = clocks->graphics_min_mhz * 1000u; count < UINT16_MAX && khz / 1000u <= mhz; count++) {
            if (khz / 1000u == mhz)
                return mhz <= clocks->graphics_max_mhz[index];
            khz += clocks->graphics_step_khz;
        }
    }
    return false;
}

static nvmlReturn_t set_applications_clocks(const struct fg_segment *segment, const struct fg_gpu *gpu, bool is_reset,
                                            unsigned int memory_mhz, unsigned int graphics_mhz)
{
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE(clocks.application_mhz[NVML_CLOCK_GRAPHICS] != 0, NVML_ERROR_NOT_SUPPORTED);
    if (is_reset) {
        memory_mhz = clocks.default_application_mhz[NVML_CLOCK_MEM];
        graphics_mhz = clocks.default_application_mhz[NVML_CLOCK_GRAPHICS];
    } else {
        FG_REQUIRE(is_graphics_clock(&clocks, memory_mhz, graphics_mhz), NVML_ERROR_INVALID_ARGUMENT);
    }
    FG_CHANGE_BY(gpu, change, clocks.anyone_sets_applications_clocks);
    change.state.clocks.application_mhz[NVML_CLOCK_GRAPHICS] = graphics_mhz;
    change.state.clocks.application_mhz[NVML_CLOCK_SM] = graphics_mhz;
    change.state.clocks.application_mhz[NVML_CLOCK_MEM] = memory_mhz;
    return fg_change_commit(&change);
}

FG_API nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned int memory_mhz, unsigned int graphics_mhz)
{
    FG_ENTER(device, true);
    return set_applications_clocks(segment, gpu, false, memory_mhz, graphics_mhz);
}

FG_API nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    return set_applications_clocks(segment, gpu, true, 0, 0);
}

/* Boards since Pascal boost through their applications clocks: the other restriction has no effect. */
FG_API nvmlDeviceGetAPIRestriction(nvmlDevice_t device, nvmlRestrictedAPI_t api, nvmlEnableState_t *is_restricted)
{
    FG_ENTER(device, is_restricted != NULL && (unsigned int)api < NVML_RESTRICTED_API_COUNT);
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE(api == NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS, NVML_ERROR_NOT_SUPPORTED);
    *is_restricted = clocks.anyone_sets_applications_clocks ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceSetAPIRestriction(nvmlDevice_t device, nvmlRestrictedAPI_t api, nvmlEnableState_t is_restricted)
{
    FG_ENTER(device, (unsigned int)api < NVML_RESTRICTED_API_COUNT && FG_IS_SWITCH(is_restricted));
    FG_REQUIRE(api == NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS, NVML_ERROR_NOT_SUPPORTED);
    FG_CHANGE(gpu, change);
    change.state.clocks.anyone_sets_applications_clocks = is_restricted == NVML_FEATURE_DISABLED;
    return fg_change_commit(&change);
}

/* An offset moves the whole curve, in every performance state. A board without offsets answers zeros: driver 580 on an
 * H200. */
static nvmlReturn_t get_offset(const struct fg_gpu *gpu, unsigned int domain, int *offset, int *limit)
{
    FG_READ(gpu, clocks, clocks);
    *offset = clocks.offset_mhz[domain];
    *limit = clocks.offset_max_mhz[domain];
    return NVML_SUCCESS;
}

static nvmlReturn_t set_offset(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int domain,
                               int offset)
{
    int before, limit;
    FG_TRY(get_offset(gpu, domain, &before, &limit));
    FG_REQUIRE(limit > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(offset >= -limit && offset <= limit, NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    change.state.clocks.offset_mhz[domain] = offset;
    return fg_change_commit(&change);
}

#define FG_OFFSET_GETTER(function, domain)                                                                             \
    FG_API function(nvmlDevice_t device, int *offset)                                                                  \
    {                                                                                                                  \
        int limit;                                                                                                     \
        FG_ENTER(device, offset != NULL);                                                                              \
        return get_offset(gpu, domain, offset, &limit);                                                             \
    }

#define FG_OFFSET_RANGE_GETTER(function, domain)                                                                       \
    FG_API function(nvmlDevice_t device, int *min_offset, int *max_offset)                                             \
    {                                                                                                                  \
        int offset;                                                                                                    \
        FG_ENTER(device, min_offset != NULL && max_offset != NULL);                                                    \
        FG_TRY(get_offset(gpu, domain, &offset, max_offset));                                                       \
        *min_offset = -*max_offset;                                                                                    \
        return NVML_SUCCESS;                                                                                           \
    }

FG_OFFSET_GETTER(nvmlDeviceGetGpcClkVfOffset, GRAPHICS)
FG_OFFSET_GETTER(nvmlDeviceGetMemClkVfOffset, MEMORY)
FG_OFFSET_RANGE_GETTER(nvmlDeviceGetGpcClkMinMaxVfOffset, GRAPHICS)
FG_OFFSET_RANGE_GETTER(nvmlDeviceGetMemClkMinMaxVfOffset, MEMORY)

FG_API nvmlDeviceSetGpcClkVfOffset(nvmlDevice_t device, int offset)
{
    FG_ENTER(device, true);
    return set_offset(segment, gpu, GRAPHICS, offset);
}

FG_API nvmlDeviceSetMemClkVfOffset(nvmlDevice_t device, int offset)
{
    FG_ENTER(device, true);
    return set_offset(segment, gpu, MEMORY, offset);
}

/* Checks the arguments of the next two functions: declares `domain`. */
#define FG_ENTER_OFFSET(device, info)                                                                                  \
    FG_ENTER(device, info != NULL);                                                                                    \
    FG_REQUIRE_VERSION(info, nvmlClockOffset_v1);                                                                      \
    FG_REQUIRE(info->type == NVML_CLOCK_GRAPHICS || info->type == NVML_CLOCK_MEM, NVML_ERROR_INVALID_ARGUMENT);        \
    FG_REQUIRE((unsigned int)info->pstate < NVML_MAX_GPU_PERF_PSTATES, NVML_ERROR_INVALID_ARGUMENT);                   \
    FG_READ(gpu, clocks, clocks);                                                                                      \
    FG_REQUIRE((clocks.performance_states >> info->pstate & 1u) != 0, NVML_ERROR_NOT_SUPPORTED);                       \
    unsigned int domain = info->type == NVML_CLOCK_MEM ? MEMORY : GRAPHICS

FG_API nvmlDeviceGetClockOffsets(nvmlDevice_t device, nvmlClockOffset_t *info)
{
    FG_ENTER_OFFSET(device, info);
    FG_TRY(get_offset(gpu, domain, &info->clockOffsetMHz, &info->maxClockOffsetMHz));
    info->minClockOffsetMHz = -info->maxClockOffsetMHz;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceSetClockOffsets(nvmlDevice_t device, nvmlClockOffset_t *info)
{
    FG_ENTER_OFFSET(device, info);
    return set_offset(segment, gpu, domain, info->clockOffsetMHz);
}
