/* Accounts of processes: what each has used, and the removal of those that have ended. */
#include "control/accounts.h"
#include "core/alive.h"
#include "core/clock.h"
#include "core/live.h"

#include <unistd.h>

/* Converts ticks since the host has booted to microseconds since 1970. */
static uint64_t start_us(uint64_t ticks)
{
    struct timespec wall, up;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &up);
    long long booted_us = (wall.tv_sec - up.tv_sec) * 1000000LL + (wall.tv_nsec - up.tv_nsec) / 1000;
    return (uint64_t)booted_us + ticks * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

struct fg_account fg_account_of(const struct fg_gpu *gpu, const struct fg_utilization *set, unsigned int count,
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

nvmlReturn_t fg_end_processes(struct fg_gpu *gpu, uint32_t pid)
{
    struct fg_gpu_state state;
    FG_TRY(fg_read_state(gpu, &state));
    struct fg_processes *processes = &state.processes;
    struct fg_accounts *accounts = &state.accounts;
    uint32_t count = processes->count < FG_PROCESSES_MAX ? processes->count : FG_PROCESSES_MAX, kept = 0;
    for (uint32_t index = 0; index < count; index++) {
        const struct fg_process process = processes->entries[index];
        if (process.pid != pid && fg_is_alive(&process))
            processes->entries[kept++] = process;
        else if (state.modes.accounting)
            accounts->entries[accounts->count++ % FG_ACCOUNTS_MAX] =
                fg_account_of(gpu, &state.utilization, count, &process);
    }
    if (kept == processes->count)
        return NVML_SUCCESS;
    processes->count = kept;
    fg_write_state(gpu, &state);
    return NVML_SUCCESS;
}
