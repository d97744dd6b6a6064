/* What every topic shares: the export macros, and the checks that every function begins with.
 *
 * An exported function checks in NVML's order: library initialised, handle and pointers valid, GPU present, feature
 * supported. The macros below return from the calling function when a step fails, so that a getter reads as the list
 * of these steps.
 */
#ifndef FAKEGPU_NVML_API_H
#define FAKEGPU_NVML_API_H

#include "control/rules.h"
#include "core/live.h"
#include "nvml/handles.h"

/* generate_exports.py finds implemented functions by these macros: FG_API name(, FG_GETTER(name, FG_ALIAS(name. */
#define FG_API __attribute__((visibility("default"))) nvmlReturn_t
#define FG_ALIAS(function, target)                                                                                     \
    extern __typeof__(target) function __attribute__((visibility("default"), alias(#target)))

/* The segment between nvmlInit and the last nvmlShutdown, else NULL. */
extern const struct fg_segment *fg_session;

/* Keeps rare work out of the code of a getter, which then needs fewer registers. */
#define FG_APART __attribute__((noinline))

static inline const struct fg_segment *fg_active(void)
{
    return __atomic_load_n(&fg_session, __ATOMIC_ACQUIRE);
}

#define FG_APPLY_FAULTS(segment, gpu)                                                                                  \
    do {                                                                                                               \
        if (__builtin_expect(__atomic_load_n(&(segment)->fault_flags, __ATOMIC_RELAXED) != 0, 0))                      \
            FG_TRY(fg_apply_faults((segment), (gpu), __func__));                                                       \
    } while (0)

#define FG_ENTER_SESSION                                                                                               \
    const struct fg_segment *segment = fg_active();                                                                    \
    FG_REQUIRE(segment != NULL, NVML_ERROR_UNINITIALIZED)

/* Step 1: declares `segment`, the session's. */
#define FG_ENTER_SYSTEM(arguments_are_valid)                                                                           \
    FG_ENTER_SESSION;                                                                                                  \
    FG_REQUIRE(arguments_are_valid, NVML_ERROR_INVALID_ARGUMENT);                                                      \
    FG_APPLY_FAULTS(segment, NULL)

/* Steps 1 and 2: declares `segment` and `gpu`. */
#define FG_ENTER(device, arguments_are_valid)                                                                          \
    FG_ENTER_SESSION;                                                                                                  \
    const struct fg_gpu *gpu = fg_gpu_of(segment, (device));                                                           \
    FG_REQUIRE(gpu != NULL, fg_refuse_handle(segment, (device)));                                                      \
    FG_REQUIRE(arguments_are_valid, NVML_ERROR_INVALID_ARGUMENT);                                                      \
    FG_APPLY_FAULTS(segment, gpu)

/* Steps 1 and 2 for functions that take MIG devices as well as GPUs: declares `segment`, `gpu` and `slot`, which is
 * negative for a GPU and else the MIG device's place in state.mig.compute_instances. */
#define FG_ENTER_ANY(device, arguments_are_valid)                                                                      \
    FG_ENTER_SESSION;                                                                                                  \
    int slot = -1;                                                                                                     \
    const struct fg_gpu *gpu = fg_gpu_of(segment, (device));                                                           \
    if (__builtin_expect(gpu == NULL, 0)) {                                                                            \
        int fg_slot = -1; /* of its own, so that `slot` stays in a register */                                         \
        gpu = fg_mig_parent(segment, (device), &fg_slot);                                                              \
        slot = fg_slot;                                                                                                \
    }                                                                                                                  \
    FG_REQUIRE(gpu != NULL && (arguments_are_valid), NVML_ERROR_INVALID_ARGUMENT);                                     \
    FG_APPLY_FAULTS(segment, gpu)

#define FG_IS_MIG_DEVICE __builtin_expect(slot >= 0, 0)

/* Structs that name their version are refused with any other one. */
#define FG_REQUIRE_VERSION(pointer, expected)                                                                          \
    FG_REQUIRE((pointer)->version == (expected), NVML_ERROR_ARGUMENT_VERSION_MISMATCH)

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
