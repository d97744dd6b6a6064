/* Event sets: registered events, each set's position in the ring, and the wait.
 *
 * Each set has its own cursor, so every set of every process sees each event once. A set that falls a whole ring behind
 * loses the oldest events and continues with the oldest one that is left. A wait that finds nothing sleeps on two futex
 * words, the ring's and the set's own, so a post wakes it as well as nvmlEventSetFree or the last nvmlShutdown; nothing
 * is polled, and a read-only mapping is enough. Kernels before 5.16 cannot sleep on two words: there, a wait on a set
 * that is freed ends at the machine's next event or at its timeout.
 *
 * The ring holds FG_EVENTS_MAX events of the whole machine. nvmlEventSetWait_v3 does not report those that were lost,
 * as the real one does not.
 */
#define _GNU_SOURCE
#include "nvml/events.h"
#include "control/plans.h"
#include "core/clock.h"
#include "core/ring.h"
#include "nvml/api.h"
#include "nvml/visible.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SETS_MAX 1024u
#define EVENT_BITS 17u /* the sixteen types of nvml.h and, last, the loss of the GPU */
#define LOST_BIT (EVENT_BITS - 1u)
#define NEVER UINT64_MAX
#define NO_TYPES 0x60ull /* bits of no event in nvml.h: driver 580 registers them and never delivers any */

/* A set's state is its phase in the lowest bits and a generation above them, which grows whenever the set is closed.
 * The cursor carries the end of the generation, so that moving it fails for a waiter of a set that was here before. */
enum { CLOSED, OPENING, OPEN, PHASES };
#define PHASE_MASK 3u
#define NUMBER_BITS 48u
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1u)

_Static_assert(PHASES <= PHASE_MASK + 1u, "a phase fits its bits");
_Static_assert(nvmlEventTypeAll >> LOST_BIT == 0, "the bit of the loss is free");

struct nvmlEventSet_st {
    uint64_t cursor; /* number of the next event to look at, below the tag of the generation */
    /* [gpu][bit]: number of the first event the set wants; NEVER: not registered. Has room for the largest machine and
     * is never given back, because a waiter may still look at it after the set is freed and used again. */
    uint64_t *wanted_from;
    uint32_t state;
    uint32_t padding;
};

/* A fixed table, so that a pointer that is not a set is recognised. Slots are claimed without a lock: a child forked at
 * any moment finds them usable. */
static struct nvmlEventSet_st sets[SETS_MAX];

static struct nvmlEventSet_st *open_set_of(nvmlEventSet_t handle)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)sets;
    if (offset % sizeof *sets != 0 || offset / sizeof *sets >= SETS_MAX)
        return NULL;
    return (__atomic_load_n(&handle->state, __ATOMIC_ACQUIRE) & PHASE_MASK) == OPEN ? handle : NULL;
}

static bool make_room(struct nvmlEventSet_st *set, unsigned int gpus)
{
    if (set->wanted_from == NULL)
        set->wanted_from = malloc((size_t)FG_GPUS_MAX * EVENT_BITS * sizeof *set->wanted_from);
    if (set->wanted_from == NULL)
        return false;
    for (size_t entry = 0; entry < (size_t)gpus * EVENT_BITS; entry++)
        __atomic_store_n(&set->wanted_from[entry], NEVER, __ATOMIC_RELAXED);
    return true;
}

