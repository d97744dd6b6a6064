/* The writing side, for the owner of a machine (Python calls it through ctypes). Not part of NVML.
 *
 * The caller maps the segment for reading and writing and holds an exclusive flock(2) on its file during every call.
 */
#ifndef FAKEGPU_WRITER_H
#define FAKEGPU_WRITER_H

#include <stdbool.h>

#include "core/state.h"

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

/* The same with the figures of this moment: of its load, its processes and its energy, of a lost GPU, too. */
FG_EXPORT int fakegpu_read_live(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state);

/* Brings the energy counter of a copy of the state up to this moment; before a change of what the GPU draws. 0, or -1
 * when `gpu` is out of range. */
FG_EXPORT int fakegpu_count_energy(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state);

/* Puts one GPU's state in force at once, for every reader. 0, or -1 when `gpu` is out of range. */
FG_EXPORT int fakegpu_write_state(struct fg_segment *segment, uint32_t gpu, const struct fg_gpu_state *state);

/* Posts an event as of now and wakes every waiter; ticket and timestamp of `news` are not looked at. 0, or -1 when the
 * GPU is out of range or the type is not one bit. */
FG_EXPORT int fakegpu_post_event(struct fg_segment *segment, const struct fg_event *news);

/* Does an action at once. 0, or -1 when no such action or GPU exists. */
FG_EXPORT int fakegpu_act(struct fg_segment *segment, const struct fg_action *action);

/* Carries out the plans that are due. */
FG_EXPORT void fakegpu_keep_plans(struct fg_segment *segment);

/* Adds a plan or a rule, whose number it gets; 0: there is no room. */
FG_EXPORT uint64_t fakegpu_add_plan(struct fg_segment *segment, const struct fg_plan *plan);
FG_EXPORT uint64_t fakegpu_add_rule(struct fg_segment *segment, const struct fg_rule *rule);

/* 0, or -1 when there is none of this number. */
FG_EXPORT int fakegpu_remove_plan(struct fg_segment *segment, uint64_t number);
FG_EXPORT int fakegpu_remove_rule(struct fg_segment *segment, uint64_t number);

/* Lets every wait for events hang, whatever its timeout; or lets them go. */
FG_EXPORT void fakegpu_stick_waits(struct fg_segment *segment, int is_stuck);

/* Takes processes that have ended off a GPU, and `pid` whether it has or not; accounting remembers them. 0, or -1 when
 * the GPU is out of range. */
FG_EXPORT int fakegpu_end_processes(struct fg_segment *segment, uint32_t gpu, uint32_t pid);

/* For our own sources: the parts of the above. */
void fg_post(struct fg_segment *segment, const struct fg_event *news);
void fg_wake(struct fg_segment *segment);
void fg_set_flag(struct fg_segment *segment, uint32_t flag, bool is_set);

#endif
