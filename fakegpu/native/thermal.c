/* Temperatures and fans. */
#include "nvml_api.h"

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
    FG_REQUIRE(temperature->version == nvmlTemperature_v1, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
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
    FG_REQUIRE(margin->version == nvmlMarginTemperature_v1, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, thermal, thermal);
    int slowdown = thermal.threshold_c[NVML_TEMPERATURE_THRESHOLD_SLOWDOWN];
    FG_REQUIRE(slowdown >= 0, NVML_ERROR_NOT_SUPPORTED);
    margin->marginTemperature = slowdown - (int)thermal.gpu_c;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    FG_ENTER(device, percent != NULL);
    FG_READ(gpu, thermal, thermal);
    FG_REQUIRE(thermal.fan_count > 0, NVML_ERROR_NOT_SUPPORTED);
    FG_REQUIRE(fan < thermal.fan_count, NVML_ERROR_INVALID_ARGUMENT);
    *percent = thermal.fan_percent;
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetFanSpeed, unsigned int, thermal, thermal.fan_count > 0, thermal.fan_percent)
FG_GETTER(nvmlDeviceGetNumFans, unsigned int, thermal, thermal.fan_count > 0, thermal.fan_count)
