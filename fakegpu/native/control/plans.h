/* Actions that are due at some time. No process waits for them: a process that uses the machine first carries out what
 * is due, and a wait for events sleeps at most until the next plan. */
#ifndef FAKEGPU_PLANS_H
#define FAKEGPU_PLANS_H

#include <stdbool.h>

#include "core/layout.h"

/* Carries out what is due. The caller holds the lock of writers. */
void fg_carry_out_plans(struct fg_segment *segment);

/* The same for any process. False when something is due that this process must not carry out, because it cannot write
 * the segment: then another one has to. */
bool fg_keep_plans(const struct fg_segment *segment);

/* Adds a plan, whose number it returns; 0: there is no room. The caller of this and the next holds the lock. */
uint64_t fg_add_plan(struct fg_segment *segment, const struct fg_plan *plan);

/* 0, or -1 when there is none of this number. */
int fg_remove_plan(struct fg_segment *segment, uint64_t number);

/* When the next plan is due, or FG_FOR_EVER. */
uint64_t fg_next_due_us(const struct fg_segment *segment);

#endif
