/* Temperatures and their limits. */
#include "nvml/change.h"

#include <string.h>

FG_API nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *temperature)
{
    FG_ENTER(device, temperature != NULL && sensor == NVML_TEMPERATURE_GPU);
    FG_READ(gpu, thermal, thermal);
    *temperature = thermal.gpu_c;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    FG_ENTER(device, temperature != NULL);
    FG_REQUIRE_VERSION(temperature, nvmlTemperature_v1);
    FG_REQUIRE(temperature->sensorType == NVML_TEMPERATURE_GPU, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, thermal, thermal);
    temperature->temperature = (int)thermal.gpu_c;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                         unsigned int *temperature)
{
    FG_ENTER(device, temperature != NULL && (unsigned int)threshold < NVML_TEMPERATURE_THRESHOLD_COUNT);
    FG_READ(gpu, thermal, thermal);
    FG_REQUIRE(thermal.threshold_c[threshold] >= 0, NVML_ERROR_NOT_SUPPORTED);
    *temperature = (unsigned int)thermal.threshold_c[threshold];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
    FG_ENTER(device, margin != NULL);
    FG_REQUIRE_VERSION(margin, nvmlMarginTemperature_v1);
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_ADA, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, thermal, thermal);
    /* The zero of the T.Limit scale is the highest temperature of full clocks. */
    int limit = thermal.threshold_c[NVML_TEMPERATURE_THRESHOLD_GPU_MAX];
    FG_REQUIRE(limit >= 0, NVML_ERROR_NOT_SUPPORTED);
    margin->marginTemperature = limit - (int)thermal.gpu_c;
    return NVML_SUCCESS;
}

/* Only the acoustic limit is the user's, between its own two. */
FG_API nvmlDeviceSetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold, int *temperature)
{
    FG_ENTER(device, temperature != NULL && (unsigned int)threshold < NVML_TEMPERATURE_THRESHOLD_COUNT);
    FG_READ(gpu, thermal, thermal);
    bool is_settable = threshold == NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR && thermal.threshold_c[threshold] >= 0;
    FG_REQUIRE(is_settable, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(*temperature >= thermal.threshold_c[NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN] &&
                   *temperature <= thermal.threshold_c[NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX],
               NVML_ERROR_INVALID_ARGUMENT);
    FG_CHANGE(gpu, change);
    change.state.thermal.threshold_c[threshold] = *temperature;
    return fg_change_commit(&change);
}

/* One sensor, on the GPU itself: asked for by its number or by NVML_THERMAL_TARGET_ALL. */
FG_API nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned int sensor, nvmlGpuThermalSettings_t *settings)
{
    enum { LOWEST_C = 0, HIGHEST_C = 127 };
    FG_ENTER(device, settings != NULL && (sensor == 0 || sensor == NVML_THERMAL_TARGET_ALL));
    FG_READ(gpu, thermal, thermal);
    memset(settings, 0, sizeof *settings);
    settings->count = 1;
    settings->sensor[0].controller = NVML_THERMAL_CONTROLLER_GPU_INTERNAL;
    settings->sensor[0].defaultMinTemp = LOWEST_C;
    settings->sensor[0].defaultMaxTemp = HIGHEST_C;
    settings->sensor[0].currentTemp = (int)thermal.gpu_c;
    settings->sensor[0].target = NVML_THERMAL_TARGET_GPU;
    return NVML_SUCCESS;
}
