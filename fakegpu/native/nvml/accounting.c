/* Accounting of the processes on the GPU, those that run and the last that ended, while it is on. */
#include "control/plans.h"
#include "control/writer.h"
#include "nvml/change.h"
#include "nvml/mig.h"
#include "nvml/processes.h"

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

/* From ticks since the host has booted to microseconds of the clock on the wall. */
static uint64_t start_us(uint64_t ticks)
{
    struct timespec wall, up;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &up);
    long long booted_us = (wall.tv_sec - up.tv_sec) * 1000000LL + (wall.tv_nsec - up.tv_nsec) / 1000;
    return (uint64_t)booted_us + ticks * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* The life of a process until now, as one of `count` that share the GPU. */
static struct fg_account account_of(const struct fg_gpu *gpu, const struct fg_utilization *set, unsigned int count,
                                    const struct fg_process *process)
{
    enum { LOOKS = 64 };
    uint64_t began_us = start_us(process->start_ticks), now = fg_now_us();
    uint64_t time_ms = now > began_us ? (now - began_us) / 1000u : 0, gpu_sum = 0, memory_sum = 0;
    for (uint64_t look = 0; look < LOOKS; look++) {
        struct fg_utilization then = *set;
        uint32_t bits = fg_live_bits(offsetof(struct fg_gpu_state, utilization), sizeof then);
        if (fg_is_live(gpu, bits))
            fg_live_apply_ago(gpu, bits, &then, time_ms * look / LOOKS);
        gpu_sum += then.gpu_percent;
        memory_sum += then.memory_percent;
    }
    return (struct fg_account){
        .pid = process->pid,
        .gpu_percent = (uint16_t)(gpu_sum / LOOKS / count),
        .memory_percent = (uint16_t)(memory_sum / LOOKS / count),
        .start_us = began_us,
        .time_ms = time_ms,
        .most_bytes = process->most_bytes,
    };
}

FG_EXPORT int fakegpu_end_processes(struct fg_segment *segment, uint32_t gpu, uint32_t pid)
{
    struct fg_gpu_state state;
    if (fakegpu_read_state(segment, gpu, &state) != 0)
        return -1;
    struct fg_processes *processes = &state.processes;
    struct fg_accounts *accounts = &state.accounts;
    uint32_t count = processes->count < FG_PROCESSES_MAX ? processes->count : FG_PROCESSES_MAX, kept = 0;
    for (uint32_t index = 0; index < count; index++) {
        const struct fg_process process = processes->entries[index];
        if (process.pid != pid && fg_is_alive(&process))
            processes->entries[kept++] = process;
        else if (state.modes.accounting)
            accounts->entries[accounts->count++ % FG_ACCOUNTS_MAX] =
                account_of(&segment->gpus[gpu], &state.utilization, count, &process);
    }
    if (kept == processes->count)
        return 0;
    processes->count = kept;
    return fakegpu_write_state(segment, gpu, &state);
}

/* Those that run and those that have ended, the latest first. Nobody is accounted for while accounting is off. */
struct list {
    struct fg_account entries[FG_PROCESSES_MAX + FG_ACCOUNTS_MAX];
    unsigned int running; /* the first ones */
    unsigned int count;
};

/* Who looks first notes the end of a process, if he may write; until then it ends for each who looks. */
static void note_ends(const struct fg_segment *segment, const struct fg_gpu *gpu)
{
    struct fg_writable writable;
    if (fg_writable_open(segment, &writable) != NVML_SUCCESS)
        return;
    fakegpu_end_processes(writable.segment, fg_index_of(segment, gpu), 0);
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
        note_ends(segment, gpu);
    FG_READ(gpu, processes, processes);
    FG_READ(gpu, accounts, accounts);
    FG_READ(gpu, utilization, set);
    for (unsigned int index = 0; index < alive.count; index++)
        list->entries[list->count++] = account_of(gpu, &set, alive.count, &alive.entries[index]);
    list->running = list->count;
    for (unsigned int index = 0; index < processes.count && index < FG_PROCESSES_MAX; index++)
        if (!fg_is_alive(&processes.entries[index]) && list->count < FG_PROCESSES_MAX)
            list->entries[list->count++] = account_of(gpu, &set, processes.count, &processes.entries[index]);
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
    FG_READ(gpu, modes, modes);
    FG_REQUIRE(modes.accounting, NVML_ERROR_NOT_SUPPORTED);
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

/* Turned off, accounting forgets whoever has ended. */
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
