/* The writing side, for the owner of a machine (Python calls it through ctypes). Not part of NVML.
 *
 * The caller maps the segment for reading and writing and holds an exclusive flock(2) on its file during every call.
 */
#ifndef FAKEGPU_WRITER_H
#define FAKEGPU_WRITER_H

#include "state.h"

#define FG_EXPORT __attribute__((visibility("default")))

struct fg_layout_entry {
    const char *name; /* "fg_thermal.gpu_c", or "fg_thermal" for the whole */
    uint32_t offset;
    uint32_t size;
};

/* The compiled layout of every struct and member of state.h, ended by an entry without name. Generated. */
FG_EXPORT const struct fg_layout_entry *fakegpu_layout(void);

/* Names of the implemented NVML functions, separated by newlines. Generated. */
FG_EXPORT const char *fakegpu_implemented(void);

/* Copies one GPU's state in force. 0, or -1 when `gpu` is out of range. */
FG_EXPORT int fakegpu_read_state(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state);

/* Puts one GPU's state in force at once, for every reader. 0, or -1 when `gpu` is out of range. */
FG_EXPORT int fakegpu_write_state(struct fg_segment *segment, uint32_t gpu, const struct fg_gpu_state *state);

/* Posts an event of one GPU and wakes every waiter. 0, or -1 when `gpu` is out of range or `type` is not one bit. */
FG_EXPORT int fakegpu_post_event(struct fg_segment *segment, uint32_t gpu, uint64_t type, uint64_t data);

#endif
