/* Accounting: the running processes on a GPU and the last ones that ended. */
#include "control/accounts.h"
#include "core/alive.h"
#include "core/segment.h"
#include "nvml/change.h"
#include "nvml/mig.h"

#include <string.h>

#define BUFFER_SIZE 4000u /* processes that a driver records, as nvidia-smi -q prints */

FG_API nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned int *size)
{
    FG_ENTER(device, size != NULL);
    FG_READ(gpu, fault, fault);
    *size = BUFFER_SIZE;
    return NVML_SUCCESS;
}

/* The accounts of running processes and of those that have ended, the latest first; none while accounting is off. */
struct list {
    struct fg_account entries[FG_PROCESSES_MAX + FG_ACCOUNTS_MAX];
    unsigned int running; /* the first ones */
    unsigned int count;
};

/* The first caller that may write records the end of a process; until then it ends when each caller looks. */
static void record_ends(const struct fg_segment *segment, const struct fg_gpu *gpu)
{
    struct fg_writable writable;
    if (fg_writable_open(segment, &writable) != NVML_SUCCESS)
        return;
    fg_end_processes(&writable.segment->gpus[fg_index_of(segment, gpu)], 0);
    fg_writable_close(&writable);
}

static nvmlReturn_t collect(const struct fg_segment *segment, const struct fg_gpu *gpu, struct list *list)
{
    struct fg_processes alive;
    list->count = list->running = 0;
    FG_READ(gpu, modes, modes);
    if (!modes.accounting)
        return NVML_SUCCESS;
    FG_TRY(fg_processes_alive(gpu, &alive));
    FG_READ(gpu, processes, before);
    if (alive.count < before.count)
        record_ends(segment, gpu);
    FG_READ(gpu, processes, processes);
    FG_READ(gpu, accounts, accounts);
    FG_READ(gpu, utilization, set);
    for (unsigned int index = 0; index < alive.count; index++)
        list->entries[list->count++] = fg_account_of(gpu, &set, alive.count, &alive.entries[index]);
    list->running = list->count;
    for (unsigned int index = 0; index < processes.count && index < FG_PROCESSES_MAX; index++)
        if (!fg_is_alive(&processes.entries[index]) && list->count < FG_PROCESSES_MAX)
            list->entries[list->count++] = fg_account_of(gpu, &set, processes.count, &processes.entries[index]);
    uint32_t kept = accounts.count < FG_ACCOUNTS_MAX ? accounts.count : FG_ACCOUNTS_MAX;
    for (uint32_t index = 1; index <= kept; index++)
        list->entries[list->count++] = accounts.entries[(accounts.count - index) % FG_ACCOUNTS_MAX];
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    struct list list;
    FG_ENTER(device, count != NULL);
    FG_TRY(collect(segment, gpu, &list));
    unsigned int room = *count;
    *count = list.count;
    FG_REQUIRE(list.count == 0 || (pids != NULL && room >= list.count), NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < list.count; index++)
        pids[index] = list.entries[index].pid;
    return NVML_SUCCESS;
}

static nvmlReturn_t find(const struct fg_segment *segment, const struct fg_gpu *gpu, unsigned int pid,
                         nvmlAccountingStats_v2_t *stats)
{
    struct list list;
    FG_TRY(collect(segment, gpu, &list));
    for (unsigned int index = 0; index < list.count; index++) {
        const struct fg_account *account = &list.entries[index];
        if (account->pid != pid)
            continue;
        memset(stats, 0, sizeof *stats);
        stats->pid = pid;
        stats->isRunning = index < list.running;
        stats->gpuUtilization = account->gpu_percent;
        stats->memoryUtilization = account->memory_percent;
        stats->maxMemoryUsage = account->most_bytes;
        stats->time = index < list.running ? 0 : account->time_ms;
        stats->startTime = account->start_us;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

FG_API nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
    nvmlAccountingStats_v2_t found;
    FG_ENTER(device, stats != NULL);
    FG_TRY(find(segment, gpu, pid, &found));
    memset(stats, 0, sizeof *stats);
    stats->gpuUtilization = found.gpuUtilization;
    stats->memoryUtilization = found.memoryUtilization;
    stats->maxMemoryUsage = found.maxMemoryUsage;
    stats->time = found.time;
    stats->startTime = found.startTime;
    stats->isRunning = found.isRunning;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
    FG_ENTER(device, stats != NULL);
    return find(segment, gpu, stats->pid, stats);
}

FG_API nvmlDeviceClearAccountingPids(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    FG_CHANGE(gpu, change);
    change.state.accounts.count = 0;
    return fg_change_commit(&change);
}

/* Turning accounting off removes the accounts of processes that have ended. */
FG_API nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    FG_ENTER(device, FG_IS_SWITCH(mode));
    FG_TRY(fg_refuse_mig_mode(gpu));
    FG_CHANGE(gpu, change);
    change.state.modes.accounting = mode;
    if (mode == NVML_FEATURE_DISABLED)
        change.state.accounts.count = 0;
    return fg_change_commit(&change);
}

FG_GETTER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, modes, true, modes.accounting)
