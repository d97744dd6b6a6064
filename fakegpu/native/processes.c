/* Processes on the GPU: a fake machine runs none, and says so in the way of an idle GPU. */
#include "nvml_api.h"

static nvmlReturn_t answer_none(nvmlDevice_t device, unsigned int *count)
{
    FG_ENTER(device, count != NULL);
    FG_READ(gpu, fault, fault);
    *count = 0;
    return NVML_SUCCESS;
}

#define FG_PROCESS_LIST(function, type)                                                                                \
    FG_API function(nvmlDevice_t device, unsigned int *count, type *processes)                                         \
    {                                                                                                                  \
        (void)processes;                                                                                               \
        return answer_none(device, count);                                                                             \
    }

FG_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
FG_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
FG_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
FG_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
FG_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
FG_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
FG_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
FG_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
FG_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

FG_API nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    FG_ENTER(device, list != NULL);
    (void)gpu;
    FG_REQUIRE(list->version == nvmlProcessDetailList_v1, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_REQUIRE(list->mode < NVML_PROCESS_MODE_MAX, NVML_ERROR_INVALID_ARGUMENT);
    return answer_none(device, &list->numProcArrayEntries);
}

FG_API nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                       unsigned int *count, unsigned long long since_us)
{
    (void)samples;
    (void)since_us;
    return answer_none(device, count);
}
