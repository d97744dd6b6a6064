/* Clocks, performance states and the reasons that limit clocks. */
#include "nvml/change.h"

#include <stdio.h>

_Static_assert(FG_CLOCK_DOMAINS == NVML_CLOCK_COUNT, "one entry for each clock domain");

#define IS_DOMAIN(type) ((unsigned int)(type) < NVML_CLOCK_COUNT)

/* A clock under the lock in force; the SM clock goes with the graphics clock, the video clock with none. */
static inline uint32_t under_lock(const struct fg_clocks *clocks, unsigned int type, uint32_t mhz)
{
    const uint32_t *lock = type == NVML_CLOCK_MEM ? clocks->locked_memory_mhz : clocks->locked_graphics_mhz;
    if (lock[1] == 0 || type == NVML_CLOCK_VIDEO || mhz == 0)
        return mhz;
    return mhz < lock[0] ? lock[0] : mhz > lock[1] ? lock[1] : mhz;
}

#define FG_CLOCK_GETTER(function, member, is_clock)                                                                    \
    FG_API function(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)                                      \
    {                                                                                                                  \
        FG_ENTER(device, mhz != NULL && IS_DOMAIN(type));                                                              \
        FG_READ(gpu, clocks, clocks);                                                                                  \
        FG_REQUIRE(clocks.member[type] != 0 && (is_clock), NVML_ERROR_NOT_SUPPORTED);                                  \
        *mhz = clocks.member[type];                                                                                    \
        return NVML_SUCCESS;                                                                                           \
    }

FG_API nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    FG_ENTER(device, mhz != NULL);
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE(IS_DOMAIN(type) && clocks.current_mhz[type] != 0, NVML_ERROR_NOT_SUPPORTED);
    *mhz = under_lock(&clocks, type, clocks.current_mhz[type]);
    return NVML_SUCCESS;
}

/* Customers boost the graphics and SM clocks only: driver 580 on an H200. */
#define IS_BOOSTED(type) ((type) == NVML_CLOCK_GRAPHICS || (type) == NVML_CLOCK_SM)

FG_CLOCK_GETTER(nvmlDeviceGetMaxClockInfo, maximum_mhz, true)
FG_CLOCK_GETTER(nvmlDeviceGetMaxCustomerBoostClock, maximum_mhz, IS_BOOSTED(type))
FG_CLOCK_GETTER(nvmlDeviceGetApplicationsClock, application_mhz, true)
FG_CLOCK_GETTER(nvmlDeviceGetDefaultApplicationsClock, default_application_mhz, true)

FG_API nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *mhz)
{
    FG_ENTER(device, mhz != NULL && IS_DOMAIN(type) && (unsigned int)id < NVML_CLOCK_ID_COUNT);
    FG_READ(gpu, clocks, clocks);
    const uint32_t *by_id[NVML_CLOCK_ID_COUNT] = {
        [NVML_CLOCK_ID_CURRENT] = clocks.current_mhz,
        [NVML_CLOCK_ID_APP_CLOCK_TARGET] = clocks.application_mhz,
        [NVML_CLOCK_ID_APP_CLOCK_DEFAULT] = clocks.default_application_mhz,
        [NVML_CLOCK_ID_CUSTOMER_BOOST_MAX] = clocks.maximum_mhz,
    };
    FG_REQUIRE(by_id[id][type] != 0 && (id != NVML_CLOCK_ID_CUSTOMER_BOOST_MAX || IS_BOOSTED(type)),
               NVML_ERROR_NOT_SUPPORTED);
    *mhz = id == NVML_CLOCK_ID_CURRENT ? under_lock(&clocks, type, by_id[id][type]) : by_id[id][type];
    return NVML_SUCCESS;
}

/* Fills the caller's array, or reports in `count` how long it must be. */
static nvmlReturn_t answer_list(const unsigned int *values, unsigned int size, unsigned int *count, unsigned int *out)
{
    unsigned int room = *count;
    *count = size;
    FG_REQUIRE(out != NULL && room >= size, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < size; index++)
        out[index] = values[index];
    return NVML_SUCCESS;
}

