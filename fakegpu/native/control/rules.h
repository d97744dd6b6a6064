/* Rules: calls that are slow, fail, or both, by the name of their function. */
#ifndef FAKEGPU_RULES_H
#define FAKEGPU_RULES_H

#include "core/result.h"
#include "core/layout.h"

/* Carries out due plans and applies the rules to one call; `gpu` may be NULL. NVML_SUCCESS: the call continues. */
nvmlReturn_t fg_apply_faults(const struct fg_segment *segment, const struct fg_gpu *gpu, const char *function);

/* Adds a rule, whose number it returns; 0: there is no room. The caller of this and the next holds the lock of
 * writers. */
uint64_t fg_add_rule(struct fg_segment *segment, const struct fg_rule *rule);

/* 0, or -1 when there is none of this number. */
int fg_remove_rule(struct fg_segment *segment, uint64_t number);

#endif
