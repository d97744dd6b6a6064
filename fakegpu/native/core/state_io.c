/* The whole state of a GPU, read and written. */
#include "core/state_io.h"

nvmlReturn_t fg_read_state(const struct fg_gpu *gpu, struct fg_gpu_state *state)
{
    bool is_lost;
    return fg_read(gpu, 0, state, sizeof *state, &is_lost);
}

void fg_write_state(struct fg_gpu *gpu, const struct fg_gpu_state *state)
{
    uint32_t sequence = __atomic_load_n(&gpu->sequence, __ATOMIC_RELAXED);
    fg_word *spare = (fg_word *)&gpu->states[(sequence + 1u) & 1u];
    /* Pairs with the fence of fg_read: a reader that sees a word below also sees the sequence that retired this
     * copy. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t word = 0; word < sizeof *state / sizeof(fg_word); word++)
        __atomic_store_n(&spare[word], ((const fg_word *)state)[word], __ATOMIC_RELAXED);
    __atomic_store_n(&gpu->sequence, sequence + 1u, __ATOMIC_RELEASE);
    uint32_t entered = state->processes.count > 0 ? FG_LIVE_PROCESSES : 0;
    uint32_t moving = state->load.topics;
    if (state->fault.is_throttled) /* the figures of the fault do not change */
        moving &= ~(FG_LIVE_THERMAL | FG_LIVE_CLOCKS);
    __atomic_store_n(&gpu->live_topics, moving | entered, __ATOMIC_RELEASE);
}

void fg_set_flag(struct fg_segment *segment, uint32_t flag, bool is_set)
{
    if (is_set)
        __atomic_or_fetch(&segment->fault_flags, flag, __ATOMIC_RELEASE);
    else
        __atomic_and_fetch(&segment->fault_flags, ~flag, __ATOMIC_RELEASE);
}
