/* The writing side; see writer.h for who may call it. */
#define _GNU_SOURCE
#include "control/writer.h"
#include "control/actions.h"
#include "control/plans.h"
#include "nvml/api.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

FG_EXPORT int fakegpu_read_state(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    bool is_lost;
    if (gpu >= segment->gpu_count)
        return -1;
    return fg_read(&segment->gpus[gpu], 0, state, sizeof *state, &is_lost) == NVML_SUCCESS ? 0 : -1;
}

FG_EXPORT int fakegpu_read_live(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    static const size_t topics[] = {
#define FG_TOPIC(name) offsetof(struct fg_gpu_state, name), sizeof(((struct fg_gpu_state *)0)->name)
        FG_TOPIC(memory), FG_TOPIC(thermal),     FG_TOPIC(fans), FG_TOPIC(power),
        FG_TOPIC(clocks), FG_TOPIC(utilization), FG_TOPIC(pci),
    };
    if (fakegpu_read_state(segment, gpu, state) != 0)
        return -1;
    const struct fg_gpu *source = &segment->gpus[gpu];
    uint32_t live = __atomic_load_n(&source->live_topics, __ATOMIC_RELAXED);
    for (size_t index = 0; index < sizeof topics / sizeof *topics; index += 2) {
        uint32_t bits = fg_live_bits(topics[index], topics[index + 1]);
        if ((bits & live) != 0 && fg_live_apply(source, bits, (char *)state + topics[index]) != NVML_SUCCESS)
            return -1;
    }
    return fakegpu_count_energy(segment, gpu, state);
}

FG_EXPORT int fakegpu_count_energy(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    if (gpu >= segment->gpu_count)
        return -1;
    return fg_count_energy(&segment->gpus[gpu], &state->power) == NVML_SUCCESS ? 0 : -1;
}

FG_EXPORT int fakegpu_write_state(struct fg_segment *segment, uint32_t gpu, const struct fg_gpu_state *state)
{
    if (gpu >= segment->gpu_count)
        return -1;
    struct fg_gpu *target = &segment->gpus[gpu];
    uint32_t sequence = __atomic_load_n(&target->sequence, __ATOMIC_RELAXED);
    fg_word *spare = (fg_word *)&target->states[(sequence + 1u) & 1u];
    /* Pairs with the fence of fg_read: who sees a word below also sees the sequence that retired this copy. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t word = 0; word < sizeof *state / sizeof(fg_word); word++)
        __atomic_store_n(&spare[word], ((const fg_word *)state)[word], __ATOMIC_RELAXED);
    __atomic_store_n(&target->sequence, sequence + 1u, __ATOMIC_RELEASE);
    uint32_t entered = state->processes.count > 0 ? FG_LIVE_PROCESSES : 0;
    uint32_t moving = state->load.topics;
    if (state->fault.is_throttled) /* the fault's figures stand still */
        moving &= ~(FG_LIVE_THERMAL | FG_LIVE_CLOCKS);
    __atomic_store_n(&target->live_topics, moving | entered, __ATOMIC_RELEASE);
    return 0;
}

void fg_wake(struct fg_segment *segment)
{
    __atomic_add_fetch(&segment->ring.wake, 1u, __ATOMIC_RELEASE);
    syscall(SYS_futex, &segment->ring.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void fg_post(struct fg_segment *segment, const struct fg_event *news)
{
    struct fg_ring *ring = &segment->ring;
    uint64_t number = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    struct fg_event *event = &ring->events[number % FG_EVENTS_MAX];
    __atomic_store_n(&event->ticket, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t word = 1; word < sizeof *event / sizeof(fg_word); word++)
        __atomic_store_n((fg_word *)event + word, ((const fg_word *)news)[word], __ATOMIC_RELAXED);
    __atomic_store_n(&event->ticket, number + 1u, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->head, number + 1u, __ATOMIC_RELEASE);
    fg_wake(segment);
}

FG_EXPORT int fakegpu_post_event(struct fg_segment *segment, const struct fg_event *news)
{
    if (news->gpu >= segment->gpu_count || __builtin_popcountll(news->type) != 1)
        return -1;
    struct fg_event event = *news;
    event.timestamp_us = fg_now_us();
    fg_post(segment, &event);
    return 0;
}

FG_EXPORT int fakegpu_act(struct fg_segment *segment, const struct fg_action *action)
{
    return fg_act(segment, action, fg_now_us());
}

FG_EXPORT void fakegpu_stick_waits(struct fg_segment *segment, int is_stuck)
{
    fg_set_flag(segment, FG_FAULT_WAIT, is_stuck != 0);
    fg_wake(segment);
}