static struct nvmlEventSet_st *claim_set(void)
{
    for (unsigned int index = 0; index < SETS_MAX; index++) {
        uint32_t state = __atomic_load_n(&sets[index].state, __ATOMIC_RELAXED);
        if ((state & PHASE_MASK) == CLOSED &&
            __atomic_compare_exchange_n(&sets[index].state, &state, state | OPENING, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return &sets[index];
    }
    return NULL;
}

/* Returns the generation of `state` in the bits above an event's number. */
static uint64_t tag_of(uint32_t state)
{
    return (uint64_t)(state / (PHASE_MASK + 1u)) << NUMBER_BITS;
}

/* Ends the generation of an open set and wakes its waiters; false when it is not open. */
static bool close_set(struct nvmlEventSet_st *set)
{
    uint32_t state = __atomic_load_n(&set->state, __ATOMIC_ACQUIRE);
    if ((state & PHASE_MASK) != OPEN ||
        !__atomic_compare_exchange_n(&set->state, &state, (state | PHASE_MASK) + 1u, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    syscall(SYS_futex, &set->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    return true;
}

FG_API nvmlEventSetCreate(nvmlEventSet_t *handle)
{
    FG_ENTER_SYSTEM(handle != NULL);
    struct nvmlEventSet_st *set = claim_set();
    FG_REQUIRE(set != NULL, NVML_ERROR_INSUFFICIENT_RESOURCES);
    uint32_t closed = __atomic_load_n(&set->state, __ATOMIC_RELAXED) & ~PHASE_MASK;
    if (!make_room(set, fg_attached_gpus)) {
        __atomic_store_n(&set->state, closed, __ATOMIC_RELEASE);
        return NVML_ERROR_MEMORY;
    }
    uint64_t head = __atomic_load_n(&segment->ring.head, __ATOMIC_ACQUIRE) & NUMBER_MASK;
    __atomic_store_n(&set->cursor, tag_of(closed) | head, __ATOMIC_RELEASE);
    __atomic_store_n(&set->state, closed | OPEN, __ATOMIC_SEQ_CST);
    /* Either the last nvmlShutdown sees the set open, or we see that the session is over. */
    if (__atomic_load_n(&fg_session, __ATOMIC_SEQ_CST) != segment) {
        close_set(set);
        return NVML_ERROR_UNINITIALIZED;
    }
    *handle = set;
    return NVML_SUCCESS;
}

FG_API nvmlEventSetFree(nvmlEventSet_t handle)
{
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL);
    (void)segment;
    return close_set(handle) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

void fg_event_sets_release(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (unsigned int index = 0; index < SETS_MAX; index++)
        close_set(&sets[index]);
}

FG_API nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    FG_ENTER(device, types != NULL);
    FG_READ(gpu, fault, fault);
    *types = fault.supported_events;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle)
{
    FG_ENTER(device, open_set_of(handle) != NULL);
    FG_READ(gpu, fault, fault);
    FG_REQUIRE((types & ~(fault.supported_events | NO_TYPES)) == 0, NVML_ERROR_NOT_SUPPORTED);
    uint64_t *wanted_from = &handle->wanted_from[(size_t)fg_index_of(segment, gpu) * EVENT_BITS];
    uint64_t now = __atomic_load_n(&segment->ring.head, __ATOMIC_ACQUIRE) & NUMBER_MASK;
    for (unsigned int bit = 0; bit < EVENT_BITS; bit++) {
        /* A set that registers for any event receives the loss of the GPU too. */
        bool is_asked = bit == LOST_BIT ? types != 0 : (types >> bit & 1u) != 0;
        if (is_asked && __atomic_load_n(&wanted_from[bit], __ATOMIC_RELAXED) == NEVER)
            __atomic_store_n(&wanted_from[bit], now, __ATOMIC_RELAXED);
    }
    return NVML_SUCCESS;
}

/* A process that may not monitor all instances receives only events of whole GPUs. */
static bool is_wanted(const struct nvmlEventSet_st *set, uint64_t number, const struct fg_event *event)
{
    if (event->type == 0 || event->gpu >= fg_attached_gpus)
        return false;
    unsigned int bit = (unsigned int)__builtin_ctzll(event->type);
    if (event->type == FG_EVENT_GPU_LOST)
        bit = LOST_BIT;
    else if (bit >= LOST_BIT)
        return false;
    if (event->gpu_instance != NVML_GPU_INSTANCE_ID_ANY && !fg_may_monitor())
        return false;
    return number >= __atomic_load_n(&set->wanted_from[(size_t)event->gpu * EVENT_BITS + bit], __ATOMIC_RELAXED);
}

/* Takes the next event that the set of generation `tag` wants. It ends even while events keep coming, or somebody writes
 * over the number of the last one. */
static bool take_event(struct nvmlEventSet_st *set, uint64_t tag, const struct fg_segment *segment,
                       struct fg_event *taken)
{
    const struct fg_ring *ring = &segment->ring;
    for (unsigned int turn = 0; turn < 2 * FG_EVENTS_MAX; turn++) {
        uint64_t cursor = __atomic_load_n(&set->cursor, __ATOMIC_ACQUIRE);
        uint64_t next = cursor & NUMBER_MASK;
        uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) & NUMBER_MASK;
        if ((cursor & ~NUMBER_MASK) != tag || next >= head)
            return false;
        uint64_t number = head - next > FG_EVENTS_MAX ? head - FG_EVENTS_MAX : next;
        bool is_for_us = fg_copy_event(ring, number, taken) && is_wanted(set, number, taken);
        /* Two threads may wait on one set: only the one that moves the cursor has the event. */
        bool is_ours = __atomic_compare_exchange_n(&set->cursor, &cursor, tag | (number + 1), false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_RELAXED);
        if (is_ours && is_for_us)
            return true;
    }
    return false;
}

/* Sleeps until a word differs from what was seen of it. 0, or what ended the sleep instead: ETIMEDOUT at the deadline,
 * which is of CLOCK_MONOTONIC, EINTR at a signal. */
static int sleep_while(const uint32_t *wake, uint32_t wake_seen, const uint32_t *state, uint32_t state_seen,
                        uint64_t deadline_us)
{
    struct timespec deadline = {(time_t)(deadline_us / 1000000u), (long)(deadline_us % 1000000u) * 1000L};
#if defined(SYS_futex_waitv) && defined(FUTEX_32)
    struct futex_waitv words[] = {
        {.val = wake_seen, .uaddr = (uintptr_t)wake, .flags = FUTEX_32},
        {.val = state_seen, .uaddr = (uintptr_t)state, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
    };
    if (syscall(SYS_futex_waitv, words, 2u, 0u, &deadline, CLOCK_MONOTONIC) >= 0 || errno == EAGAIN)
        return 0;
    /* A sandbox that does not know the call refuses it with EPERM. */
    if (errno != ENOSYS && errno != EPERM)
        return errno;
#else
    (void)state;
    (void)state_seen;
#endif
    long result = syscall(SYS_futex, wake, FUTEX_WAIT_BITSET, wake_seen, &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    return result == 0 || errno == EAGAIN ? 0 : errno;
}

static bool is_stuck(const struct fg_segment *segment)
{
    return (__atomic_load_n(&segment->fault_flags, __ATOMIC_ACQUIRE) & FG_FAULT_WAIT) != 0;
}

/* When a wait has to look again although nothing woke it, by CLOCK_MONOTONIC: at the next plan that this process can
 * carry out, and `end_us` at the latest. */
static uint64_t look_again_us(const struct fg_segment *segment, uint64_t end_us)
{
    uint64_t due_us = fg_next_due_us(segment), now_us = fg_now_us();
    if (due_us == FG_FOR_EVER)
        return end_us;
    uint64_t again_us = fg_monotonic_ns() / 1000u + (due_us > now_us ? due_us - now_us : 0);
    return again_us < end_us ? again_us : end_us;
}

#define A_YEAR_US (UINT64_C(366) * 24 * 3600 * 1000000)

static nvmlReturn_t wait_for_event(nvmlEventSet_t handle, const struct fg_segment *segment, unsigned int timeout_ms,
                                   struct fg_event *event)
{
    const struct fg_ring *ring = &segment->ring;
    uint32_t state = __atomic_load_n(&handle->state, __ATOMIC_ACQUIRE);
    FG_REQUIRE((state & PHASE_MASK) == OPEN, NVML_ERROR_INVALID_ARGUMENT);
    uint64_t end_us = 0;
    for (;;) {
        uint32_t seen = __atomic_load_n(&ring->wake, __ATOMIC_ACQUIRE);
        bool can_keep_plans = fg_keep_plans(segment), stuck = is_stuck(segment);
        if (!stuck && take_event(handle, tag_of(state), segment, event))
            return event->type == FG_EVENT_GPU_LOST ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        if (timeout_ms == 0 && !stuck)
            return NVML_ERROR_TIMEOUT;
        if (end_us == 0)
            end_us = fg_monotonic_ns() / 1000u + (uint64_t)timeout_ms * 1000u;
        uint64_t deadline_us = stuck ? fg_monotonic_ns() / 1000u + A_YEAR_US : end_us;
        if (can_keep_plans)
            deadline_us = look_again_us(segment, deadline_us);
        int ended_by = sleep_while(&ring->wake, seen, &handle->state, state, deadline_us);
        bool is_over = ended_by == ETIMEDOUT ? deadline_us == end_us : ended_by != 0;
        /* nvml.h: a signal ends the wait as a timeout does. An event of the last moment is still taken. */
        if (is_over && !stuck)
            timeout_ms = 0;
        if (__atomic_load_n(&handle->state, __ATOMIC_ACQUIRE) != state)
            return fg_active() == segment ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    }
}

static nvmlReturn_t wait_and_report(const struct fg_segment *segment, nvmlEventSet_t handle, unsigned int timeout_ms,
                                  nvmlEventData_t *data)
{
    struct fg_event event;
    FG_TRY(wait_for_event(handle, segment, timeout_ms, &event));
    data->device = fg_handle_of(&segment->gpus[event.gpu]);
    data->eventType = event.type;
    data->eventData = event.data;
    data->gpuInstanceId = event.gpu_instance;
    data->computeInstanceId = event.compute_instance;
    return NVML_SUCCESS;
}

FG_API nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms)
{
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL && data != NULL);
    return wait_and_report(segment, handle, timeout_ms, data);
}

/* Callers of the first version own a struct that ends before the instance ids. */
FG_API nvmlEventSetWait(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms)
{
    nvmlEventData_t whole;
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL && data != NULL);
    FG_TRY(wait_and_report(segment, handle, timeout_ms, &whole));
    memcpy(data, &whole, offsetof(nvmlEventData_t, gpuInstanceId));
    return NVML_SUCCESS;
}

FG_API nvmlEventSetWait_v3(nvmlEventSet_t handle, nvmlEventSetWait_v3_t *parameters)
{
    struct fg_event event;
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL && parameters != NULL);
    unsigned int timeout_ms = parameters->timeoutMs;
    FG_TRY(wait_for_event(handle, segment, timeout_ms, &event));
    FG_READ_EVEN_IF_LOST(&segment->gpus[event.gpu], identity.uuid, uuid);
    memset(parameters, 0, sizeof *parameters);
    parameters->timeoutMs = timeout_ms;
    parameters->dataType = NVML_EVENT_DATA_TYPE_NVML_EVENT;
    memcpy(parameters->uuid, uuid, sizeof uuid);
    parameters->eventType = event.type;
    parameters->eventData = event.data;
    parameters->timestampUsec = event.timestamp_us;
    parameters->gpuInstanceId = event.gpu_instance;
    parameters->computeInstanceId = event.compute_instance;
    return NVML_SUCCESS;
}
