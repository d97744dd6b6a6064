/* Power draw, limits and energy. */
#include "nvml_api.h"

FG_API nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min_mw, unsigned int *max_mw)
{
    FG_ENTER(device, min_mw != NULL && max_mw != NULL);
    FG_READ(gpu, power, power);
    *min_mw = power.limit_min_mw;
    *max_mw = power.limit_max_mw;
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetPowerUsage, unsigned int, power, true, power.usage_mw)
FG_GETTER(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, power, true, NVML_FEATURE_ENABLED)
FG_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned int, power, true, power.limit_mw)
FG_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, power, true, power.limit_mw)
FG_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, power, true, power.default_limit_mw)
FG_GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, power, true, power.energy_mj)
FG_GETTER(nvmlDeviceGetPowerSource, nvmlPowerSource_t, power, true, NVML_POWER_SOURCE_AC)
