/* Topology of GPUs, CPUs and memory. */
#include "nvml/visible.h"

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
    FG_REQUIRE(other_gpu != gpu, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, placement, mine);
    FG_READ(other_gpu, placement, theirs);
    *level = level_between(&mine, &theirs);
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count,
                                        nvmlDevice_t *devices)
{
    /* An array without room is refused, which nvidia-ml-py passes where there is no such GPU. */
    FG_ENTER(device, count != NULL && (*count == 0) == (devices == NULL));
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

static bool is_same_end(const struct fg_link *one, const struct fg_link *other)
{
    return other->is_active && other->remote_type == one->remote_type && other->remote_domain == one->remote_domain &&
           other->remote_bus == one->remote_bus && other->remote_device == one->remote_device;
}

/* Whether a link of one GPU ends in the other, or in an NVSwitch that the other has a link to. */
static nvmlReturn_t find_nvlink(const struct fg_gpu *gpu, const struct fg_gpu *other, bool *is_found)
{
    FG_READ(gpu, links, mine);
    FG_READ(other, links, theirs);
    FG_READ(other, pci, pci);
    *is_found = false;
    for (unsigned int number = 0; number < FG_LINKS_MAX; number++) {
        const struct fg_link *link = &mine[number];
        if (!link->is_active)
            continue;
        if (link->remote_type == NVML_NVLINK_DEVICE_TYPE_GPU)
            *is_found = *is_found || (link->remote_domain == pci.domain && link->remote_bus == pci.bus &&
                                      link->remote_device == pci.device);
        for (unsigned int end = 0; link->remote_type == NVML_NVLINK_DEVICE_TYPE_SWITCH && end < FG_LINKS_MAX; end++)
            *is_found = *is_found || is_same_end(link, &theirs[end]);
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t pci_peer_status(const struct fg_gpu *gpu, const struct fg_gpu *other, nvmlGpuP2PStatus_t *status)
{
    FG_READ(gpu, identity, identity);
    FG_READ(gpu, placement, mine);
    FG_READ(other, placement, theirs);
    if (identity.brand == NVML_BRAND_GEFORCE)
        *status = NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
    else if (level_between(&mine, &theirs) > NVML_TOPOLOGY_HOSTBRIDGE)
        *status = NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED;
    else
        *status = NVML_P2P_STATUS_OK;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t capability,
                              nvmlGpuP2PStatus_t *status)
{
    FG_ENTER(device, status != NULL && (unsigned int)capability < NVML_P2P_CAPS_INDEX_UNKNOWN);
    const struct fg_gpu *other_gpu = fg_gpu_of(segment, other);
    FG_REQUIRE(other_gpu != NULL, NVML_ERROR_INVALID_ARGUMENT);
    if (other_gpu == gpu) {
        *status = NVML_P2P_STATUS_OK;
        return NVML_SUCCESS;
    }
    bool has_nvlink;
    FG_TRY(find_nvlink(gpu, other_gpu, &has_nvlink));
    bool needs_nvlink = capability == NVML_P2P_CAPS_INDEX_NVLINK || capability == NVML_P2P_CAPS_INDEX_ATOMICS;
    if (has_nvlink && capability != NVML_P2P_CAPS_INDEX_PCI)
        *status = NVML_P2P_STATUS_OK;
    else if (needs_nvlink)
        *status = NVML_P2P_STATUS_NOT_SUPPORTED;
    else
        FG_TRY(pci_peer_status(gpu, other_gpu, status));
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
