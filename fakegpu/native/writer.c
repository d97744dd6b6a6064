/* The writing side; see writer.h for who may call it. */
#define _GNU_SOURCE
#include "writer.h"
#include "nvml_api.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

FG_EXPORT int fakegpu_read_state(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    bool is_lost;
    if (gpu >= segment->gpu_count)
        return -1;
    return fg_read(&segment->gpus[gpu], 0, state, sizeof *state, &is_lost) == NVML_SUCCESS ? 0 : -1;
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
    return 0;
}

FG_EXPORT int fakegpu_post_event(struct fg_segment *segment, uint32_t gpu, uint64_t type, uint64_t data)
{
    if (gpu >= segment->gpu_count || __builtin_popcountll(type) != 1)
        return -1;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct fg_ring *ring = &segment->ring;
    uint64_t number = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    struct fg_event *event = &ring->events[number % FG_EVENTS_MAX];
    __atomic_store_n(&event->ticket, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&event->type, type, __ATOMIC_RELAXED);
    __atomic_store_n(&event->data, data, __ATOMIC_RELAXED);
    __atomic_store_n(&event->gpu, gpu, __ATOMIC_RELAXED);
    __atomic_store_n(&event->gpu_instance, NVML_GPU_INSTANCE_ID_ANY, __ATOMIC_RELAXED);
    __atomic_store_n(&event->compute_instance, NVML_COMPUTE_INSTANCE_ID_ANY, __ATOMIC_RELAXED);
    uint64_t microseconds = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    __atomic_store_n(&event->timestamp_us, microseconds, __ATOMIC_RELAXED);
    __atomic_store_n(&event->ticket, number + 1u, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->head, number + 1u, __ATOMIC_RELEASE);
    __atomic_add_fetch(&ring->wake, 1u, __ATOMIC_RELEASE);
    syscall(SYS_futex, &ring->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return 0;
}
