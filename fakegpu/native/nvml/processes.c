/* Processes on the GPU: those that the owner of the machine entered, while they run. */
#include "nvml/processes.h"
#include "core/alive.h"
#include "core/clock.h"
#include "nvml/mig.h"

nvmlReturn_t fg_processes_of(const struct fg_gpu *gpu, int slot, uint32_t kind, struct fg_processes *found)
{
    FG_READ(gpu, mig, mig);
    if (!FG_IS_MIG_DEVICE)
        FG_REQUIRE_AGGREGATE(gpu);
    FG_TRY(fg_processes_alive(gpu, found));
    const struct fg_compute_instance *part = FG_IS_MIG_DEVICE ? &mig.compute_instances[slot] : NULL;
    uint32_t kept = 0;
    for (uint32_t index = 0; index < found->count; index++) {
        const struct fg_process *process = &found->entries[index];
        bool is_inside = part == NULL || (process->gpu_instance == part->gpu_instance &&
                                          process->compute_instance == part->id);
        if (is_inside && (process->kind & kind) != 0)
            found->entries[kept++] = *process;
    }
    found->count = kept;
    return NVML_SUCCESS;
}

/* Reports how many entries there are; INSUFFICIENT_SIZE when the caller has no room for them. */
static nvmlReturn_t check_room(unsigned int *count, unsigned int found, const void *out)
{
    unsigned int room = *count;
    *count = found;
    FG_REQUIRE(room >= found, NVML_ERROR_INSUFFICIENT_SIZE);
    FG_REQUIRE(found == 0 || out != NULL, NVML_ERROR_INVALID_ARGUMENT);
    return NVML_SUCCESS;
}

static nvmlProcessInfo_v1_t plain(const struct fg_process *process)
{
    return (nvmlProcessInfo_v1_t){.pid = process->pid, .usedGpuMemory = process->used_bytes};
}

static nvmlProcessInfo_t with_instances(const struct fg_process *process)
{
    return (nvmlProcessInfo_t){
        .pid = process->pid,
        .usedGpuMemory = process->used_bytes,
        .gpuInstanceId = process->gpu_instance,
        .computeInstanceId = process->compute_instance,
    };
}

#define FG_PROCESS_LIST(function, type, kind, convert)                                                                 \
    FG_API function(nvmlDevice_t device, unsigned int *count, type *processes)                                         \
    {                                                                                                                  \
        FG_ENTER_ANY(device, count != NULL);                                                                           \
        struct fg_processes found;                                                                                     \
        FG_TRY(fg_processes_of(gpu, slot, (kind), &found));                                                            \
        FG_TRY(check_room(count, found.count, processes));                                                             \
        for (unsigned int index = 0; index < found.count; index++)                                                     \
            processes[index] = convert(&found.entries[index]);                                                         \
        return NVML_SUCCESS;                                                                                           \
    }

FG_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, FG_PROCESS_COMPUTE, plain)
FG_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, FG_PROCESS_COMPUTE, with_instances)
FG_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, FG_PROCESS_COMPUTE, with_instances)
FG_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, FG_PROCESS_GRAPHICS, plain)
FG_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, FG_PROCESS_GRAPHICS, with_instances)
FG_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, FG_PROCESS_GRAPHICS, with_instances)
FG_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, FG_PROCESS_MPS, plain)
FG_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, FG_PROCESS_MPS, with_instances)
FG_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, FG_PROCESS_MPS, with_instances)

FG_API nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    static const uint32_t kinds[NVML_PROCESS_MODE_MAX] = {
        [NVML_PROCESS_MODE_COMPUTE] = FG_PROCESS_COMPUTE,
        [NVML_PROCESS_MODE_GRAPHICS] = FG_PROCESS_GRAPHICS,
        [NVML_PROCESS_MODE_MPS] = FG_PROCESS_MPS,
    };
    FG_ENTER_ANY(device, list != NULL);
    FG_REQUIRE_VERSION(list, nvmlProcessDetailList_v1);
    FG_REQUIRE(list->mode < NVML_PROCESS_MODE_MAX, NVML_ERROR_INVALID_ARGUMENT);
    struct fg_processes found;
    FG_TRY(fg_processes_of(gpu, slot, kinds[list->mode], &found));
    FG_TRY(check_room(&list->numProcArrayEntries, found.count, list->procArray));
    for (unsigned int index = 0; index < found.count; index++)
        list->procArray[index] = (nvmlProcessDetail_v1_t){
            .pid = found.entries[index].pid,
            .usedGpuMemory = found.entries[index].used_bytes,
            .gpuInstanceId = found.entries[index].gpu_instance,
            .computeInstanceId = found.entries[index].compute_instance,
        };
    return NVML_SUCCESS;
}

struct fg_share fg_share_of(const struct fg_utilization *all, unsigned int position, unsigned int count)
{
#define FG_PART(percent) ((percent) * (position + 1u) / count - (percent) * position / count)
    return (struct fg_share){
        .gpu = FG_PART(all->gpu_percent),
        .memory = FG_PART(all->memory_percent),
        .encoder = FG_PART(all->encoder_percent),
        .decoder = FG_PART(all->decoder_percent),
        .jpeg = FG_PART(all->jpeg_percent),
        .ofa = FG_PART(all->ofa_percent),
    };
}

nvmlReturn_t fg_working_processes(const struct fg_gpu *gpu, unsigned long long since_us, struct fg_processes *working,
                                  unsigned long long *now_us)
{
    FG_TRY(fg_refuse_mig_mode(gpu));
    FG_TRY(fg_processes_alive(gpu, working));
    *now_us = fg_now_us();
    return working->count > 0 && since_us < *now_us ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

FG_API nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                       unsigned int *count, unsigned long long since_us)
{
    FG_ENTER(device, count != NULL);
    FG_READ(gpu, utilization, utilization);
    struct fg_processes found;
    unsigned long long now_us;
    FG_TRY(fg_working_processes(gpu, since_us, &found, &now_us));
    FG_TRY(check_room(count, found.count, samples));
    for (unsigned int index = 0; index < found.count; index++) {
        struct fg_share share = fg_share_of(&utilization, index, found.count);
        samples[index] = (nvmlProcessUtilizationSample_t){
            .pid = found.entries[index].pid,
            .timeStamp = now_us,
            .smUtil = share.gpu,
            .memUtil = share.memory,
            .encUtil = share.encoder,
            .decUtil = share.decoder,
        };
    }
    return NVML_SUCCESS;
}