static unsigned int memory_clock_count(const struct fg_clocks *clocks)
{
    unsigned int count = 0;
    while (count < FG_MEMORY_CLOCKS_MAX && clocks->memory_mhz[count] != 0)
        count++;
    return count;
}

/* Position of a supported memory clock, or their number when it is none. */
static unsigned int memory_clock_position(const struct fg_clocks *clocks, unsigned int mhz)
{
    unsigned int position = 0;
    while (position < memory_clock_count(clocks) && clocks->memory_mhz[position] != mhz)
        position++;
    return position;
}

/* The memory clock of a performance state: the slower the state, the slower its memory. */
static unsigned int memory_clock_of(const struct fg_clocks *clocks, unsigned int state)
{
    unsigned int below = (unsigned int)__builtin_popcount(clocks->performance_states & ((1u << state) - 1u));
    return below < memory_clock_count(clocks) ? clocks->memory_mhz[below] : clocks->memory_mhz[0];
}

FG_API nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *clocks_mhz)
{
    FG_ENTER(device, count != NULL);
    FG_READ(gpu, clocks, clocks);
    return answer_list(clocks.memory_mhz, memory_clock_count(&clocks), count, clocks_mhz);
}

FG_API nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz, unsigned int *count,
                                            unsigned int *clocks_mhz)
{
    FG_ENTER(device, count != NULL && memory_mhz != 0);
    FG_READ(gpu, clocks, clocks);
    unsigned int position = memory_clock_position(&clocks, memory_mhz);
    FG_REQUIRE(position < memory_clock_count(&clocks), NVML_ERROR_NOT_FOUND);
    FG_REQUIRE(clocks.graphics_step_khz > 0, NVML_ERROR_NOT_SUPPORTED);
    unsigned int lowest_khz = clocks.graphics_min_mhz * 1000;
    /* Reported clocks are rounded down, so the highest clock may be up to one MHz more than reported. */
    unsigned int range_khz = (clocks.graphics_max_mhz[position] - clocks.graphics_min_mhz) * 1000 + 999;
    unsigned int size = range_khz / clocks.graphics_step_khz + 1;
    unsigned int room = *count;
    *count = size;
    FG_REQUIRE(clocks_mhz != NULL && room >= size, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < size; index++)
        clocks_mhz[size - 1 - index] = (lowest_khz + index * clocks.graphics_step_khz) / 1000;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, nvmlClockType_t type, nvmlPstates_t state,
                                        unsigned int *min_mhz, unsigned int *max_mhz)
{
    FG_ENTER(device, IS_DOMAIN(type) && (unsigned int)state < NVML_MAX_GPU_PERF_PSTATES && min_mhz != NULL &&
                         max_mhz != NULL);
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE((clocks.performance_states >> state & 1u) != 0, NVML_ERROR_UNKNOWN); /* driver 580 on an H200 */
    *min_mhz = type == NVML_CLOCK_MEM ? memory_clock_of(&clocks, state) : clocks.graphics_min_mhz;
    *max_mhz = type == NVML_CLOCK_MEM ? *min_mhz : clocks.maximum_mhz[type];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *states, unsigned int size)
{
    FG_ENTER(device, states != NULL);
    FG_READ(gpu, clocks, clocks);
    unsigned int found = 0;
    unsigned int room = size / sizeof *states;
    /* The slowest first: driver 580 on an H200. */
    for (unsigned int state = NVML_MAX_GPU_PERF_PSTATES; state-- > 0;) {
        if ((clocks.performance_states >> state & 1u) == 0)
            continue;
        FG_REQUIRE(found < room, NVML_ERROR_INSUFFICIENT_SIZE);
        states[found++] = (nvmlPstates_t)state;
    }
    for (; found < room; found++)
        states[found] = NVML_PSTATE_UNKNOWN;
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetPerformanceState, nvmlPstates_t, clocks, true, clocks.performance_state)
FG_GETTER(nvmlDeviceGetPowerState, nvmlPstates_t, clocks, true, clocks.performance_state)
FG_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, clocks, true, clocks.event_reasons)
FG_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, clocks, true, clocks.event_reasons)
FG_GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, clocks, true, clocks.supported_event_reasons)
FG_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, clocks, true, clocks.supported_event_reasons)
FG_GETTER(nvmlDeviceGetAdaptiveClockInfoStatus, unsigned int, clocks, true, NVML_ADAPTIVE_CLOCKING_INFO_STATUS_ENABLED)

