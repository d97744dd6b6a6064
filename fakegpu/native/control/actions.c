/* What each action changes in the state of its GPU, and the event it posts. */
#include "control/actions.h"
#include "core/mapping.h"
#include "core/ring.h"
#include "core/state_io.h"

#define XID_ROW_REMAPPED 63u
#define HOT_REASONS (nvmlClocksThrottleReasonHwSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown)

/* What to post after the change; `type` 0: nothing. */
struct news {
    uint64_t type;
    uint64_t data;
};

static struct news note_xid(struct fg_gpu_state *state, uint64_t xid)
{
    state->fault.last_xid = (uint32_t)xid;
    state->fault.xid_count++;
    return (struct news){nvmlEventTypeXidCriticalError, xid};
}

static struct news lose(struct fg_gpu_state *state, uint64_t xid)
{
    state->fault.is_lost = 1;
    return xid != 0 ? note_xid(state, xid) : (struct news){FG_EVENT_GPU_LOST, 0};
}

static void put_back(struct fg_gpu_state *state)
{
    state->fault.is_lost = 0;
    state->fault.is_unplugged = 0;
}

static struct news count_ecc(struct fg_gpu_state *state, nvmlMemoryErrorType_t error, uint64_t count)
{
    if (!state->ecc.is_supported || !state->ecc.current)
        return (struct news){0, 0};
    state->ecc.errors[error][NVML_VOLATILE_ECC][NVML_MEMORY_LOCATION_DEVICE_MEMORY] += count;
    state->ecc.errors[error][NVML_AGGREGATE_ECC][NVML_MEMORY_LOCATION_DEVICE_MEMORY] += count;
    bool is_corrected = error == NVML_MEMORY_ERROR_TYPE_CORRECTED;
    return (struct news){is_corrected ? nvmlEventTypeSingleBitEccError : nvmlEventTypeDoubleBitEccError, 0};
}

static struct news retire(struct fg_gpu_state *state, uint64_t count)
{
    if (state->remap.is_supported) {
        state->remap.uncorrected_rows += (uint32_t)count;
        state->remap.is_pending = 1;
    } else {
        state->remap.retired_pages[NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR] += (uint32_t)count;
        state->remap.is_pending = 1;
    }
    return note_xid(state, XID_ROW_REMAPPED);
}

static struct news throttle(struct fg_gpu_state *state)
{
    struct fg_fault *fault = &state->fault;
    if (fault->is_throttled)
        return (struct news){0, 0};
    fault->is_throttled = 1;
    fault->cool_gpu_c = state->thermal.gpu_c;
    fault->cool_memory_c = state->thermal.memory_c;
    fault->cool_event_reasons = state->clocks.event_reasons;
    for (unsigned int domain = 0; domain < FG_CLOCK_DOMAINS; domain++)
        fault->cool_mhz[domain] = state->clocks.current_mhz[domain];
    int slowdown = state->thermal.threshold_c[NVML_TEMPERATURE_THRESHOLD_SLOWDOWN];
    int memory_max = state->thermal.threshold_c[NVML_TEMPERATURE_THRESHOLD_MEM_MAX];
    state->thermal.gpu_c = slowdown >= 0 ? (uint32_t)slowdown + 1u : state->thermal.gpu_c;
    state->thermal.memory_c = memory_max >= 0 ? (uint32_t)memory_max : state->thermal.memory_c;
    state->clocks.current_mhz[NVML_CLOCK_GRAPHICS] = state->clocks.graphics_min_mhz;
    state->clocks.current_mhz[NVML_CLOCK_SM] = state->clocks.graphics_min_mhz;
    state->clocks.event_reasons = HOT_REASONS;
    return (struct news){nvmlEventTypeClock, 0};
}

