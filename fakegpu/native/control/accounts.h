/* What accounting records of a process, while it runs and when it has ended. */
#ifndef FAKEGPU_ACCOUNTS_H
#define FAKEGPU_ACCOUNTS_H

#include "core/result.h"
#include "core/layout.h"

/* A process from its start until now, as one of `count` that share the GPU; `set` is the utilization as it is set. */
struct fg_account fg_account_of(const struct fg_gpu *gpu, const struct fg_utilization *set, unsigned int count,
                                const struct fg_process *process);

/* Removes processes that have ended from a GPU, and `pid` whether it has ended or not; accounting, where it is on,
 * records them. The caller holds the lock of writers. */
nvmlReturn_t fg_end_processes(struct fg_gpu *gpu, uint32_t pid);

#endif
