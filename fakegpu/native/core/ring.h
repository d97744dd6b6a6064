/* The machine's ring of events: posting, and reading one of them. */
#ifndef FAKEGPU_RING_H
#define FAKEGPU_RING_H

#include <stdbool.h>

#include "core/layout.h"

/* Posts an event and wakes every waiter; its ticket is filled in. The caller holds the lock of writers. */
void fg_post(struct fg_segment *segment, const struct fg_event *event);

/* Wakes every waiter, so that it looks at the machine again. */
void fg_wake(struct fg_segment *segment);

/* Copies event `number`; false when a writer has begun to reuse its slot. */
bool fg_copy_event(const struct fg_ring *ring, uint64_t number, struct fg_event *copy);

#endif
