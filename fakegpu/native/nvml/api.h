/* What every topic shares: the export macros, the check of the session and of handles, and the lock-free read.
 *
 * An exported function checks in NVML's order: library initialised, handle and pointers valid, GPU present, feature
 * supported. The macros below return from the calling function when a step fails, so that a getter reads as the list
 * of these steps.
 */
#ifndef FAKEGPU_NVML_API_H
#define FAKEGPU_NVML_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "core/live.h"
#include "core/state.h"

/* generate_exports.py finds implemented functions by these macros: FG_API name(, FG_GETTER(name, FG_ALIAS(name. */
#define FG_API __attribute__((visibility("default"))) nvmlReturn_t
#define FG_ALIAS(function, target)                                                                                     \
    extern __typeof__(target) function __attribute__((visibility("default"), alias(#target)))

/* The segment between nvmlInit and the last nvmlShutdown, else NULL. */
extern const struct fg_segment *fg_session;

/* A write replaces the copy in force in well under a microsecond, so only a storm of writes makes a reader retry. */
#define FG_READ_ATTEMPTS 1000000u

/* What a getter seldom does is kept out of its own code, which then needs fewer registers. */
#define FG_APART __attribute__((noinline))

#ifdef __clang__
#define FG_UNROLL _Pragma("unroll")
#else
#define FG_UNROLL _Pragma("GCC unroll 16")
#endif

typedef uint64_t __attribute__((may_alias)) fg_word;

static inline const struct fg_segment *fg_active(void)
{
    return __atomic_load_n(&fg_session, __ATOMIC_ACQUIRE);
}

/* The GPU behind a handle, NULL for anything that is not one of this session's handles. */
static inline const struct fg_gpu *fg_gpu_of(const struct fg_segment *segment, nvmlDevice_t device)
{
    uintptr_t offset = (uintptr_t)device - (uintptr_t)segment->gpus;
    if (offset % sizeof(struct fg_gpu) != 0 || offset / sizeof(struct fg_gpu) >= segment->gpu_count)
        return NULL;
    const struct fg_gpu *gpu = (const struct fg_gpu *)device;
    if (gpu == NULL)
        __builtin_unreachable(); /* so that callers need not look twice */
    return gpu;
}

static inline nvmlDevice_t fg_handle_of(const struct fg_gpu *gpu)
{
    return (nvmlDevice_t)(uintptr_t)gpu;
}

static inline unsigned int fg_index_of(const struct fg_segment *segment, const struct fg_gpu *gpu)
{
    return (unsigned int)(gpu - segment->gpus);
}

/* Copies part of a GPU's state. All words of the copy come from the same write, and `is_lost` as well. */
static inline nvmlReturn_t fg_read(const struct fg_gpu *gpu, size_t offset, void *out, size_t size, bool *is_lost)
{
    for (unsigned int attempt = 0; attempt < FG_READ_ATTEMPTS; attempt++) {
        uint32_t sequence = __atomic_load_n(&gpu->sequence, __ATOMIC_ACQUIRE);
        const struct fg_gpu_state *state = &gpu->states[sequence & 1u];
        const fg_word *source = (const fg_word *)((const char *)state + offset);
        FG_UNROLL
        for (size_t word = 0; word < size / sizeof(fg_word); word++)
            ((fg_word *)out)[word] = __atomic_load_n(&source[word], __ATOMIC_RELAXED);
        *is_lost = __atomic_load_n(&state->fault.is_lost, __ATOMIC_RELAXED) != 0;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__builtin_expect(__atomic_load_n(&gpu->sequence, __ATOMIC_RELAXED) == sequence, 1))
            return NVML_SUCCESS;
    }
    return NVML_ERROR_UNKNOWN;
}

static inline nvmlReturn_t fg_read_present(const struct fg_gpu *gpu, size_t offset, void *out, size_t size)
{
    bool is_lost;
    nvmlReturn_t result = fg_read(gpu, offset, out, size, &is_lost);
    return result == NVML_SUCCESS && is_lost ? NVML_ERROR_GPU_IS_LOST : result;
}

/* Whether a copy of what `bits` tell of is not as set, because the GPU works. */
static inline bool fg_is_live(const struct fg_gpu *gpu, uint32_t bits)
{
    return __builtin_expect((bits & __atomic_load_n(&gpu->live_topics, __ATOMIC_RELAXED)) != 0, 0);
}

#define FG_REQUIRE(condition, error)                                                                                   \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0))                                                                         \
            return (error);                                                                                            \
    } while (0)

#define FG_TRY(call)                                                                                                   \
    do {                                                                                                               \
        nvmlReturn_t fg_try_result = (call);                                                                           \
        if (__builtin_expect(fg_try_result != NVML_SUCCESS, 0))                                                        \
            return fg_try_result;                                                                                      \
    } while (0)

/* What the faults of a machine do to one call; `gpu` may be NULL. NVML_SUCCESS: the call goes on. */
nvmlReturn_t fg_meet_faults(const struct fg_segment *segment, const struct fg_gpu *gpu, const char *function);

#define FG_MEET_FAULTS(segment, gpu)                                                                                   \
    do {                                                                                                               \
        if (__builtin_expect(__atomic_load_n(&(segment)->fault_flags, __ATOMIC_RELAXED) != 0, 0))                      \
            FG_TRY(fg_meet_faults((segment), (gpu), __func__));                                                        \
    } while (0)

#define FG_ENTER_SESSION                                                                                               \
    const struct fg_segment *segment = fg_active();                                                                    \
    FG_REQUIRE(segment != NULL, NVML_ERROR_UNINITIALIZED)

/* Step 1: declares `segment`, the session's. */
#define FG_ENTER_SYSTEM(arguments_are_valid)                                                                           \
    FG_ENTER_SESSION;                                                                                                  \
    FG_REQUIRE(arguments_are_valid, NVML_ERROR_INVALID_ARGUMENT);                                                      \
    FG_MEET_FAULTS(segment, NULL)

/* Why a handle is no GPU's: NOT_SUPPORTED for a MIG device's, else INVALID_ARGUMENT. */
nvmlReturn_t fg_refuse_handle(const struct fg_segment *segment, nvmlDevice_t device);

/* Steps 1 and 2: declares `segment` and `gpu`. */
#define FG_ENTER(device, arguments_are_valid)                                                                          \
    FG_ENTER_SESSION;                                                                                                  \
    const struct fg_gpu *gpu = fg_gpu_of(segment, (device));                                                           \
    FG_REQUIRE(gpu != NULL, fg_refuse_handle(segment, (device)));                                                      \
    FG_REQUIRE(arguments_are_valid, NVML_ERROR_INVALID_ARGUMENT);                                                      \
    FG_MEET_FAULTS(segment, gpu)

/* Structs that name their version are refused with any other one. */
#define FG_REQUIRE_VERSION(pointer, expected)                                                                          \
    FG_REQUIRE((pointer)->version == (expected), NVML_ERROR_ARGUMENT_VERSION_MISMATCH)

/* Step 3: declares `copy`, a consistent copy of one member of the state (`thermal`, `identity.name`, …). */
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

/* The same for what a driver remembers of a GPU that has fallen off the bus. */
#define FG_READ_EVEN_IF_LOST(gpu, member, copy)                                                                        \
    __typeof__(((struct fg_gpu_state *)0)->member) copy;                                                               \
    bool copy##_is_lost;                                                                                               \
    FG_TRY(fg_read((gpu), offsetof(struct fg_gpu_state, member), &copy, sizeof copy, &copy##_is_lost))

/* A whole getter of one number: `value` and `is_supported` are expressions over `topic`. */
#define FG_GETTER(function, type, topic, is_supported, value)                                                          \
    FG_API function(nvmlDevice_t device, type *result)                                                                 \
    {                                                                                                                  \
        FG_ENTER(device, result != NULL);                                                                              \
        FG_READ(gpu, topic, topic);                                                                                    \
        FG_REQUIRE(is_supported, NVML_ERROR_NOT_SUPPORTED);                                                            \
        *result = (type)(value);                                                                                       \
        return NVML_SUCCESS;                                                                                           \
    }

/* Answers with a text of at most `size` bytes as NVML does: all of it with its end, or INSUFFICIENT_SIZE. */
nvmlReturn_t fg_answer_text(const char *text, size_t size, char *out, unsigned int length);

/* The same with all of an array. */
#define FG_ANSWER_TEXT(array, out, length) fg_answer_text((array), sizeof(array), (out), (length))

#endif
