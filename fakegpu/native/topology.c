/* How GPUs, CPUs and memory lie to each other. */
#include "visible.h"

#include <limits.h>
#include <string.h>

static nvmlGpuTopologyLevel_t level_between(const struct fg_placement *one, const struct fg_placement *other)
{
    if (one->board == other->board)
        return NVML_TOPOLOGY_INTERNAL;
    if (one->pcie_switch == other->pcie_switch)
        return NVML_TOPOLOGY_SINGLE;
    if (one->switch_tree == other->switch_tree)
        return NVML_TOPOLOGY_MULTIPLE;
    if (one->host_bridge == other->host_bridge)
        return NVML_TOPOLOGY_HOSTBRIDGE;
    if (one->numa_node == other->numa_node && one->numa_node >= 0)
        return NVML_TOPOLOGY_NODE;
    return NVML_TOPOLOGY_SYSTEM;
}

FG_API nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level)
{
    FG_ENTER(device, level != NULL);
    const struct fg_gpu *other_gpu = fg_gpu_of(segment, other);
    FG_REQUIRE(other_gpu != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, placement, mine);
    FG_READ(other_gpu, placement, theirs);
    *level = level_between(&mine, &theirs);
    return NVML_SUCCESS;
}

static bool is_level(nvmlGpuTopologyLevel_t level)
{
    unsigned int value = (unsigned int)level;
    return value % 10 == 0 && value <= NVML_TOPOLOGY_SYSTEM;
}

FG_API nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count,
                                        nvmlDevice_t *devices)
{
    FG_ENTER(device, count != NULL && is_level(level) && (*count == 0 || devices != NULL));
    FG_READ(gpu, placement, mine);
    unsigned int room = *count;
    unsigned int found = 0;
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        const struct fg_gpu *other = fg_visible_gpu(segment, position);
        FG_READ_EVEN_IF_LOST(other, placement, theirs);
        if (other == gpu || level_between(&mine, &theirs) != level)
            continue;
        if (found < room)
            devices[found] = fg_handle_of(other);
        found++;
    }
    *count = room == 0 || found < room ? found : room;
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count, nvmlDevice_t *devices)
{
    FG_ENTER_SYSTEM(count != NULL && cpu < FG_CPU_WORDS * 64u && (*count == 0 || devices != NULL));
    unsigned int room = *count;
    unsigned int found = 0;
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_READ_EVEN_IF_LOST(fg_visible_gpu(segment, position), placement, placement);
        if ((placement.cpu_mask[cpu / 64u] >> cpu % 64u & 1u) == 0)
            continue;
        if (found < room)
            devices[found] = fg_handle_of(fg_visible_gpu(segment, position));
        found++;
    }
    *count = room == 0 || found < room ? found : room;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t capability,
                              nvmlGpuP2PStatus_t *status)
{
    FG_ENTER(device, status != NULL && (unsigned int)capability < NVML_P2P_CAPS_INDEX_UNKNOWN);
    const struct fg_gpu *other_gpu = fg_gpu_of(segment, other);
    FG_REQUIRE(other_gpu != NULL && other_gpu != gpu, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, placement, mine);
    FG_READ(other_gpu, placement, theirs);
    FG_READ(gpu, nvlink, my_links);
    FG_READ(other_gpu, nvlink, their_links);
    bool has_nvlink = my_links.count > 0 && their_links.count > 0;
    bool has_pci = level_between(&mine, &theirs) <= NVML_TOPOLOGY_HOSTBRIDGE;
    bool is_ok;
    switch (capability) {
    case NVML_P2P_CAPS_INDEX_NVLINK:
    case NVML_P2P_CAPS_INDEX_ATOMICS: is_ok = has_nvlink; break;
    case NVML_P2P_CAPS_INDEX_PCI: is_ok = has_pci; break;
    default: is_ok = has_nvlink || has_pci; break;
    }
    *status = is_ok ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

#define IS_SCOPE(scope) ((scope) == NVML_AFFINITY_SCOPE_NODE || (scope) == NVML_AFFINITY_SCOPE_SOCKET)

FG_API nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *nodes,
                                   nvmlAffinityScope_t scope)
{
    FG_ENTER(device, size != 0 && nodes != NULL && IS_SCOPE(scope));
    FG_READ(gpu, placement, placement);
    const unsigned int bits = sizeof *nodes * CHAR_BIT;
    FG_REQUIRE(placement.numa_node >= 0 && (unsigned int)placement.numa_node / bits < size, NVML_ERROR_NOT_SUPPORTED);
    memset(nodes, 0, size * sizeof *nodes);
    nodes[(unsigned int)placement.numa_node / bits] = 1ul << (unsigned int)placement.numa_node % bits;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int size, unsigned long *cpus,
                                           nvmlAffinityScope_t scope)
{
    FG_ENTER(device, size != 0 && cpus != NULL && IS_SCOPE(scope));
    FG_READ(gpu, placement, placement);
    size_t bytes = size * sizeof *cpus;
    memset(cpus, 0, bytes);
    memcpy(cpus, placement.cpu_mask, bytes < sizeof placement.cpu_mask ? bytes : sizeof placement.cpu_mask);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size, unsigned long *cpus)
{
    return nvmlDeviceGetCpuAffinityWithinScope(device, size, cpus, NVML_AFFINITY_SCOPE_NODE);
}
