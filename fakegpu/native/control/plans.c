/* Plans: adding them, carrying them out, and the time of the next one. */
#include "control/plans.h"
#include "control/actions.h"
#include "core/clock.h"
#include "core/ring.h"
#include "core/segment.h"
#include "core/state_io.h"

static struct fg_plan *next_plan(struct fg_faults *faults)
{
    struct fg_plan *next = NULL;
    for (unsigned int slot = 0; slot < FG_PLANS_MAX; slot++) {
        struct fg_plan *plan = &faults->plans[slot];
        if (plan->number != 0 && (next == NULL || plan->due_us < next->due_us))
            next = plan;
    }
    return next;
}

static void publish_next_due(struct fg_segment *segment)
{
    const struct fg_plan *next = next_plan(&segment->faults);
    __atomic_store_n(&segment->faults.due_us, next == NULL ? FG_FOR_EVER : next->due_us, __ATOMIC_RELEASE);
    fg_set_flag(segment, FG_FAULT_PLANS, next != NULL);
}

/* After a long time without a process that carries plans out, only as many events are made up for as the ring holds. */
static void skip_what_the_ring_cannot_hold(struct fg_plan *plan, uint64_t now_us)
{
    if (plan->period_us == 0)
        return;
    uint64_t overdue = (now_us - plan->due_us) / plan->period_us + 1u;
    uint64_t skipped = overdue > FG_EVENTS_MAX ? overdue - FG_EVENTS_MAX : 0;
    if (skipped >= plan->left)
        skipped = plan->left - 1u;
    plan->due_us += skipped * plan->period_us;
    plan->left -= skipped;
}

void fg_carry_out_plans(struct fg_segment *segment)
{
    uint64_t now_us = fg_now_us();
    struct fg_plan *place;
    /* Another process may write into the plans meanwhile: all of this is over after as many actions as plans can ask. */
    for (unsigned int done = 0; done < FG_PLANS_MAX * FG_EVENTS_MAX; done++) {
        if ((place = next_plan(&segment->faults)) == NULL || place->due_us > now_us)
            break;
        struct fg_plan plan = *place;
        if (plan.due_us > now_us || plan.left == 0 || plan.period_us > FG_FOR_EVER - now_us) {
            place->number = 0; /* no such plan was ever added */
            continue;
        }
        skip_what_the_ring_cannot_hold(&plan, now_us);
        fg_act(segment, &plan.action, plan.due_us);
        plan.due_us += plan.period_us;
        if (plan.left != FG_FOR_EVER)
            plan.left--;
        if (plan.left == 0 || plan.period_us == 0)
            plan.number = 0;
        *place = plan;
    }
    publish_next_due(segment);
}

uint64_t fg_add_plan(struct fg_segment *segment, const struct fg_plan *plan)
{
    struct fg_faults *faults = &segment->faults;
    for (unsigned int slot = 0; slot < FG_PLANS_MAX; slot++) {
        if (faults->plans[slot].number != 0)
            continue;
        faults->plans[slot] = *plan;
        faults->plans[slot].number = ++faults->last_number;
        publish_next_due(segment);
        fg_wake(segment);
        return faults->last_number;
    }
    return 0;
}

int fg_remove_plan(struct fg_segment *segment, uint64_t number)
{
    for (unsigned int slot = 0; slot < FG_PLANS_MAX; slot++) {
        struct fg_plan *plan = &segment->faults.plans[slot];
        if (number == 0 || plan->number != number)
            continue;
        plan->number = 0;
        publish_next_due(segment);
        return 0;
    }
    return -1;
}

uint64_t fg_next_due_us(const struct fg_segment *segment)
{
    if ((__atomic_load_n(&segment->fault_flags, __ATOMIC_ACQUIRE) & FG_FAULT_PLANS) == 0)
        return FG_FOR_EVER;
    return __atomic_load_n(&segment->faults.due_us, __ATOMIC_ACQUIRE);
}

bool fg_keep_plans(const struct fg_segment *segment)
{
    if (fg_next_due_us(segment) > fg_now_us())
        return true;
    struct fg_writable writable;
    if (fg_writable_open(segment, &writable) != NVML_SUCCESS)
        return false;
    fg_carry_out_plans(writable.segment);
    fg_writable_close(&writable);
    return true;
}