/* One performance state as the driver's tools write it: lowest and highest clocks, and the memory's transfer rate. */
static int write_range(char *out, size_t room, const struct fg_clocks *clocks, unsigned int lowest_mhz,
                       unsigned int memory_mhz)
{
    unsigned int highest_mhz = clocks->maximum_mhz[NVML_CLOCK_GRAPHICS];
    return snprintf(out, room,
                    "nvclockmin=%u, nvclockmax=%u, nvclockeditable=%d, memclock=%u, memclockmin=%u, memclockmax=%u, "
                    "memclockeditable=%d, memTransferRate=%u, memTransferRatemin=%u, memTransferRatemax=%u, "
                    "memTransferRateeditable=%d",
                    lowest_mhz, highest_mhz, clocks->offset_max_mhz[0] > 0, memory_mhz, memory_mhz, memory_mhz,
                    clocks->offset_max_mhz[1] > 0, 2 * memory_mhz, 2 * memory_mhz, 2 * memory_mhz,
                    clocks->offset_max_mhz[1] > 0);
}

FG_API nvmlDeviceGetPerformanceModes(nvmlDevice_t device, nvmlDevicePerfModes_t *modes)
{
    FG_ENTER(device, modes != NULL);
    FG_REQUIRE_VERSION(modes, nvmlDevicePerfModes_v1);
    FG_READ(gpu, clocks, clocks);
    size_t used = 0;
    unsigned int position = 0;
    modes->str[0] = '\0';
    /* The slowest comes first. */
    for (unsigned int state = NVML_MAX_GPU_PERF_PSTATES; state-- > 0;) {
        if ((clocks.performance_states >> state & 1u) == 0)
            continue;
        unsigned int memory_mhz = memory_clock_of(&clocks, state);
        char *out = modes->str + used;
        size_t room = sizeof modes->str - used;
        int written = snprintf(out, room, "%sperf=%u, nvclock=%u, ", position > 0 ? " ; " : "", position,
                               clocks.graphics_min_mhz);
        written += write_range(out + written, room - (size_t)written, &clocks, clocks.graphics_min_mhz, memory_mhz);
        FG_REQUIRE((size_t)written < room, NVML_ERROR_UNKNOWN);
        used += (size_t)written;
        position++;
    }
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetCurrentClockFreqs(nvmlDevice_t device, nvmlDeviceCurrentClockFreqs_t *frequencies)
{
    FG_ENTER(device, frequencies != NULL);
    FG_REQUIRE_VERSION(frequencies, nvmlDeviceCurrentClockFreqs_v1);
    FG_READ(gpu, clocks, clocks);
    unsigned int graphics_mhz = under_lock(&clocks, NVML_CLOCK_GRAPHICS, clocks.current_mhz[NVML_CLOCK_GRAPHICS]);
    unsigned int memory_mhz = under_lock(&clocks, NVML_CLOCK_MEM, clocks.current_mhz[NVML_CLOCK_MEM]);
    int written = snprintf(frequencies->str, sizeof frequencies->str, "nvclock=%u, ", graphics_mhz);
    write_range(frequencies->str + written, sizeof frequencies->str - (size_t)written, &clocks,
                clocks.graphics_min_mhz, memory_mhz);
    return NVML_SUCCESS;
}
