/* ECC mode and counters, retired pages and remapped rows. */
#include "nvml/mig.h"

#include <string.h>

_Static_assert(FG_ECC_LOCATIONS == NVML_MEMORY_LOCATION_COUNT, "one counter for each memory location");

FG_API nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    FG_ENTER(device, current != NULL && pending != NULL);
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported, NVML_ERROR_NOT_SUPPORTED);
    *current = (nvmlEnableState_t)ecc.current;
    *pending = (nvmlEnableState_t)ecc.pending;
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, ecc, ecc.is_supported, ecc.default_mode)

static bool are_counters(nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter)
{
    return (unsigned int)error < NVML_MEMORY_ERROR_TYPE_COUNT && (unsigned int)counter < NVML_ECC_COUNTER_TYPE_COUNT;
}

static unsigned long long total(const uint64_t by_location[FG_ECC_LOCATIONS])
{
    unsigned long long sum = 0;
    for (unsigned int location = 0; location < FG_ECC_LOCATIONS; location++)
        sum += by_location[location];
    return sum;
}

FG_API nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,
                                   unsigned long long *count)
{
    FG_ENTER(device, count != NULL && are_counters(error, counter));
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported && ecc.current, NVML_ERROR_NOT_SUPPORTED);
    *count = total(ecc.errors[error][counter]);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,
                                       nvmlMemoryLocation_t location, unsigned long long *count)
{
    FG_ENTER_ANY(device, count != NULL && are_counters(error, counter) &&
                             (unsigned int)location < NVML_MEMORY_LOCATION_COUNT);
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported && ecc.current, NVML_ERROR_NOT_SUPPORTED);
    /* Of a MIG device, NVML reports only volatile uncorrected errors outside of the DRAM; a MIG device here has
     * none. */
    bool is_reported = error == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter == NVML_VOLATILE_ECC &&
                   location != NVML_MEMORY_LOCATION_DRAM;
    FG_REQUIRE(!FG_IS_MIG_DEVICE || is_reported, NVML_ERROR_NOT_SUPPORTED);
    /* Hopper counts by kind of memory, and not by its caches and registers: driver 580 on an H200. */
    FG_READ(gpu, identity, identity);
    bool is_kind = location == NVML_MEMORY_LOCATION_DRAM || location == NVML_MEMORY_LOCATION_SRAM;
    FG_REQUIRE(FG_IS_MIG_DEVICE || is_kind || identity.architecture < NVML_DEVICE_ARCH_HOPPER,
               NVML_ERROR_NOT_SUPPORTED);
    *count = FG_IS_MIG_DEVICE ? 0 : ecc.errors[error][counter][location];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,
                                      nvmlEccErrorCounts_t *counts)
{
    FG_ENTER(device, counts != NULL && are_counters(error, counter));
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported && ecc.current, NVML_ERROR_NOT_SUPPORTED);
    const uint64_t *by_location = ecc.errors[error][counter];
    counts->l1Cache = by_location[NVML_MEMORY_LOCATION_L1_CACHE];
    counts->l2Cache = by_location[NVML_MEMORY_LOCATION_L2_CACHE];
    counts->deviceMemory = by_location[NVML_MEMORY_LOCATION_DEVICE_MEMORY];
    counts->registerFile = by_location[NVML_MEMORY_LOCATION_REGISTER_FILE];
    return NVML_SUCCESS;
}

/* The places of retired pages do not matter; each has an address of its own. */
#define FIRST_RETIRED_PAGE UINT64_C(0x1a2000)
#define PAGE_DISTANCE UINT64_C(0x1000)

static nvmlReturn_t list_pages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                               unsigned long long *addresses, unsigned long long *timestamps)
{
    FG_ENTER(device, count != NULL && (unsigned int)cause < NVML_PAGE_RETIREMENT_CAUSE_COUNT);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(!remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    unsigned int room = *count;
    *count = remap.retired_pages[cause];
    FG_REQUIRE(room >= *count, NVML_ERROR_INSUFFICIENT_SIZE);
    FG_REQUIRE(*count == 0 || addresses != NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int page = 0; page < *count; page++) {
        addresses[page] = FIRST_RETIRED_PAGE + ((uint64_t)page * NVML_PAGE_RETIREMENT_CAUSE_COUNT + cause) * PAGE_DISTANCE;
        if (timestamps != NULL)
            timestamps[page] = segment->loaded_at_us;
    }
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                 unsigned long long *addresses)
{
    return list_pages(device, cause, count, addresses, NULL);
}

FG_API nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                    unsigned long long *addresses, unsigned long long *timestamps)
{
    return list_pages(device, cause, count, addresses, timestamps);
}

