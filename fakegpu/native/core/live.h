/* Figures of a GPU under load: those of this moment in place of those that are set. See live.c. */
#ifndef FAKEGPU_LIVE_H
#define FAKEGPU_LIVE_H

#include "core/state_io.h"

/* The bits of live_topics that concern a topic, zero for topics that change only when they are set. The compiler
 * computes the result of every call. */
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

/* Whether the topic that `bits` stand for differs from what is set, because the GPU works. */
static inline bool fg_is_live(const struct fg_gpu *gpu, uint32_t bits)
{
    return __builtin_expect((bits & __atomic_load_n(&gpu->live_topics, __ATOMIC_RELAXED)) != 0, 0);
}

/* Puts the figures of this moment into `copy`, a copy of the topic that `bits` stand for. */
nvmlReturn_t fg_live_apply(const struct fg_gpu *gpu, uint32_t bits, void *copy);

/* The same for a moment of the past. Before the load in force began, the GPU was at rest: `copy` stays as it is set. */
nvmlReturn_t fg_live_apply_ago(const struct fg_gpu *gpu, uint32_t bits, void *copy, uint64_t ago_ms);

/* Brings the energy counter of `power`, a copy of the topic, up to this moment. */
nvmlReturn_t fg_count_energy(const struct fg_gpu *gpu, struct fg_power *power);

/* Copies the whole state with the figures of this moment: of the load, the processes and the energy, of a lost GPU
 * too. */
nvmlReturn_t fg_read_live(const struct fg_gpu *gpu, struct fg_gpu_state *state);

/* Declares `copy`, a consistent copy of one member of the state (`thermal`, `identity.name`, …) with the figures of
 * this moment; returns GPU_IS_LOST from the calling function where the GPU is lost. */
#define FG_READ(gpu, member, copy)                                                                                     \
    __typeof__(((struct fg_gpu_state *)0)->member) copy;                                                               \
    _Static_assert(sizeof copy % sizeof(fg_word) == 0, "readers copy whole words");                                    \
    FG_TRY(fg_read_present((gpu), offsetof(struct fg_gpu_state, member), &copy, sizeof copy));                         \
    if (fg_is_live((gpu), fg_live_bits(offsetof(struct fg_gpu_state, member), sizeof copy))) {                         \
        __typeof__(copy) copy##_live; /* so that `copy` itself may stay in registers */                                \
        __builtin_memcpy(&copy##_live, &copy, sizeof copy);                                                            \
        FG_TRY(fg_live_apply((gpu), fg_live_bits(offsetof(struct fg_gpu_state, member), sizeof copy), &copy##_live));  \
        __builtin_memcpy(&copy, &copy##_live, sizeof copy);                                                            \
    }                                                                                                                  \
    (void)0

#endif
