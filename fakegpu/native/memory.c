/* Device memory and its BAR1 window. */
#include "nvml_api.h"

/* The second version's figures; the first counts the reserved memory as used. */
static unsigned long long free_bytes(const struct fg_memory *memory)
{
    uint64_t taken = memory->reserved_bytes + memory->used_bytes;
    return taken < memory->total_bytes ? memory->total_bytes - taken : 0;
}

FG_API nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, memory, memory);
    info->total = memory.total_bytes;
    info->free = free_bytes(&memory);
    info->used = info->total - info->free;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_REQUIRE(info->version == nvmlMemory_v2, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, memory, memory);
    info->total = memory.total_bytes;
    info->reserved = memory.reserved_bytes;
    info->free = free_bytes(&memory);
    info->used = memory.used_bytes;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *info)
{
    FG_ENTER(device, info != NULL);
    FG_READ(gpu, memory, memory);
    info->bar1Total = memory.bar1_total_bytes;
    info->bar1Used = memory.bar1_used_bytes;
    info->bar1Free = memory.bar1_total_bytes - memory.bar1_used_bytes;
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned int, memory, true, memory.bus_width_bits)
