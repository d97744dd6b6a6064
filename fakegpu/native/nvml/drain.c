/* Draining a GPU, removing it from the bus, and discovering it again. */
#include "core/alive.h"
#include "core/clock.h"
#include "core/ring.h"
#include "nvml/change.h"

#include <unistd.h>

/* Any GPU of the machine, also one that this process does not see. */
static const struct fg_gpu *gpu_at(const struct fg_segment *segment, const nvmlPciInfo_t *address)
{
    for (unsigned int index = 0; index < fg_attached_gpus; index++) {
        const struct fg_gpu *gpu = &segment->gpus[index];
        struct fg_pci pci;
        bool is_lost;
        if (fg_read(gpu, offsetof(struct fg_gpu_state, pci), &pci, sizeof pci, &is_lost) == NVML_SUCCESS &&
            pci.domain == address->domain && pci.bus == address->bus && pci.device == address->device)
            return gpu;
    }
    return NULL;
}

FG_API nvmlDeviceQueryDrainState(nvmlPciInfo_t *address, nvmlEnableState_t *state)
{
    FG_ENTER_SYSTEM(address != NULL && state != NULL);
    const struct fg_gpu *gpu = gpu_at(segment, address);
    FG_REQUIRE(gpu != NULL, NVML_ERROR_NOT_FOUND);
    FG_READ(gpu, modes, modes);
    *state = modes.is_draining ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

/* Processes that initialise NVML from now on do not see the GPU; those that see it continue. */
FG_API nvmlDeviceModifyDrainState(nvmlPciInfo_t *address, nvmlEnableState_t state)
{
    FG_ENTER_SYSTEM(address != NULL && FG_IS_SWITCH(state));
    const struct fg_gpu *gpu = gpu_at(segment, address);
    FG_REQUIRE(gpu != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(!modes.persistence || state == NVML_FEATURE_DISABLED, NVML_ERROR_IN_USE);
    FG_CHANGE(gpu, change);
    change.state.modes.is_draining = state == NVML_FEATURE_ENABLED;
    return fg_change_commit(&change);
}

static nvmlReturn_t take_off(const struct fg_segment *segment, const nvmlPciInfo_t *address)
{
    const struct fg_gpu *gpu = gpu_at(segment, address);
    FG_REQUIRE(gpu != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, modes, modes);
    struct fg_processes users;
    FG_TRY(fg_processes_alive(gpu, &users));
    FG_REQUIRE(!modes.persistence && users.count == 0, NVML_ERROR_IN_USE);
    FG_CHANGE(gpu, change);
    change.state.fault.is_unplugged = 1;
    change.state.fault.is_lost = 1;
    struct fg_event event = {
        .type = FG_EVENT_GPU_LOST,
        .gpu = change.gpu,
        .gpu_instance = NVML_GPU_INSTANCE_ID_ANY,
        .compute_instance = NVML_COMPUTE_INSTANCE_ID_ANY,
        .timestamp_us = fg_now_us(),
    };
    fg_write_state(&change.writable.segment->gpus[change.gpu], &change.state);
    fg_post(change.writable.segment, &event);
    return fg_change_abandon(&change, NVML_SUCCESS); /* what is written stays */
}

FG_API nvmlDeviceRemoveGpu_v2(nvmlPciInfo_t *address, nvmlDetachGpuState_t detach, nvmlPcieLinkState_t link)
{
    FG_ENTER_SYSTEM(address != NULL && (unsigned int)detach <= NVML_DETACH_GPU_REMOVE &&
                    (unsigned int)link <= NVML_PCIE_LINK_SHUT_DOWN);
    return take_off(segment, address);
}

FG_API nvmlDeviceRemoveGpu(nvmlPciInfo_t *address)
{
    FG_ENTER_SYSTEM(address != NULL);
    return take_off(segment, address);
}

static bool is_at(const struct fg_pci *pci, const nvmlPciInfo_t *address)
{
    bool is_anywhere = address->domain == 0 && address->bus == 0 && address->device == 0;
    return is_anywhere ||
           (pci->domain == address->domain && pci->bus == address->bus && pci->device == address->device);
}

/* Finds what was removed: at an address, or with zeros everywhere. A process that has initialised NVML before must
 * do so again to count it. */
FG_API nvmlDeviceDiscoverGpus(nvmlPciInfo_t *address)
{
    FG_ENTER_SYSTEM(address != NULL);
    struct fg_writable writable;
    FG_REQUIRE(geteuid() == 0, NVML_ERROR_NO_PERMISSION);
    FG_TRY(fg_writable_open(segment, &writable));
    struct fg_gpu_state state;
    for (unsigned int index = 0; index < fg_attached_gpus; index++) {
        struct fg_gpu *gpu = &writable.segment->gpus[index];
        if (fg_read_state(gpu, &state) != NVML_SUCCESS || !state.fault.is_unplugged || !is_at(&state.pci, address))
            continue;
        state.fault.is_unplugged = 0;
        state.fault.is_lost = 0;
        state.modes.is_draining = 0;
        fg_write_state(gpu, &state);
    }
    fg_writable_close(&writable);
    return NVML_SUCCESS;
}
