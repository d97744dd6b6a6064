/* Posting to the ring and reading from it, without a lock for readers. */
#define _GNU_SOURCE
#include "core/ring.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void fg_wake(struct fg_segment *segment)
{
    __atomic_add_fetch(&segment->ring.wake, 1u, __ATOMIC_RELEASE);
    syscall(SYS_futex, &segment->ring.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void fg_post(struct fg_segment *segment, const struct fg_event *event)
{
    struct fg_ring *ring = &segment->ring;
    uint64_t number = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    struct fg_event *slot = &ring->events[number % FG_EVENTS_MAX];
    __atomic_store_n(&slot->ticket, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t word = 1; word < sizeof *slot / sizeof(fg_word); word++)
        __atomic_store_n((fg_word *)slot + word, ((const fg_word *)event)[word], __ATOMIC_RELAXED);
    __atomic_store_n(&slot->ticket, number + 1u, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->head, number + 1u, __ATOMIC_RELEASE);
    fg_wake(segment);
}

bool fg_copy_event(const struct fg_ring *ring, uint64_t number, struct fg_event *copy)
{
    const struct fg_event *slot = &ring->events[number % FG_EVENTS_MAX];
    if (__atomic_load_n(&slot->ticket, __ATOMIC_ACQUIRE) != number + 1)
        return false;
    for (size_t word = 0; word < sizeof *copy / sizeof(fg_word); word++)
        ((fg_word *)copy)[word] = __atomic_load_n((const fg_word *)slot + word, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->ticket, __ATOMIC_RELAXED) == number + 1;
}
