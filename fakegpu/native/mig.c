/* MIG as a machine without partitions shows it: the mode can be asked, no MIG device exists. */
#include "nvml_api.h"

FG_API nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    FG_ENTER(device, current != NULL && pending != NULL);
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(modes.mig_supported, NVML_ERROR_NOT_SUPPORTED);
    *current = modes.mig_current;
    *pending = modes.mig_pending;
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, modes, true, 0)
FG_GETTER(nvmlDeviceIsMigDeviceHandle, unsigned int, modes, true, 0)

FG_API nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig_device)
{
    FG_ENTER(device, mig_device != NULL);
    (void)index;
    FG_READ(gpu, modes, modes);
    return modes.mig_supported ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
}

/* Every handle here is a whole GPU, and these three take handles of MIG devices only. */
#define FG_MIG_HANDLE_ONLY(function, type)                                                                             \
    FG_API function(nvmlDevice_t device, type *result)                                                                 \
    {                                                                                                                  \
        FG_ENTER(device, result != NULL);                                                                              \
        FG_READ(gpu, fault, fault);                                                                                    \
        return NVML_ERROR_INVALID_ARGUMENT;                                                                            \
    }

FG_MIG_HANDLE_ONLY(nvmlDeviceGetGpuInstanceId, unsigned int)
FG_MIG_HANDLE_ONLY(nvmlDeviceGetComputeInstanceId, unsigned int)
FG_MIG_HANDLE_ONLY(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t)
