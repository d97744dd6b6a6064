/* Rules: calls that are slow, fail, or both, by the name of their function. */
#ifndef FAKEGPU_RULES_H
#define FAKEGPU_RULES_H

#include "nvml/api.h"

/* What nvmlInit meets: NVML_SUCCESS, or the error with which it shall end. */
nvmlReturn_t fg_meet_rules(const struct fg_segment *segment, unsigned int gpu, const char *function);

#endif
