/* The processes that hold memory of a GPU. */
#ifndef FAKEGPU_PROCESSES_H
#define FAKEGPU_PROCESSES_H

#include "nvml_api.h"

/* Copies the entries whose process is still there. Costs a look into /proc for each entry. */
nvmlReturn_t fg_processes_alive(const struct fg_gpu *gpu, struct fg_processes *alive);

#endif
