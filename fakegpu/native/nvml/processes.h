/* The processes that hold memory of a GPU. */
#ifndef FAKEGPU_PROCESSES_H
#define FAKEGPU_PROCESSES_H

#include "nvml/api.h"

/* Copies the running processes of one FG_PROCESS_* kind: all of the GPU, or those of the MIG device in `slot` where
 * that is not negative. */
nvmlReturn_t fg_processes_of(const struct fg_gpu *gpu, int slot, uint32_t kind, struct fg_processes *found);

/* What each process has of the engines' work, in percent: they share it evenly, and the shares add up to all of it. */
struct fg_share {
    unsigned int gpu, memory, encoder, decoder, jpeg, ofa;
};

struct fg_share fg_share_of(const struct fg_utilization *all, unsigned int position, unsigned int count);

/* The processes that work on a GPU now, for a caller that asked last at `since_us`. NOT_FOUND when nothing has changed
 * since, NOT_SUPPORTED in MIG mode. */
nvmlReturn_t fg_working_processes(const struct fg_gpu *gpu, unsigned long long since_us, struct fg_processes *working,
                                  unsigned long long *now_us);

#endif
