/* Counting GPUs and finding their handles. A lost GPU is counted, but hands out no handle. */
#include "nvml/mig.h"

#include <stdio.h>
#include <string.h>

static nvmlReturn_t hand_out(const struct fg_gpu *gpu, nvmlDevice_t *device)
{
    FG_READ(gpu, fault, fault);
    *device = fg_handle_of(gpu);
    return NVML_SUCCESS;
}

static nvmlReturn_t hand_out_mig_device(const struct fg_segment *segment, const char *uuid, nvmlDevice_t *device)
{
    FG_REQUIRE(strncmp(uuid, "MIG-", 4) == 0, NVML_ERROR_NOT_FOUND);
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        const struct fg_gpu *gpu = fg_visible_gpu(segment, position);
        FG_READ_EVEN_IF_LOST(gpu, identity.uuid, gpu_uuid);
        FG_READ_EVEN_IF_LOST(gpu, mig, mig);
        FG_TRY(fg_hide_parts(gpu, &mig));
        for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++) {
            char found[FG_MIG_UUID_SIZE];
            fg_mig_uuid(gpu_uuid, &mig.compute_instances[slot], found);
            if (!mig.compute_instances[slot].is_here || strcmp(uuid, found) != 0)
                continue;
            FG_READ(gpu, fault, fault);
            *device = fg_handle_at(gpu, FG_AT_MIG_DEVICES + slot);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

FG_API nvmlDeviceGetCount_v2(unsigned int *count)
{
    FG_ENTER_SYSTEM(count != NULL);
    *count = fg_visible_count;
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

FG_API nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    FG_ENTER_SYSTEM(device != NULL && index < fg_visible_count);
    return hand_out(fg_visible_gpu(segment, index), device);
}

FG_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

FG_API nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    FG_ENTER_SYSTEM(uuid != NULL && device != NULL);
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_READ_EVEN_IF_LOST(fg_visible_gpu(segment, position), identity.uuid, found);
        /* Driver 580 finds a GPU without the prefix `GPU-` as well. */
        if (strncmp(uuid, found, sizeof found) == 0 || strncmp(uuid, found + 4, sizeof found - 4) == 0)
            return hand_out(fg_visible_gpu(segment, position), device);
    }
    return hand_out_mig_device(segment, uuid, device);
}

static void bytes_of_uuid(const char *uuid, unsigned char bytes[NVML_DEVICE_UUID_BINARY_LEN])
{
    unsigned int value;
    const char *digits = strchr(uuid, '-');
    for (unsigned int index = 0; index < NVML_DEVICE_UUID_BINARY_LEN; index++) {
        while (digits != NULL && *digits == '-')
            digits++;
        if (digits == NULL || sscanf(digits, "%2x", &value) != 1)
            return;
        bytes[index] = (unsigned char)value;
        digits += 2;
    }
}

FG_API nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    FG_ENTER_SYSTEM(uuid != NULL && device != NULL);
    FG_REQUIRE_VERSION(uuid, nvmlUUID_v1);
    FG_REQUIRE(uuid->type == NVML_UUID_TYPE_ASCII || uuid->type == NVML_UUID_TYPE_BINARY, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_READ_EVEN_IF_LOST(fg_visible_gpu(segment, position), identity.uuid, found);
        unsigned char bytes[NVML_DEVICE_UUID_BINARY_LEN] = {0};
        bytes_of_uuid(found, bytes);
        bool is_equal = uuid->type == NVML_UUID_TYPE_ASCII ? strncmp(uuid->value.str, found, sizeof uuid->value.str) == 0
                                                           : memcmp(uuid->value.bytes, bytes, sizeof bytes) == 0;
        if (is_equal)
            return hand_out(fg_visible_gpu(segment, position), device);
    }
    return NVML_ERROR_NOT_FOUND;
}

FG_API nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    FG_ENTER_SYSTEM(serial != NULL && device != NULL);
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_READ_EVEN_IF_LOST(fg_visible_gpu(segment, position), identity.serial, found);
        if (strncmp(serial, found, sizeof found) == 0)
            return hand_out(fg_visible_gpu(segment, position), device);
    }
    return NVML_ERROR_NOT_FOUND;
}

/* Takes `domain:bus:device.function` and, as the real library does, forms without domain or function. */
static bool parse_bus_id(const char *text, struct fg_pci *pci)
{
    unsigned int function = 0;
    int end = 0;
    if (sscanf(text, "%8x:%2x:%2x%n", &pci->domain, &pci->bus, &pci->device, &end) != 3) {
        pci->domain = 0;
        if (sscanf(text, "%2x:%2x%n", &pci->bus, &pci->device, &end) != 2)
            return false;
    }
    text += end;
    if (*text == '\0')
        return true;
    end = 0;
    return sscanf(text, ".%1x%n", &function, &end) == 1 && text[end] == '\0' && function == 0;
}

FG_API nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    struct fg_pci wanted = {0};
    FG_ENTER_SYSTEM(bus_id != NULL && device != NULL && parse_bus_id(bus_id, &wanted));
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_READ_EVEN_IF_LOST(fg_visible_gpu(segment, position), pci, found);
        if (found.domain == wanted.domain && found.bus == wanted.bus && found.device == wanted.device)
            return hand_out(fg_visible_gpu(segment, position), device);
    }
    return NVML_ERROR_NOT_FOUND;
}

FG_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

/* The driver still knows the index of a lost GPU, as it does the UUID, the minor number and the PCI address. */
FG_API nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    FG_ENTER_ANY(device, index != NULL);
    if (FG_IS_MIG_DEVICE) {
        FG_READ(gpu, mig, mig);
        FG_TRY(fg_hide_parts(gpu, &mig));
        for (*index = 0; *index < FG_COMPUTE_INSTANCES; ++*index)
            if (fg_mig_device_slot(&mig, *index) == slot)
                return NVML_SUCCESS;
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        if (fg_visible_gpu(segment, position) == gpu) {
            *index = position;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}
