/* Power draw, limits and energy. */
#include "nvml/change.h"

FG_API nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min_mw, unsigned int *max_mw)
{
    FG_ENTER(device, min_mw != NULL && max_mw != NULL);
    FG_READ(gpu, power, power);
    *min_mw = power.limit_min_mw;
    *max_mw = power.limit_max_mw;
    return NVML_SUCCESS;
}

static nvmlReturn_t set_limit(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int limit_mw)
{
    FG_READ(gpu, power, power);
    FG_REQUIRE(limit_mw >= power.limit_min_mw && limit_mw <= power.limit_max_mw, NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    change.state.power.limit_mw = limit_mw;
    return fg_change_commit(&change);
}

FG_API nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit_mw)
{
    FG_ENTER(device, true);
    return set_limit(segment, gpu, limit_mw);
}

static nvmlReturn_t set_module_limit(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int limit_mw)
{
    FG_READ(gpu, module_power, module);
    FG_REQUIRE(module.limit_max_mw != 0, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(limit_mw >= module.limit_min_mw && limit_mw <= module.limit_max_mw, NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    change.state.module_power.limit_mw = limit_mw;
    return fg_change_commit(&change);
}

/* The module is the GPU and the CPU beside it. */
FG_API nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t *value)
{
    FG_ENTER(device, value != NULL);
    FG_REQUIRE_VERSION(value, nvmlPowerValue_v2);
    FG_REQUIRE(value->powerScope < NVML_POWER_SCOPE_COUNT, NVML_ERROR_INVALID_ARGUMENT);
    if (value->powerScope == NVML_POWER_SCOPE_MODULE)
        return set_module_limit(segment, gpu, value->powerValueMw);
    FG_REQUIRE(value->powerScope == NVML_POWER_SCOPE_GPU, NVML_ERROR_NOT_SUPPORTED);
    return set_limit(segment, gpu, value->powerValueMw);
}

FG_GETTER(nvmlDeviceGetPowerUsage, unsigned int, power, true, power.usage_mw)
FG_GETTER(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, power, true, NVML_FEATURE_ENABLED)
FG_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned int, power, true, power.limit_mw)
FG_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, power, true, power.limit_mw)
FG_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, power, true, power.default_limit_mw)
FG_GETTER(nvmlDeviceGetPowerSource, nvmlPowerSource_t, power, true, NVML_POWER_SOURCE_AC)

FG_API nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy_mj)
{
    FG_ENTER(device, energy_mj != NULL);
    FG_READ(gpu, power, power);
    FG_TRY(fg_count_energy(gpu, &power));
    *energy_mj = power.energy_mj;
    return NVML_SUCCESS;
}
