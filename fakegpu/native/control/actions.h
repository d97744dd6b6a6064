/* What can befall a GPU: faults, their healing, and events without either. One place does it for whoever asks: the
 * machine's owner at once, or a plan when its time has come. */
#ifndef FAKEGPU_ACTIONS_H
#define FAKEGPU_ACTIONS_H

#include "core/layout.h"

/* Does it and posts its event, as of `now_us`. 0, or -1 when no such action or GPU exists. The caller holds
 * the lock of writers. */
int fg_act(struct fg_segment *segment, const struct fg_action *action, uint64_t now_us);

#endif
