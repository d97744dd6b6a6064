/* Device memory and its BAR1 window. */
#include "core/alive.h"
#include "nvml/api.h"
#include "nvml/visible.h"

#define BYTES_PER_MIB (UINT64_C(1) << 20)

/* What each GPU instance lacks of its share of the BAR1 window: as much as an idle GPU has in use.
 * Source: nvidia-smi of MIG devices in public reports, drivers 470 to 570: 1g.5gb 8191, 1g.10gb of A100 and H100 16383,
 * 2g.10gb 16383, 2g.35gb of H200 and 7g.40gb 65535 MiB. */
#define BAR1_KEPT_BYTES BYTES_PER_MIB

/* The second version's figures; the first counts the reserved memory as used. */
static unsigned long long free_bytes(const struct fg_memory *memory)
{
    uint64_t taken = memory->reserved_bytes + memory->used_bytes;
    return memory->total_bytes - (taken < memory->total_bytes ? taken : memory->total_bytes);
}

/* What the compute instances of a MIG device's GPU instance share; steps 1 to 3 for the three below. */
static nvmlReturn_t read_instance(const char *function, nvmlDevice_t device, bool arguments_are_valid,
                                  struct fg_memory *instance_memory)
{
    int slot;
    struct fg_processes users;
    FG_ENTER_SESSION;
    const struct fg_gpu *gpu = fg_mig_parent(segment, device, &slot);
    FG_REQUIRE(gpu != NULL && arguments_are_valid, NVML_ERROR_INVALID_ARGUMENT);
    FG_TRY(fg_apply_faults(segment, gpu, function));
    FG_READ(gpu, memory, memory);
    FG_READ(gpu, mig, mig);
    FG_REQUIRE(mig.compute_instances[slot].is_here, NVML_ERROR_INVALID_ARGUMENT);
    FG_TRY(fg_processes_alive(gpu, &users));
    unsigned int id = mig.compute_instances[slot].gpu_instance;
    const struct fg_mig_profile *profile = &mig.profiles[mig.gpu_instances[id].profile];
    memory.total_bytes = profile->memory_mib * BYTES_PER_MIB;
    memory.reserved_bytes = 0;
    memory.used_bytes = mig.gpu_instances[id].used_bytes;
    for (unsigned int index = 0; index < users.count; index++)
        if (users.entries[index].gpu_instance == id)
            memory.used_bytes += users.entries[index].used_bytes;
    memory.bar1_total_bytes = memory.bar1_total_bytes / mig.memory_slices * profile->size - BAR1_KEPT_BYTES;
    memory.bar1_used_bytes = 0;
    *instance_memory = memory;
    return NVML_SUCCESS;
}

static void fill(nvmlMemory_t *info, const struct fg_memory *memory)
{
    info->total = memory->total_bytes;
    info->free = free_bytes(memory);
    info->used = info->total - info->free;
}

static void fill_v2(nvmlMemory_v2_t *info, const struct fg_memory *memory)
{
    info->total = memory->total_bytes;
    info->reserved = memory->reserved_bytes;
    info->free = free_bytes(memory);
    info->used = memory->used_bytes;
}

static void fill_bar1(nvmlBAR1Memory_t *info, const struct fg_memory *memory)
{
    info->bar1Total = memory->bar1_total_bytes;
    info->bar1Used = memory->bar1_used_bytes;
    info->bar1Free = memory->bar1_total_bytes - memory->bar1_used_bytes;
}

/* A getter of GPUs, which clients call often, and apart from it the same for MIG devices. */
#define FG_MEMORY_GETTER(function, type, is_version, fill_function)                                                    \
    static FG_APART nvmlReturn_t function##_of_mig_device(nvmlDevice_t device, type *info)                             \
    {                                                                                                                  \
        struct fg_memory memory;                                                                                       \
        FG_TRY(read_instance(#function, device, info != NULL, &memory));                                               \
        FG_REQUIRE(is_version, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);                                                  \
        fill_function(info, &memory);                                                                                  \
        return NVML_SUCCESS;                                                                                           \
    }                                                                                                                  \
    FG_API function(nvmlDevice_t device, type *info)                                                                   \
    {                                                                                                                  \
        FG_ENTER_SESSION;                                                                                              \
        const struct fg_gpu *gpu = fg_gpu_of(segment, device);                                                         \
        if (__builtin_expect(gpu == NULL, 0))                                                                          \
            return function##_of_mig_device(device, info);                                                             \
        FG_REQUIRE(info != NULL, NVML_ERROR_INVALID_ARGUMENT);                                                         \
        FG_REQUIRE(is_version, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);                                                  \
        FG_APPLY_FAULTS(segment, gpu);                                                                                 \
        FG_REQUIRE_AGGREGATE(gpu);                                                                                     \
        FG_READ(gpu, memory, memory);                                                                                  \
        fill_function(info, &memory);                                                                                  \
        return NVML_SUCCESS;                                                                                           \
    }

FG_MEMORY_GETTER(nvmlDeviceGetMemoryInfo, nvmlMemory_t, true, fill)
FG_MEMORY_GETTER(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t, info->version == nvmlMemory_v2, fill_v2)
FG_MEMORY_GETTER(nvmlDeviceGetBAR1MemoryInfo, nvmlBAR1Memory_t, true, fill_bar1)
FG_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned int, memory, true, memory.bus_width_bits)
