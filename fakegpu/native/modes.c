/* Switches of the driver: persistence, compute mode, display, accounting, virtualisation. */
#include "nvml_api.h"

FG_GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, modes, true, modes.persistence)
FG_GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, modes, true, modes.compute)
FG_GETTER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, modes, true, modes.display)
FG_GETTER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, modes, true, modes.display_active)
FG_GETTER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, modes, true, modes.accounting)
FG_GETTER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, modes, true, NVML_GPU_VIRTUALIZATION_MODE_NONE)

FG_API nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
    FG_ENTER(device, mode != NULL);
    FG_REQUIRE(mode->version == nvmlDeviceAddressingMode_v1, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, modes, modes);
    mode->value = modes.addressing;
    return NVML_SUCCESS;
}
