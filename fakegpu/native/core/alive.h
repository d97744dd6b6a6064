/* Which of the processes entered on a GPU still run, by /proc. */
#ifndef FAKEGPU_ALIVE_H
#define FAKEGPU_ALIVE_H

#include "core/state_io.h"

/* Whether the process of an entry is still there. */
bool fg_is_alive(const struct fg_process *process);

/* Copies the entries whose process is still there, of a lost GPU too. Reads a file below /proc for each entry. */
nvmlReturn_t fg_processes_alive(const struct fg_gpu *gpu, struct fg_processes *alive);

#endif
