/* Clocks, performance states and the reasons that hold clocks down. */
#include "nvml_api.h"

_Static_assert(FG_CLOCK_DOMAINS == NVML_CLOCK_COUNT, "one entry for each clock domain");

#define IS_DOMAIN(type) ((unsigned int)(type) < NVML_CLOCK_COUNT)

#define FG_CLOCK_GETTER(function, member)                                                                              \
    FG_API function(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)                                      \
    {                                                                                                                  \
        FG_ENTER(device, mhz != NULL && IS_DOMAIN(type));                                                              \
        FG_READ(gpu, clocks, clocks);                                                                                  \
        FG_REQUIRE(clocks.member[type] != 0, NVML_ERROR_NOT_SUPPORTED);                                                \
        *mhz = clocks.member[type];                                                                                    \
        return NVML_SUCCESS;                                                                                           \
    }

FG_CLOCK_GETTER(nvmlDeviceGetClockInfo, current_mhz)
FG_CLOCK_GETTER(nvmlDeviceGetMaxClockInfo, maximum_mhz)
FG_CLOCK_GETTER(nvmlDeviceGetMaxCustomerBoostClock, maximum_mhz)
FG_CLOCK_GETTER(nvmlDeviceGetApplicationsClock, application_mhz)
FG_CLOCK_GETTER(nvmlDeviceGetDefaultApplicationsClock, application_mhz)

FG_API nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *mhz)
{
    FG_ENTER(device, mhz != NULL && IS_DOMAIN(type) && (unsigned int)id < NVML_CLOCK_ID_COUNT);
    FG_READ(gpu, clocks, clocks);
    const uint32_t *by_id[NVML_CLOCK_ID_COUNT] = {
        [NVML_CLOCK_ID_CURRENT] = clocks.current_mhz,
        [NVML_CLOCK_ID_APP_CLOCK_TARGET] = clocks.application_mhz,
        [NVML_CLOCK_ID_APP_CLOCK_DEFAULT] = clocks.application_mhz,
        [NVML_CLOCK_ID_CUSTOMER_BOOST_MAX] = clocks.maximum_mhz,
    };
    FG_REQUIRE(by_id[id][type] != 0, NVML_ERROR_NOT_SUPPORTED);
    *mhz = by_id[id][type];
    return NVML_SUCCESS;
}

/* Fills the caller's array, or says by `count` how long it must be. */
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

FG_API nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *clocks_mhz)
{
    FG_ENTER(device, count != NULL);
    FG_READ(gpu, clocks, clocks);
    return answer_list(clocks.memory_mhz, memory_clock_count(&clocks), count, clocks_mhz);
}

FG_API nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz, unsigned int *count,
                                            unsigned int *clocks_mhz)
{
    FG_ENTER(device, count != NULL);
    FG_READ(gpu, clocks, clocks);
    bool is_known = false;
    for (unsigned int index = 0; index < memory_clock_count(&clocks); index++)
        is_known = is_known || clocks.memory_mhz[index] == memory_mhz;
    FG_REQUIRE(is_known, NVML_ERROR_NOT_FOUND);
    FG_REQUIRE(clocks.graphics_step_mhz > 0, NVML_ERROR_NOT_SUPPORTED);
    unsigned int top = clocks.maximum_mhz[NVML_CLOCK_GRAPHICS];
    unsigned int size = (top - clocks.graphics_min_mhz) / clocks.graphics_step_mhz + 1;
    unsigned int room = *count;
    *count = size;
    FG_REQUIRE(clocks_mhz != NULL && room >= size, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < size; index++)
        clocks_mhz[index] = top - index * clocks.graphics_step_mhz;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, nvmlClockType_t type, nvmlPstates_t state,
                                        unsigned int *min_mhz, unsigned int *max_mhz)
{
    FG_ENTER(device, IS_DOMAIN(type) && (unsigned int)state < NVML_MAX_GPU_PERF_PSTATES && min_mhz != NULL &&
                         max_mhz != NULL);
    FG_READ(gpu, clocks, clocks);
    FG_REQUIRE((clocks.performance_states >> state & 1u) != 0, NVML_ERROR_NOT_SUPPORTED);
    *min_mhz = type == NVML_CLOCK_MEM ? clocks.memory_mhz[0] : clocks.graphics_min_mhz;
    *max_mhz = clocks.maximum_mhz[type];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *states, unsigned int size)
{
    FG_ENTER(device, states != NULL);
    FG_READ(gpu, clocks, clocks);
    unsigned int found = 0;
    unsigned int room = size / sizeof *states;
    for (unsigned int state = 0; state < NVML_MAX_GPU_PERF_PSTATES; state++) {
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
