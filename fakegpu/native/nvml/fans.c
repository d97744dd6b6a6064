/* Fans: their speed, and what controls it. */
#include "nvml/change.h"

/* Steps 3 and 4 for one fan: declares `fans`. A board without fans has none with that number: INVALID_ARGUMENT, as
 * driver 580 answers of an H200. */
#define FG_READ_FAN(gpu, fan)                                                                                          \
    FG_READ(gpu, fans, fans);                                                                                          \
    FG_REQUIRE((fan) < fans.count && (fan) < FG_FANS_MAX, NVML_ERROR_INVALID_ARGUMENT)

FG_API nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    FG_ENTER(device, percent != NULL);
    FG_READ_FAN(gpu, fan);
    *percent = fans.percent[fan];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    FG_ENTER(device, percent != NULL);
    FG_READ_FAN(gpu, fan);
    *percent = fans.target_percent[fan];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_t *speed)
{
    FG_ENTER(device, speed != NULL);
    FG_REQUIRE_VERSION(speed, nvmlFanSpeedInfo_v1);
    FG_READ_FAN(gpu, speed->fan);
    speed->speed = fans.max_rpm * fans.percent[speed->fan] / 100u;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetFanControlPolicy_v2(nvmlDevice_t device, unsigned int fan, nvmlFanControlPolicy_t *policy)
{
    FG_ENTER(device, policy != NULL);
    FG_READ_FAN(gpu, fan);
    *policy = fans.is_manual[fan] ? NVML_FAN_POLICY_MANUAL : NVML_FAN_POLICY_TEMPERATURE_CONTINOUS_SW;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t device, unsigned int *min_percent, unsigned int *max_percent)
{
    FG_ENTER(device, min_percent != NULL && max_percent != NULL);
    FG_READ_FAN(gpu, 0u);
    *min_percent = fans.min_percent;
    *max_percent = fans.max_percent;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetCoolerInfo(nvmlDevice_t device, nvmlCoolerInfo_t *cooler)
{
    FG_ENTER(device, cooler != NULL);
    FG_REQUIRE_VERSION(cooler, nvmlCoolerInfo_v1);
    FG_READ(gpu, fans, fans);
    FG_REQUIRE(fans.count > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(cooler->index < fans.count, NVML_ERROR_INVALID_ARGUMENT);
    cooler->signalType = NVML_THERMAL_COOLER_SIGNAL_VARIABLE;
    cooler->target = NVML_THERMAL_COOLER_TARGET_GPU_RELATED;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceSetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int percent)
{
    FG_ENTER(device, percent <= 100u);
    FG_READ_FAN(gpu, fan);
    FG_REQUIRE(percent >= fans.min_percent && percent <= fans.max_percent, NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    change.state.fans.is_manual[fan] = 1;
    change.state.fans.target_percent[fan] = percent;
    change.state.fans.percent[fan] = percent;
    return fg_change_commit(&change);
}

static nvmlReturn_t set_policy(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int fan,
                               bool is_manual)
{
    FG_READ_FAN(gpu, fan);
    FG_CHANGE(gpu, change);
    change.state.fans.is_manual[fan] = is_manual;
    return fg_change_commit(&change);
}

FG_API nvmlDeviceSetFanControlPolicy(nvmlDevice_t device, unsigned int fan, nvmlFanControlPolicy_t policy)
{
    FG_ENTER(device, policy == NVML_FAN_POLICY_MANUAL || policy == NVML_FAN_POLICY_TEMPERATURE_CONTINOUS_SW);
    return set_policy(segment, gpu, fan, policy == NVML_FAN_POLICY_MANUAL);
}

FG_API nvmlDeviceSetDefaultFanSpeed_v2(nvmlDevice_t device, unsigned int fan)
{
    FG_ENTER(device, true);
    return set_policy(segment, gpu, fan, false);
}

FG_GETTER(nvmlDeviceGetFanSpeed, unsigned int, fans, fans.count > 0, fans.percent[0])
FG_GETTER(nvmlDeviceGetNumFans, unsigned int, fans, true, fans.count)
