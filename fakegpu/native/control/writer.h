/* What the owner of a machine calls (Python does, through ctypes). Not part of NVML.
 *
 * The caller maps the segment for reading and writing and holds an exclusive flock(2) on its file during every call.
 * A GPU is named by its index; functions that return an int return 0, and -1 when there is no such GPU, unless they say
 * otherwise.
 */
#ifndef FAKEGPU_WRITER_H
#define FAKEGPU_WRITER_H

#include "core/layout.h"

#define FG_EXPORT __attribute__((visibility("default")))

struct fg_layout_entry {
    const char *name; /* "fg_thermal.gpu_c", or "fg_thermal" for the whole */
    uint32_t offset;
    uint32_t size;
};

/* The compiled layout of every struct and member of state.h and layout.h, ended by an entry without name. Generated. */
FG_EXPORT const struct fg_layout_entry *fakegpu_layout(void);

/* Names of the implemented NVML functions, separated by newlines. Generated. */
FG_EXPORT const char *fakegpu_implemented(void);

/* Records a mapping of so many GPUs, before any other call with it, and forgets it, before it is unmapped: see
 * mapping.h. */
FG_EXPORT int fakegpu_add_mapping(const struct fg_segment *segment, uint32_t gpus);
FG_EXPORT void fakegpu_remove_mapping(const struct fg_segment *segment);

/* Copies one GPU's state in force. This and the next return -2 for a state that no machine is made with. */
FG_EXPORT int fakegpu_read_state(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state);

/* The same with the figures of this moment: of its load, its processes and its energy. */
FG_EXPORT int fakegpu_read_live(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state);

/* Brings the energy counter of a copy of the state up to this moment; before a change of what the GPU draws. */
FG_EXPORT int fakegpu_count_energy(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state);

/* Puts one GPU's state in force at once, for every reader. */
FG_EXPORT int fakegpu_write_state(struct fg_segment *segment, uint32_t gpu, const struct fg_gpu_state *state);

/* Posts an event as of now and wakes every waiter; ticket and timestamp of `event` are not read. -1 also when the type
 * is not one bit. */
FG_EXPORT int fakegpu_post_event(struct fg_segment *segment, const struct fg_event *event);

/* Applies an action at once. -1 also when no such action exists. */
FG_EXPORT int fakegpu_act(struct fg_segment *segment, const struct fg_action *action);

/* Carries out the plans that are due. */
FG_EXPORT void fakegpu_keep_plans(struct fg_segment *segment);

/* Adds a plan or a rule, whose number it returns; 0: there is no room. */
FG_EXPORT uint64_t fakegpu_add_plan(struct fg_segment *segment, const struct fg_plan *plan);
FG_EXPORT uint64_t fakegpu_add_rule(struct fg_segment *segment, const struct fg_rule *rule);

/* 0, or -1 when there is none of this number. */
FG_EXPORT int fakegpu_remove_plan(struct fg_segment *segment, uint64_t number);
FG_EXPORT int fakegpu_remove_rule(struct fg_segment *segment, uint64_t number);

/* Makes every wait for events hang, whatever its timeout, or ends that. */
FG_EXPORT void fakegpu_stick_waits(struct fg_segment *segment, int is_stuck);

/* Removes processes that have ended from a GPU, and `pid` whether it has ended or not; accounting records them. */
FG_EXPORT int fakegpu_end_processes(struct fg_segment *segment, uint32_t gpu, uint32_t pid);

/* The rules of partitioning, over a copy of a GPU's state: see mig_rules.h. The three that change the copy return an
 * nvmlReturn_t, the slot of a device is -1 when there are not so many. */
FG_EXPORT int fakegpu_mig_create(struct fg_gpu_state *state, uint32_t profile, uint32_t start, uint32_t *id);
FG_EXPORT int fakegpu_mig_destroy(struct fg_gpu_state *state, uint32_t id);
FG_EXPORT int fakegpu_mig_create_compute(struct fg_gpu_state *state, uint32_t gpu_instance, uint32_t profile,
                                         uint32_t start, uint32_t *slot);
FG_EXPORT uint32_t fakegpu_mig_capacity(const struct fg_gpu_state *state, uint32_t profile);
FG_EXPORT void fakegpu_mig_device_name(const struct fg_gpu_state *state, uint32_t slot, char name[48]);
FG_EXPORT void fakegpu_mig_uuid(const struct fg_gpu_state *state, uint32_t slot, char uuid[48]);
FG_EXPORT int fakegpu_mig_device_slot(const struct fg_gpu_state *state, uint32_t index);

/* The files by which a driver grants the use of MIG instances: see capabilities.h. */
FG_EXPORT uint32_t fakegpu_capability_minor(uint32_t gpu_minor, uint32_t instance, int32_t part);
FG_EXPORT int fakegpu_write_capabilities(const char *folder, const struct fg_gpu_state *state);

#endif
