/* The floor under a getter of nvml_calls.py: a library that reads one word under a seqlock and does nothing else. */
#include <stdint.h>

struct record {
    uint32_t sequence;
    uint32_t padding;
    uint64_t value;
};

int seqlock_read(const struct record *record, uint64_t *value)
{
    uint32_t before;
    do {
        before = __atomic_load_n(&record->sequence, __ATOMIC_ACQUIRE);
        *value = __atomic_load_n(&record->value, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while ((before & 1u) != 0 || __atomic_load_n(&record->sequence, __ATOMIC_RELAXED) != before);
    return 0;
}
