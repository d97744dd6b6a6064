/* Event sets: who wants which events, how far each set has read the ring, and the wait.
 *
 * Each set has its own cursor, so every set of every process sees each event once. A set that falls a whole ring
 * behind loses the oldest events and goes on with the oldest one that is left. A wait that finds nothing sleeps on the
 * ring's futex word; nothing is polled, and a read-only mapping is enough.
 */
#define _GNU_SOURCE
#include "events.h"
#include "nvml_api.h"

#include <errno.h>
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

enum { CLOSED, OPENING, OPEN };

_Static_assert(nvmlEventTypeAll >> LOST_BIT == 0, "the bit of the loss is free");

struct nvmlEventSet_st {
    uint64_t cursor; /* number of the next event to look at */
    uint64_t *wanted_from; /* [gpu][bit]: number of the first event the set wants; NEVER: not registered */
    unsigned int gpu_room; /* GPUs that `wanted_from` has room for; kept when the set is freed and used again */
    unsigned int phase;
};

/* A fixed table, so that any pointer can be told from a set. Slots are claimed without a lock: a child forked at any
 * moment finds them usable. */
static struct nvmlEventSet_st sets[SETS_MAX];

static struct nvmlEventSet_st *open_set_of(nvmlEventSet_t handle)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)sets;
    if (offset % sizeof *sets != 0 || offset / sizeof *sets >= SETS_MAX)
        return NULL;
    return __atomic_load_n(&handle->phase, __ATOMIC_ACQUIRE) == OPEN ? handle : NULL;
}

static bool make_room(struct nvmlEventSet_st *set, unsigned int gpus)
{
    if (set->gpu_room < gpus) {
        uint64_t *larger = realloc(set->wanted_from, (size_t)gpus * EVENT_BITS * sizeof *larger);
        if (larger == NULL)
            return false;
        set->wanted_from = larger;
        set->gpu_room = gpus;
    }
    for (size_t entry = 0; entry < (size_t)gpus * EVENT_BITS; entry++)
        set->wanted_from[entry] = NEVER;
    return true;
}