static struct news cool(struct fg_gpu_state *state)
{
    struct fg_fault *fault = &state->fault;
    if (!fault->is_throttled)
        return (struct news){0, 0};
    fault->is_throttled = 0;
    state->thermal.gpu_c = fault->cool_gpu_c;
    state->thermal.memory_c = fault->cool_memory_c;
    state->clocks.event_reasons = fault->cool_event_reasons;
    for (unsigned int domain = 0; domain < FG_CLOCK_DOMAINS; domain++)
        state->clocks.current_mhz[domain] = fault->cool_mhz[domain];
    return (struct news){nvmlEventTypeClock, 0};
}

/* A link that the board does not have, or that was down before the fault, stays as it is. */
static void switch_links(struct fg_gpu_state *state, uint64_t mask, bool is_up)
{
    for (unsigned int link = 0; link < state->nvlink.count && link < FG_LINKS_MAX; link++) {
        uint32_t bit = 1u << link;
        if ((mask & bit) == 0 || (is_up ? !(state->fault.links_down & bit) : !state->links[link].is_active))
            continue;
        state->links[link].is_active = is_up;
        state->fault.links_down ^= bit;
    }
}

static void heal(struct fg_gpu_state *state)
{
    put_back(state);
    cool(state);
    switch_links(state, UINT64_MAX, true);
    state->fault.last_xid = 0;
    state->fault.xid_count = 0;
    state->remap.is_pending = 0;
    for (unsigned int error = 0; error < NVML_MEMORY_ERROR_TYPE_COUNT; error++)
        for (unsigned int location = 0; location < FG_ECC_LOCATIONS; location++)
            state->ecc.errors[error][NVML_VOLATILE_ECC][location] = 0;
}

static struct news apply(struct fg_gpu_state *state, const struct fg_action *action)
{
    switch ((enum fg_action_kind)action->kind) {
    case FG_ACTION_HEAL: heal(state); break;
    case FG_ACTION_XID: return note_xid(state, action->argument);
    case FG_ACTION_LOSE: return lose(state, action->argument);
    case FG_ACTION_UNPLUG: state->fault.is_unplugged = 1; return lose(state, 0);
    case FG_ACTION_PLUG: put_back(state); break;
    case FG_ACTION_CORRECTED_ECC: return count_ecc(state, NVML_MEMORY_ERROR_TYPE_CORRECTED, action->argument);
    case FG_ACTION_UNCORRECTED_ECC: return count_ecc(state, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, action->argument);
    case FG_ACTION_RETIRE: return retire(state, action->argument);
    case FG_ACTION_THROTTLE: return throttle(state);
    case FG_ACTION_COOL: return cool(state);
    case FG_ACTION_LINKS_DOWN: switch_links(state, action->argument, false); break;
    case FG_ACTION_LINKS_UP: switch_links(state, action->argument, true); break;
    case FG_ACTION_EVENT: return (struct news){action->argument, 0};
    }
    return (struct news){0, 0};
}

int fg_act(struct fg_segment *segment, const struct fg_action *action, uint64_t now_us)
{
    struct fg_gpu_state state;
    if (action->kind < FG_ACTION_HEAL || action->kind > FG_ACTION_EVENT)
        return -1;
    if (action->gpu >= fg_gpu_count(segment) || fg_read_state(&segment->gpus[action->gpu], &state) != NVML_SUCCESS)
        return -1;
    struct news news = apply(&state, action);
    fg_write_state(&segment->gpus[action->gpu], &state);
    struct fg_event event = {
        .type = news.type,
        .data = news.data,
        .gpu = action->gpu,
        .gpu_instance = action->gpu_instance,
        .compute_instance = action->compute_instance,
        .timestamp_us = now_us,
    };
    if (news.type != 0)
        fg_post(segment, &event);
    /* A page or row that is retired has an event type of its own, besides its XID. */
    event.type = nvmlEventTypeDramRetirementEvent;
    event.data = 0;
    if (action->kind == FG_ACTION_RETIRE)
        fg_post(segment, &event);
    return 0;
}
