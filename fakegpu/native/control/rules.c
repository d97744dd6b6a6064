/* Which rules apply to a call, and what they do.
 *
 * A process counts the calls that match a rule, and what happens to the n-th of them follows from the rule's
 * seed and n alone: the same program has the same faults every time, whatever other processes do.
 */
#define _GNU_SOURCE
#include "control/rules.h"
#include "control/plans.h"
#include "core/clock.h"
#include "core/segment.h"
#include "core/state_io.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* Calls of this process that matched the rule in each slot. */
static struct {
    uint64_t number; /* of the rule that is counted */
    uint64_t calls;
    uint64_t spent; /* of `left` of a rule, where the segment cannot be written */
} counts[FG_RULES_MAX];

static bool copy_rule(const struct fg_rule *rule, struct fg_rule *copy)
{
    uint64_t number = __atomic_load_n(&rule->number, __ATOMIC_ACQUIRE);
    if (number == 0)
        return false;
    for (size_t word = 0; word < sizeof *copy / sizeof(fg_word); word++)
        ((fg_word *)copy)[word] = __atomic_load_n((const fg_word *)rule + word, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    copy->number = number;
    return __atomic_load_n(&rule->number, __ATOMIC_RELAXED) == number;
}

/* "nvmlDeviceGet*" means all that begin so; a name without version means all of its versions. */
static bool is_named(const char pattern[sizeof((struct fg_rule *)0)->function], const char *function)
{
    size_t length = strnlen(pattern, sizeof((struct fg_rule *)0)->function);
    if (length > 0 && pattern[length - 1] == '*')
        return strncmp(pattern, function, length - 1) == 0;
    if (strncmp(pattern, function, length) != 0)
        return false;
    const char *rest = function + length;
    return *rest == '\0' || (strncmp(rest, "_v", 2) == 0 && rest[2] >= '0' && rest[2] <= '9' && rest[3] == '\0');
}

static bool matches(const struct fg_rule *rule, unsigned int gpu, const char *function, uint64_t now_us)
{
    return (rule->gpu == FG_NO_GPU || rule->gpu == gpu) && rule->from_us <= now_us && now_us < rule->until_us &&
           is_named(rule->function, function);
}

static uint64_t call_number(unsigned int slot, uint64_t rule)
{
    uint64_t counted = __atomic_load_n(&counts[slot].number, __ATOMIC_ACQUIRE);
    if (counted != rule && __atomic_compare_exchange_n(&counts[slot].number, &counted, rule, false, __ATOMIC_ACQ_REL,
                                                       __ATOMIC_RELAXED)) {
        __atomic_store_n(&counts[slot].calls, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&counts[slot].spent, 0, __ATOMIC_RELAXED);
    }
    return __atomic_add_fetch(&counts[slot].calls, 1u, __ATOMIC_RELAXED);
}

/* Source: the finaliser of splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t drawn(uint64_t seed, uint64_t number)
{
    uint64_t value = seed + number * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static uint64_t delay_us(const struct fg_rule *rule, uint32_t share)
{
    uint64_t last_share = 0, last_us = rule->delay_us[0];
    for (unsigned int point = 0; point < rule->delay_count && point < FG_DELAY_POINTS; point++) {
        uint64_t next_share = rule->delay_share[point], next_us = rule->delay_us[point];
        next_us = next_us > last_us ? next_us : last_us;
        if (share <= next_share && next_share > last_share)
            return last_us + (next_us - last_us) * (share - last_share) / (next_share - last_share);
        last_share = next_share;
        last_us = next_us;
    }
    return last_us;
}

static void sleep_us(uint64_t microseconds)
{
    struct timespec rest = {(time_t)(microseconds / 1000000u), (long)(microseconds % 1000000u) * 1000L};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR)
        ;
}

/* Takes one of the times that are left of the rule, for all processes together; where the segment cannot be written,
 * each process has its own count of them. */
static bool take_one(const struct fg_segment *segment, unsigned int slot, const struct fg_rule *rule)
{
    struct fg_writable writable;
    if (rule->left == FG_FOR_EVER)
        return true;
    if (fg_writable_open(segment, &writable) != NVML_SUCCESS)
        return __atomic_add_fetch(&counts[slot].spent, 1u, __ATOMIC_RELAXED) <= rule->left;
    struct fg_rule *target = &writable.segment->faults.rules[slot];
    bool is_left = target->number == rule->number && target->left > 0;
    if (is_left)
        __atomic_sub_fetch(&target->left, 1u, __ATOMIC_RELAXED);
    if (is_left && target->left == 0)
        fg_remove_rule(writable.segment, rule->number);
    fg_writable_close(&writable);
    return is_left;
}

static nvmlReturn_t apply(const struct fg_segment *segment, unsigned int slot, const struct fg_rule *rule)
{
    uint64_t number = call_number(slot, rule->number);
    uint64_t chance = drawn(rule->seed, number);
    bool is_hit = rule->every != 0 ? number % rule->every == 0 : (uint32_t)chance <= rule->chance;
    if (!is_hit || !take_one(segment, slot, rule))
        return NVML_SUCCESS;
    if (rule->delay_count > 0)
        sleep_us(delay_us(rule, (uint32_t)(chance >> 32)));
    return (nvmlReturn_t)rule->error;
}

static nvmlReturn_t apply_rules(const struct fg_segment *segment, unsigned int gpu, const char *function)
{
    uint64_t now_us = fg_now_us();
    for (unsigned int slot = 0; slot < FG_RULES_MAX; slot++) {
        struct fg_rule rule;
        if (copy_rule(&segment->faults.rules[slot], &rule) && matches(&rule, gpu, function, now_us))
            FG_TRY(apply(segment, slot, &rule));
    }
    return NVML_SUCCESS;
}

nvmlReturn_t fg_apply_faults(const struct fg_segment *segment, const struct fg_gpu *gpu, const char *function)
{
    uint32_t flags = __atomic_load_n(&segment->fault_flags, __ATOMIC_ACQUIRE);
    if (flags & FG_FAULT_PLANS)
        fg_keep_plans(segment);
    if ((flags & FG_FAULT_RULES) == 0)
        return NVML_SUCCESS;
    return apply_rules(segment, gpu == NULL ? FG_NO_GPU : fg_index_of(segment, gpu), function);
}

static bool has_rules(const struct fg_faults *faults)
{
    for (unsigned int slot = 0; slot < FG_RULES_MAX; slot++)
        if (faults->rules[slot].number != 0)
            return true;
    return false;
}

uint64_t fg_add_rule(struct fg_segment *segment, const struct fg_rule *rule)
{
    struct fg_faults *faults = &segment->faults;
    for (unsigned int slot = 0; slot < FG_RULES_MAX; slot++) {
        struct fg_rule *target = &faults->rules[slot];
        if (target->number != 0)
            continue;
        for (size_t word = 1; word < sizeof *rule / sizeof(fg_word); word++)
            __atomic_store_n((fg_word *)target + word, ((const fg_word *)rule)[word], __ATOMIC_RELAXED);
        __atomic_store_n(&target->number, ++faults->last_number, __ATOMIC_RELEASE);
        fg_set_flag(segment, FG_FAULT_RULES, true);
        return faults->last_number;
    }
    return 0;
}

int fg_remove_rule(struct fg_segment *segment, uint64_t number)
{
    for (unsigned int slot = 0; slot < FG_RULES_MAX; slot++) {
        struct fg_rule *rule = &segment->faults.rules[slot];
        if (number == 0 || rule->number != number)
            continue;
        __atomic_store_n(&rule->number, 0, __ATOMIC_RELAXED);
        /* A reader that sees a word of the next rule in this slot also sees that this one is gone. */
        __atomic_thread_fence(__ATOMIC_RELEASE);
        fg_set_flag(segment, FG_FAULT_RULES, has_rules(&segment->faults));
        return 0;
    }
    return -1;
}