static struct nvmlEventSet_st *claim_set(void)
{
    for (unsigned int index = 0; index < SETS_MAX; index++) {
        unsigned int phase = CLOSED;
        if (__atomic_compare_exchange_n(&sets[index].phase, &phase, OPENING, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return &sets[index];
    }
    return NULL;
}

FG_API nvmlEventSetCreate(nvmlEventSet_t *handle)
{
    FG_ENTER_SYSTEM(handle != NULL);
    struct nvmlEventSet_st *set = claim_set();
    FG_REQUIRE(set != NULL, NVML_ERROR_INSUFFICIENT_RESOURCES);
    if (!make_room(set, segment->gpu_count)) {
        __atomic_store_n(&set->phase, CLOSED, __ATOMIC_RELEASE);
        return NVML_ERROR_MEMORY;
    }
    set->cursor = __atomic_load_n(&segment->ring.head, __ATOMIC_ACQUIRE);
    __atomic_store_n(&set->phase, OPEN, __ATOMIC_RELEASE);
    *handle = set;
    return NVML_SUCCESS;
}

FG_API nvmlEventSetFree(nvmlEventSet_t handle)
{
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL);
    (void)segment;
    __atomic_store_n(&handle->phase, CLOSED, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

void fg_event_sets_release(void)
{
    for (unsigned int index = 0; index < SETS_MAX; index++)
        __atomic_store_n(&sets[index].phase, CLOSED, __ATOMIC_RELEASE);
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
    FG_ENTER(device, open_set_of(handle) != NULL && (types & ~(unsigned long long)nvmlEventTypeAll) == 0);
    FG_READ(gpu, fault, fault);
    FG_REQUIRE((types & ~fault.supported_events) == 0, NVML_ERROR_NOT_SUPPORTED);
    uint64_t *wanted_from = &handle->wanted_from[(size_t)fg_index_of(segment, gpu) * EVENT_BITS];
    uint64_t now = __atomic_load_n(&segment->ring.head, __ATOMIC_ACQUIRE);
    for (unsigned int bit = 0; bit < EVENT_BITS; bit++) {
        /* Whoever registers for anything learns of the loss of the GPU. */
        bool is_asked = bit == LOST_BIT ? types != 0 : (types >> bit & 1u) != 0;
        if (is_asked && __atomic_load_n(&wanted_from[bit], __ATOMIC_RELAXED) == NEVER)
            __atomic_store_n(&wanted_from[bit], now, __ATOMIC_RELAXED);
    }
    return NVML_SUCCESS;
}

static bool is_wanted(const struct nvmlEventSet_st *set, uint64_t number, const struct fg_event *event)
{
    unsigned int bit = event->type == FG_EVENT_GPU_LOST ? LOST_BIT : (unsigned int)__builtin_ctzll(event->type);
    if (event->type == 0 || bit >= EVENT_BITS || event->gpu >= set->gpu_room)
        return false;
    return number >= __atomic_load_n(&set->wanted_from[(size_t)event->gpu * EVENT_BITS + bit], __ATOMIC_RELAXED);
}

/* Copies event `number`; false when a writer has begun to reuse its slot. */
static bool copy_event(const struct fg_ring *ring, uint64_t number, struct fg_event *copy)
{
    const struct fg_event *event = &ring->events[number % FG_EVENTS_MAX];
    if (__atomic_load_n(&event->ticket, __ATOMIC_ACQUIRE) != number + 1)
        return false;
    for (size_t word = 0; word < sizeof *copy / sizeof(fg_word); word++)
        ((fg_word *)copy)[word] = __atomic_load_n((const fg_word *)event + word, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&event->ticket, __ATOMIC_RELAXED) == number + 1;
}

/* Takes the next event the set wants. Every turn moves the cursor on, so this ends even while events keep coming. */
static bool take_event(struct nvmlEventSet_st *set, const struct fg_ring *ring, struct fg_event *taken)
{
    for (;;) {
        uint64_t cursor = __atomic_load_n(&set->cursor, __ATOMIC_ACQUIRE);
        uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
        if (cursor >= head)
            return false;
        uint64_t number = head - cursor > FG_EVENTS_MAX ? head - FG_EVENTS_MAX : cursor;
        bool is_whole = copy_event(ring, number, taken);
        /* Two threads may wait on one set: only the one that moves the cursor has the event. */
        bool is_ours = __atomic_compare_exchange_n(&set->cursor, &cursor, number + 1, false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_RELAXED);
        if (is_ours && is_whole && is_wanted(set, number, taken))
            return true;
    }
}

static struct timespec deadline_after(unsigned int timeout_ms)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000u;
    deadline.tv_nsec += (long)(timeout_ms % 1000u) * 1000000L;
    if (deadline.tv_nsec >= 1000000000L) {
        deadline.tv_nsec -= 1000000000L;
        deadline.tv_sec++;
    }
    return deadline;
}

/* Sleeps until the word differs from `seen`; false when the deadline has passed or a signal came in. */
static bool sleep_while(const uint32_t *word, uint32_t seen, const struct timespec *deadline)
{
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    return result == 0 || errno == EAGAIN;
}

static nvmlReturn_t wait_for_event(nvmlEventSet_t handle, const struct fg_ring *ring, unsigned int timeout_ms,
                                   struct fg_event *event)
{
    struct timespec deadline = {0};
    bool has_deadline = false;
    for (;;) {
        uint32_t seen = __atomic_load_n(&ring->wake, __ATOMIC_ACQUIRE);
        if (take_event(handle, ring, event))
            return event->type == FG_EVENT_GPU_LOST ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        if (timeout_ms == 0)
            return NVML_ERROR_TIMEOUT;
        if (!has_deadline)
            deadline = deadline_after(timeout_ms);
        has_deadline = true;
        /* nvml.h: a signal ends the wait as a timeout does. */
        if (!sleep_while(&ring->wake, seen, &deadline))
            return NVML_ERROR_TIMEOUT;
        FG_REQUIRE(open_set_of(handle) != NULL, NVML_ERROR_UNINITIALIZED);
    }
}

FG_API nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms)
{
    struct fg_event event;
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL && data != NULL);
    FG_TRY(wait_for_event(handle, &segment->ring, timeout_ms, &event));
    data->device = fg_handle_of(&segment->gpus[event.gpu]);
    data->eventType = event.type;
    data->eventData = event.data;
    data->gpuInstanceId = event.gpu_instance;
    data->computeInstanceId = event.compute_instance;
    return NVML_SUCCESS;
}

/* Callers of the first version own a struct that ends before the instance ids. */
FG_API nvmlEventSetWait(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms)
{
    nvmlEventData_t whole;
    FG_REQUIRE(fg_active() == NULL || data != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_TRY(nvmlEventSetWait_v2(handle, &whole, timeout_ms));
    memcpy(data, &whole, offsetof(nvmlEventData_t, gpuInstanceId));
    return NVML_SUCCESS;
}

FG_API nvmlEventSetWait_v3(nvmlEventSet_t handle, nvmlEventSetWait_v3_t *parameters)
{
    struct fg_event event;
    FG_ENTER_SYSTEM(open_set_of(handle) != NULL && parameters != NULL);
    unsigned int timeout_ms = parameters->timeoutMs;
    FG_TRY(wait_for_event(handle, &segment->ring, timeout_ms, &event));
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