FG_GETTER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, remap, !remap.is_supported, remap.is_pending)

FG_API nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                 unsigned int *is_pending, unsigned int *has_failed)
{
    FG_ENTER(device, corrected != NULL && uncorrected != NULL && is_pending != NULL && has_failed != NULL);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    *corrected = remap.corrected_rows;
    *uncorrected = remap.uncorrected_rows;
    *is_pending = remap.is_pending;
    *has_failed = remap.has_failed;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *banks)
{
    FG_ENTER(device, banks != NULL);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    banks->max = remap.banks_max;
    banks->high = remap.banks_high;
    banks->partial = remap.banks_partial;
    banks->low = remap.banks_low;
    banks->none = remap.banks_none;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    FG_ENTER(device, status != NULL);
    FG_REQUIRE_VERSION(status, nvmlEccSramErrorStatus_v1);
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported && ecc.current, NVML_ERROR_NOT_SUPPORTED);
    unsigned int version = status->version;
    memset(status, 0, sizeof *status);
    status->version = version;
    status->volatileCor = ecc.errors[NVML_MEMORY_ERROR_TYPE_CORRECTED][NVML_VOLATILE_ECC][NVML_MEMORY_LOCATION_SRAM];
    status->aggregateCor = ecc.errors[NVML_MEMORY_ERROR_TYPE_CORRECTED][NVML_AGGREGATE_ECC][NVML_MEMORY_LOCATION_SRAM];
    status->volatileUncSecDed =
        ecc.errors[NVML_MEMORY_ERROR_TYPE_UNCORRECTED][NVML_VOLATILE_ECC][NVML_MEMORY_LOCATION_SRAM];
    status->aggregateUncSecDed =
        ecc.errors[NVML_MEMORY_ERROR_TYPE_UNCORRECTED][NVML_AGGREGATE_ECC][NVML_MEMORY_LOCATION_SRAM];
    return NVML_SUCCESS;
}

FG_SETTER(nvmlDeviceSetEccMode, nvmlEnableState_t, FG_IS_SWITCH(value), ecc, ecc.is_supported, pending)

FG_API nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counter)
{
    FG_ENTER(device, (unsigned int)counter < NVML_ECC_COUNTER_TYPE_COUNT);
    FG_READ(gpu, ecc, ecc);
    FG_REQUIRE(ecc.is_supported && ecc.current, NVML_ERROR_NOT_SUPPORTED);
    FG_CHANGE(gpu, change);
    for (unsigned int error = 0; error < NVML_MEMORY_ERROR_TYPE_COUNT; error++)
        memset(change.state.ecc.errors[error][counter], 0, sizeof change.state.ecc.errors[error][counter]);
    return fg_change_commit(&change);
}

/* The places of errors in the SRAM are not modelled: the list is that of a board without errors. */
FG_API nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(nvmlDevice_t device,
                                                        nvmlEccSramUniqueUncorrectedErrorCounts_t *counts)
{
    FG_ENTER(device, counts != NULL);
    FG_REQUIRE_VERSION(counts, nvmlEccSramUniqueUncorrectedErrorCounts_v1);
    FG_READ(gpu, ecc, ecc);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(ecc.is_supported && ecc.current && remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    counts->entryCount = 0;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetRemappedRows_v2(nvmlDevice_t device, nvmlRemappedRowsInfo_v2_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    info->corrActiveRemaps = remap.corrected_rows;
    info->uncActiveRemaps = remap.uncorrected_rows;
    info->bPending = remap.is_pending;
    info->bFailureOccurred = remap.has_failed;
    return NVML_SUCCESS;
}

/* Memory channels and TPCs are repaired at the next reset, on boards that remap rows; none here needs it. */
FG_API nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *status)
{
    FG_ENTER(device, status != NULL);
    FG_REQUIRE_VERSION(status, nvmlRepairStatus_v1);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    status->bChannelRepairPending = 0;
    status->bTpcRepairPending = 0;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, nvmlUnrepairableMemoryStatus_v1_t *status)
{
    FG_ENTER(device, status != NULL);
    FG_READ(gpu, remap, remap);
    FG_REQUIRE(remap.is_supported, NVML_ERROR_NOT_SUPPORTED);
    status->bUnrepairableMemory = remap.has_failed;
    return NVML_SUCCESS;
}
