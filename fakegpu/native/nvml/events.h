/* Event sets of this process over the machine's ring of events. */
#ifndef FAKEGPU_EVENTS_H
#define FAKEGPU_EVENTS_H

/* Frees every set; called with the last nvmlShutdown. */
void fg_event_sets_release(void);

#endif
