/* Switches of the driver: persistence, compute mode, display, virtualisation. */
#include "nvml/mig.h"

#define IS_COMPUTE_MODE(mode)                                                                                          \
    ((mode) == NVML_COMPUTEMODE_DEFAULT || (mode) == NVML_COMPUTEMODE_PROHIBITED ||                                    \
     (mode) == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)

FG_GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, modes, true, modes.persistence)
FG_SETTER(nvmlDeviceSetPersistenceMode, nvmlEnableState_t, FG_IS_SWITCH(value), modes, true, persistence)

/* In MIG mode each MIG device has a compute mode. The GPU's cannot be set, and is the default. */
FG_API nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    FG_ENTER_ANY(device, mode != NULL);
    FG_READ(gpu, modes, modes);
    FG_READ(gpu, mig, mig);
    uint32_t of_gpu = modes.mig_current ? NVML_COMPUTEMODE_DEFAULT : modes.compute;
    *mode = (nvmlComputeMode_t)(FG_IS_MIG_DEVICE ? mig.compute_instances[slot].mode : of_gpu);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
    FG_ENTER_ANY(device, IS_COMPUTE_MODE(mode));
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(FG_IS_MIG_DEVICE || !modes.mig_current, NVML_ERROR_NOT_SUPPORTED);
    FG_CHANGE(gpu, change);
    if (FG_IS_MIG_DEVICE)
        change.state.mig.compute_instances[slot].mode = mode;
    else
        change.state.modes.compute = mode;
    return fg_change_commit(&change);
}

FG_GETTER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, modes, true, modes.display)
FG_GETTER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, modes, true, modes.display_active)
FG_GETTER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, modes, true, modes.virtualization)

FG_API nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
    FG_ENTER(device, mode != NULL);
    FG_REQUIRE_VERSION(mode, nvmlDeviceAddressingMode_v1);
    FG_READ(gpu, modes, modes);
    mode->value = modes.addressing;
    return NVML_SUCCESS;
}

/* Driver models are Windows'; callers may ask for one of the two alone. */
FG_API nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending)
{
    FG_ENTER(device, current != NULL || pending != NULL);
    FG_READ(gpu, fault, fault);
    return NVML_ERROR_NOT_SUPPORTED;
}

FG_ALIAS(nvmlDeviceGetDriverModel, nvmlDeviceGetDriverModel_v2);
