/* Changing a GPU's state through NVML, which an administrator may do. It costs a few system calls: for setters. */
#ifndef FAKEGPU_CHANGE_H
#define FAKEGPU_CHANGE_H

#include "core/segment.h"
#include "nvml/api.h"

struct fg_change {
    struct fg_writable writable;
    uint32_t gpu;
    struct fg_gpu_state state; /* to be changed */
};

/* Begins with a copy of the state in force. NO_PERMISSION for users other than root, unless `anyone` may, and where the
 * file cannot be written. After success one of the two below must follow. */
nvmlReturn_t fg_change_begin(const struct fg_segment *segment, const struct fg_gpu *gpu, bool anyone,
                             struct fg_change *change);

/* Puts the changed state in force at once. */
nvmlReturn_t fg_change_commit(struct fg_change *change);

/* Ends the change without writing; returns `result`. */
nvmlReturn_t fg_change_abandon(struct fg_change *change, nvmlReturn_t result);

/* Step 5 of a setter: declares `change`. Between it and the commit nothing may return but fg_change_abandon. */
#define FG_CHANGE(gpu, change) FG_CHANGE_BY(gpu, change, false)

/* The same where an administrator permits it to `anyone`. */
#define FG_CHANGE_BY(gpu, change, anyone)                                                                              \
    struct fg_change change;                                                                                           \
    FG_TRY(fg_change_begin(segment, (gpu), (anyone), &change))

/* A whole setter of one number: `value` is the caller's, `is_valid` an expression over it. */
#define FG_SETTER(function, type, is_valid, topic, is_supported, member)                                               \
    FG_API function(nvmlDevice_t device, type value)                                                                   \
    {                                                                                                                  \
        FG_ENTER(device, is_valid);                                                                                    \
        FG_READ(gpu, topic, topic);                                                                                    \
        FG_REQUIRE(is_supported, NVML_ERROR_NOT_SUPPORTED);                                                            \
        FG_CHANGE(gpu, change);                                                                                        \
        change.state.topic.member = (__typeof__(change.state.topic.member))value;                                      \
        return fg_change_commit(&change);                                                                              \
    }

#define FG_IS_SWITCH(value) ((value) == NVML_FEATURE_DISABLED || (value) == NVML_FEATURE_ENABLED)

#endif
