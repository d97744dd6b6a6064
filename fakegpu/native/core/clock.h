/* The clocks that times in the segment refer to. */
#ifndef FAKEGPU_CLOCK_H
#define FAKEGPU_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t fg_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Microseconds since 1970, for events, plans and rules. */
static inline uint64_t fg_now_us(void)
{
    return fg_clock_ns(CLOCK_REALTIME) / 1000u;
}

/* Nanoseconds since the host started, for loads, energy and timeouts. */
static inline uint64_t fg_monotonic_ns(void)
{
    return fg_clock_ns(CLOCK_MONOTONIC);
}

#endif
