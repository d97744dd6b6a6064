/* The functions of writer.h: each checks its arguments and calls the part of the library that does the work. */
#include "control/writer.h"
#include "control/accounts.h"
#include "control/actions.h"
#include "control/capabilities.h"
#include "control/mig_rules.h"
#include "control/plans.h"
#include "control/rules.h"
#include "core/clock.h"
#include "core/live.h"
#include "core/mapping.h"
#include "core/ring.h"

static int status_of(nvmlReturn_t result)
{
    return result == NVML_SUCCESS ? 0 : -1;
}

FG_EXPORT int fakegpu_add_mapping(const struct fg_segment *segment, uint32_t gpus)
{
    return fg_mapping_add(segment, gpus) ? 0 : -1;
}

FG_EXPORT void fakegpu_remove_mapping(const struct fg_segment *segment)
{
    fg_mapping_remove(segment);
}

/* A copy of a state as a status: -2 where somebody wrote over it. */
static int status_of_copy(nvmlReturn_t result, const struct fg_gpu_state *state)
{
    return result != NVML_SUCCESS ? -1 : fg_is_sound(state) ? 0 : -2;
}

FG_EXPORT int fakegpu_read_state(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    if (gpu >= fg_gpu_count(segment))
        return -1;
    return status_of_copy(fg_read_state(&segment->gpus[gpu], state), state);
}

FG_EXPORT int fakegpu_read_live(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    if (gpu >= fg_gpu_count(segment))
        return -1;
    return status_of_copy(fg_read_live(&segment->gpus[gpu], state), state);
}

FG_EXPORT int fakegpu_count_energy(const struct fg_segment *segment, uint32_t gpu, struct fg_gpu_state *state)
{
    return gpu < fg_gpu_count(segment) ? status_of(fg_count_energy(&segment->gpus[gpu], &state->power)) : -1;
}

FG_EXPORT int fakegpu_write_state(struct fg_segment *segment, uint32_t gpu, const struct fg_gpu_state *state)
{
    if (gpu >= fg_gpu_count(segment))
        return -1;
    fg_write_state(&segment->gpus[gpu], state);
    return 0;
}

FG_EXPORT int fakegpu_post_event(struct fg_segment *segment, const struct fg_event *event)
{
    if (event->gpu >= fg_gpu_count(segment) || __builtin_popcountll(event->type) != 1)
        return -1;
    struct fg_event stamped = *event;
    stamped.timestamp_us = fg_now_us();
    fg_post(segment, &stamped);
    return 0;
}

FG_EXPORT int fakegpu_act(struct fg_segment *segment, const struct fg_action *action)
{
    return fg_act(segment, action, fg_now_us());
}

FG_EXPORT void fakegpu_keep_plans(struct fg_segment *segment)
{
    fg_carry_out_plans(segment);
}

FG_EXPORT uint64_t fakegpu_add_plan(struct fg_segment *segment, const struct fg_plan *plan)
{
    return fg_add_plan(segment, plan);
}

FG_EXPORT uint64_t fakegpu_add_rule(struct fg_segment *segment, const struct fg_rule *rule)
{
    return fg_add_rule(segment, rule);
}

FG_EXPORT int fakegpu_remove_plan(struct fg_segment *segment, uint64_t number)
{
    return fg_remove_plan(segment, number);
}

FG_EXPORT int fakegpu_remove_rule(struct fg_segment *segment, uint64_t number)
{
    return fg_remove_rule(segment, number);
}

FG_EXPORT void fakegpu_stick_waits(struct fg_segment *segment, int is_stuck)
{
    fg_set_flag(segment, FG_FAULT_WAIT, is_stuck != 0);
    fg_wake(segment);
}

FG_EXPORT int fakegpu_end_processes(struct fg_segment *segment, uint32_t gpu, uint32_t pid)
{
    return gpu < fg_gpu_count(segment) ? status_of(fg_end_processes(&segment->gpus[gpu], pid)) : -1;
}

FG_EXPORT int fakegpu_mig_create(struct fg_gpu_state *state, uint32_t profile, uint32_t start, uint32_t *id)
{
    return (int)fg_mig_create(&state->mig, profile, start, id);
}

FG_EXPORT int fakegpu_mig_destroy(struct fg_gpu_state *state, uint32_t id)
{
    return (int)fg_mig_destroy(&state->mig, id);
}

FG_EXPORT int fakegpu_mig_create_compute(struct fg_gpu_state *state, uint32_t gpu_instance, uint32_t profile,
                                         uint32_t start, uint32_t *slot)
{
    return (int)fg_mig_create_compute(&state->mig, gpu_instance, profile, start, slot);
}

FG_EXPORT uint32_t fakegpu_mig_capacity(const struct fg_gpu_state *state, uint32_t profile)
{
    return fg_mig_capacity(&state->mig, profile);
}

FG_EXPORT void fakegpu_mig_device_name(const struct fg_gpu_state *state, uint32_t slot, char name[48])
{
    fg_mig_device_name(&state->mig, &state->mig.compute_instances[slot], name);
}

FG_EXPORT void fakegpu_mig_uuid(const struct fg_gpu_state *state, uint32_t slot, char uuid[48])
{
    fg_mig_uuid(state->identity.uuid, &state->mig.compute_instances[slot], uuid);
}

FG_EXPORT int fakegpu_mig_device_slot(const struct fg_gpu_state *state, uint32_t index)
{
    return fg_mig_device_slot(&state->mig, index);
}

FG_EXPORT uint32_t fakegpu_capability_minor(uint32_t gpu_minor, uint32_t instance, int32_t part)
{
    return fg_capability_minor(gpu_minor, instance, part);
}

FG_EXPORT int fakegpu_write_capabilities(const char *folder, const struct fg_gpu_state *state)
{
    return fg_write_capabilities(folder, state);
}
