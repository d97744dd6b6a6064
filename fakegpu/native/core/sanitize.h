/* What a copy of a GPU's state must not hold, so that no reader goes astray: any process of the machine may write the
 * file. A copy is put right when it is made, by fg_read. See sanitize.c. */
#ifndef FAKEGPU_SANITIZE_H
#define FAKEGPU_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/layout.h"

#define FG_IS_TOPIC(name) (offset == offsetof(struct fg_gpu_state, name) && size == sizeof(((struct fg_gpu_state *)0)->name))

void fg_sanitize_mig(struct fg_mig *mig);
void fg_sanitize_state(struct fg_gpu_state *state);

/* Whether a sanitized state has the texts and the address that a machine is made with; else somebody wrote over it. */
bool fg_is_sound(const struct fg_gpu_state *state);

/* Ends texts, and limits what readers use as a count, an index or a divisor. The compiler chooses what of this a copy of
 * one member needs. */
static inline void fg_sanitize(size_t offset, size_t size, void *copy)
{
    if (offset == 0 && size == sizeof(struct fg_gpu_state))
        fg_sanitize_state(copy);
    else if (FG_IS_TOPIC(mig))
        fg_sanitize_mig(copy);
    else if (FG_IS_TOPIC(identity))
        ((struct fg_identity *)copy)->uuid[sizeof((struct fg_identity *)0)->uuid - 1] = '\0';
    else if (FG_IS_TOPIC(identity.uuid))
        ((char *)copy)[size - 1] = '\0';
    else if (FG_IS_TOPIC(processes) && ((struct fg_processes *)copy)->count > FG_PROCESSES_MAX)
        ((struct fg_processes *)copy)->count = FG_PROCESSES_MAX;
}

#endif
