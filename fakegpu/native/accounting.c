/* Accounting of the processes on the GPU: those that run, while it is on; nothing is kept of those that ended. */
#include "change.h"
#include "processes.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_SIZE 4000u /* processes that a driver remembers, as nvidia-smi -q tells */

FG_API nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned int *size)
{
    FG_ENTER(device, size != NULL);
    FG_READ(gpu, fault, fault);
    *size = BUFFER_SIZE;
    return NVML_SUCCESS;
}

/* Nobody is accounted for while accounting is off. */
static nvmlReturn_t accounted(const struct fg_gpu *gpu, struct fg_processes *processes)
{
    FG_READ(gpu, modes, modes);
    processes->count = 0;
    return modes.accounting ? fg_processes_alive(gpu, processes) : NVML_SUCCESS;
}

FG_API nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    struct fg_processes processes;
    FG_ENTER(device, count != NULL);
    FG_TRY(accounted(gpu, &processes));
    unsigned int room = *count;
    *count = processes.count;
    FG_REQUIRE(processes.count == 0 || (pids != NULL && room >= processes.count), NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned int index = 0; index < processes.count; index++)
        pids[index] = processes.entries[index].pid;
    return NVML_SUCCESS;
}

/* From ticks since the host has booted to microseconds of the clock on the wall. */
static unsigned long long start_us(uint64_t ticks)
{
    struct timespec wall, up;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &up);
    long long booted_us = (wall.tv_sec - up.tv_sec) * 1000000LL + (wall.tv_nsec - up.tv_nsec) / 1000;
    return (unsigned long long)booted_us + ticks * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

static nvmlReturn_t find(const struct fg_gpu *gpu, unsigned int pid, nvmlAccountingStats_v2_t *stats)
{
    struct fg_processes processes;
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(modes.accounting, NVML_ERROR_NOT_SUPPORTED);
    FG_TRY(accounted(gpu, &processes));
    FG_READ(gpu, utilization, utilization);
    for (unsigned int index = 0; index < processes.count; index++) {
        const struct fg_process *process = &processes.entries[index];
        if (process->pid != pid)
            continue;
        memset(stats, 0, sizeof *stats);
        stats->pid = pid;
        stats->isRunning = 1;
        stats->gpuUtilization = utilization.gpu_percent / processes.count;
        stats->memoryUtilization = utilization.memory_percent / processes.count;
        stats->maxMemoryUsage = process->used_bytes;
        stats->startTime = start_us(process->start_ticks);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

FG_API nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
    nvmlAccountingStats_v2_t found;
    FG_ENTER(device, stats != NULL);
    FG_TRY(find(gpu, pid, &found));
    memset(stats, 0, sizeof *stats);
    stats->gpuUtilization = found.gpuUtilization;
    stats->memoryUtilization = found.memoryUtilization;
    stats->maxMemoryUsage = found.maxMemoryUsage;
    stats->startTime = found.startTime;
    stats->isRunning = found.isRunning;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
    FG_ENTER(device, stats != NULL);
    return find(gpu, stats->pid, stats);
}

/* As only running processes are listed, there are none to forget; who may not is refused all the same. */
FG_API nvmlDeviceClearAccountingPids(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    FG_CHANGE(gpu, change);
    return fg_change_abandon(&change, NVML_SUCCESS);
}

FG_SETTER(nvmlDeviceSetAccountingMode, nvmlEnableState_t, FG_IS_SWITCH(value), modes, true, accounting)
FG_GETTER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, modes, true, modes.accounting)
