/* The figures of a GPU that works: what a load says of this moment, laid over what is set. See live.c. */
#ifndef FAKEGPU_LIVE_H
#define FAKEGPU_LIVE_H

#include <nvml.h>
#include <stddef.h>
#include <stdint.h>

#include "core/state.h"

#define FG_IS_TOPIC(name) (offset == offsetof(struct fg_gpu_state, name) && size == sizeof(((struct fg_gpu_state *)0)->name))

/* The bits of live_topics that concern a copy of a topic, zero for topics that never move by themselves. The compiler
 * knows the answer for every call. */
static inline uint32_t fg_live_bits(size_t offset, size_t size)
{
    return FG_IS_TOPIC(memory)        ? FG_LIVE_MEMORY | FG_LIVE_PROCESSES
           : FG_IS_TOPIC(thermal)     ? FG_LIVE_THERMAL
           : FG_IS_TOPIC(fans)        ? FG_LIVE_FANS
           : FG_IS_TOPIC(power)       ? FG_LIVE_POWER
           : FG_IS_TOPIC(clocks)      ? FG_LIVE_CLOCKS
           : FG_IS_TOPIC(utilization) ? FG_LIVE_UTILIZATION
           : FG_IS_TOPIC(pci)         ? FG_LIVE_PCI
                                      : 0;
}

/* Puts the figures of this moment into `copy`, a copy of the topic that `bits` tell of. */
nvmlReturn_t fg_live_apply(const struct fg_gpu *gpu, uint32_t bits, void *copy);

/* The same for a moment of the past. Before the load in force began, the GPU was at rest: `copy` stays as it is set. */
nvmlReturn_t fg_live_apply_ago(const struct fg_gpu *gpu, uint32_t bits, void *copy, uint64_t ago_ms);

/* Brings the energy counter of `power`, a copy of the topic, up to this moment. */
nvmlReturn_t fg_count_energy(const struct fg_gpu *gpu, struct fg_power *power);

#endif
