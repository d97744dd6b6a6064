/* Field values of nvmlDeviceGetFieldValues: how one is answered, and those about NVLink. */
#ifndef FAKEGPU_NVLINK_FIELDS_H
#define FAKEGPU_NVLINK_FIELDS_H

#include "nvml/api.h"

static inline nvmlReturn_t fg_field_whole(nvmlFieldValue_t *field, unsigned long long number)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    field->value.ullVal = number;
    return NVML_SUCCESS;
}

static inline nvmlReturn_t fg_field_small(nvmlFieldValue_t *field, unsigned int number)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    field->value.ullVal = number; /* no byte of the union is left as it was */
    return NVML_SUCCESS;
}

/* The code of a generation of NVLink; only the whole ones are modelled. */
nvmlNvlinkVersion_t fg_nvlink_version_code(uint32_t generation);

/* Answers the fields about NVLink; NOT_SUPPORTED for all others. */
nvmlReturn_t fg_nvlink_field(const struct fg_gpu *gpu, nvmlFieldValue_t *field);

/* Whether the field is a counter of errors of links. */
bool fg_is_nvlink_counter(unsigned int field);

#endif
