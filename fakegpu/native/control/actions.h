/* What can befall a GPU: faults, their healing, and events without either. One place does it for whoever asks: the
 * machine's owner at once, or a plan when its time has come. */
#ifndef FAKEGPU_ACTIONS_H
#define FAKEGPU_ACTIONS_H

#include "core/state.h"

/* Numbers are part of the layout: `fakegpu/faults/actions.py` has the same. */
enum fg_action_kind {
    FG_ACTION_HEAL = 1,        /* everything below that lasts */
    FG_ACTION_XID,             /* argument: the number */
    FG_ACTION_LOSE,            /* argument: XID that tells of it; zero: waits end with NVML_ERROR_GPU_IS_LOST */
    FG_ACTION_UNPLUG,          /* lost, and not counted by whoever initialises from now on */
    FG_ACTION_PLUG,            /* ends UNPLUG */
    FG_ACTION_CORRECTED_ECC,   /* argument: errors of the memory */
    FG_ACTION_UNCORRECTED_ECC, /* argument: as before */
    FG_ACTION_RETIRE,          /* argument: rows to remap or pages to retire for uncorrected errors */
    FG_ACTION_THROTTLE,        /* hotter than the slowdown threshold */
    FG_ACTION_COOL,            /* ends THROTTLE */
    FG_ACTION_LINKS_DOWN,      /* argument: mask of links */
    FG_ACTION_LINKS_UP,        /* argument: as before */
    FG_ACTION_EVENT,           /* argument: one NVML event type */
};

/* Does it and posts its event, as of `now_us`. 0, or -1 when no such action or GPU exists. The caller holds
 * the lock of writers. */
int fg_act(struct fg_segment *segment, const struct fg_action *action, uint64_t now_us);

#endif
