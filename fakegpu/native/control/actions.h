/* What can happen to a GPU: faults, the end of faults, and events without either. The owner of the machine does it at
 * once, a plan when it is due. */
#ifndef FAKEGPU_ACTIONS_H
#define FAKEGPU_ACTIONS_H

#include "core/layout.h"

/* Applies the action and posts its event, as of `now_us`. 0, or -1 when no such action or GPU exists. The caller holds
 * the lock of writers. */
int fg_act(struct fg_segment *segment, const struct fg_action *action, uint64_t now_us);

#endif
