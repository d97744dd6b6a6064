/* Reading and writing the state of one GPU without a lock for readers. */
#ifndef FAKEGPU_STATE_IO_H
#define FAKEGPU_STATE_IO_H

#include <stdbool.h>

#include "core/result.h"
#include "core/layout.h"
#include "core/sanitize.h"

/* A write replaces the copy in force in well under a microsecond, so only a storm of writes makes a reader retry. */
#define FG_READ_ATTEMPTS 20000u

#ifdef __clang__
#define FG_UNROLL _Pragma("unroll")
#else
#define FG_UNROLL _Pragma("GCC unroll 16")
#endif

/* Copies part of a GPU's state as it is set. All words of the copy come from the same write, and `is_lost` as well. */
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
        if (__builtin_expect(__atomic_load_n(&gpu->sequence, __ATOMIC_RELAXED) == sequence, 1)) {
            fg_sanitize(offset, size, out);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_UNKNOWN;
}

static inline nvmlReturn_t fg_read_present(const struct fg_gpu *gpu, size_t offset, void *out, size_t size)
{
    bool is_lost;
    nvmlReturn_t result = fg_read(gpu, offset, out, size, &is_lost);
    return result == NVML_SUCCESS && is_lost ? NVML_ERROR_GPU_IS_LOST : result;
}

/* Declares `copy`, a consistent copy of one member of the state as it is set, of a lost GPU too: what a driver
 * still knows of a GPU that has fallen off the bus. */
#define FG_READ_EVEN_IF_LOST(gpu, member, copy)                                                                        \
    __typeof__(((struct fg_gpu_state *)0)->member) copy;                                                               \
    bool copy##_is_lost;                                                                                               \
    FG_TRY(fg_read((gpu), offsetof(struct fg_gpu_state, member), &copy, sizeof copy, &copy##_is_lost))

/* Copies the whole state as it is set, of a lost GPU too. */
nvmlReturn_t fg_read_state(const struct fg_gpu *gpu, struct fg_gpu_state *state);

/* Puts a whole state in force at once, for every reader. The caller holds the lock of writers. */
void fg_write_state(struct fg_gpu *gpu, const struct fg_gpu_state *state);

/* Sets or clears one FG_FAULT_* of the machine. */
void fg_set_flag(struct fg_segment *segment, uint32_t flag, bool is_set);

#endif
