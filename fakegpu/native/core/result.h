/* Functions return codes of NVML everywhere in the library; these macros return from the calling function with one. */
#ifndef FAKEGPU_RESULT_H
#define FAKEGPU_RESULT_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#define FG_REQUIRE(condition, error)                                                                                   \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0))                                                                         \
            return (error);                                                                                            \
    } while (0)

#define FG_TRY(call)                                                                                                   \
    do {                                                                                                               \
        nvmlReturn_t fg_try_result = (call);                                                                           \
        if (__builtin_expect(fg_try_result != NVML_SUCCESS, 0))                                                        \
            return fg_try_result;                                                                                      \
    } while (0)

#endif
