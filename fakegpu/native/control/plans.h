/* Actions that are due at some time. No process keeps the clock: whoever looks at the machine carries out what has
 * fallen due before it goes on, and a wait for events sleeps no longer than until the next plan. */
#ifndef FAKEGPU_PLANS_H
#define FAKEGPU_PLANS_H

#include "control/actions.h"

#include <stdbool.h>

/* Now by CLOCK_REALTIME. */
uint64_t fg_now_us(void);

/* Carries out what is due. False when something is due that this process must not carry out, because it cannot write
 * the segment: then somebody else has to. */
bool fg_keep_plans(const struct fg_segment *segment);

/* When the next plan is due; UINT64_MAX: never. */
uint64_t fg_next_due_us(const struct fg_segment *segment);

#endif
