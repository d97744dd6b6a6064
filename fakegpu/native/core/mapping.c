/* What this process knows of its mappings without trusting the files, which any process of the machine may write.
 *
 * Where a file becomes shorter, a read beyond its end raises SIGBUS. The handler here puts memory of this process in
 * place of the mapping, in which every GPU is lost and the magic is missing, and the read goes on. It leaves any other
 * SIGBUS to the handler that it found, and stays where a program sets its own one later.
 */
#define _GNU_SOURCE
#include "core/mapping.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MAPPINGS 64u
#define CLAIMED 1u /* in place of a start, while an entry is filled in */

/* Entries are claimed without a lock, because the handler reads them at any moment, and blocks are never freed. */
struct mapping {
    uintptr_t start; /* zero: free */
    uint32_t gpus;
    uint32_t padding;
};

struct block {
    struct mapping mappings[MAPPINGS];
    struct block *next;
};

static struct block first;
static struct sigaction earlier;
static uint32_t is_handled;

static bool find(uintptr_t address, struct mapping *found)
{
    for (struct block *block = &first; block != NULL; block = __atomic_load_n(&block->next, __ATOMIC_ACQUIRE)) {
        for (unsigned int index = 0; index < MAPPINGS; index++) {
            found->start = __atomic_load_n(&block->mappings[index].start, __ATOMIC_ACQUIRE);
            found->gpus = __atomic_load_n(&block->mappings[index].gpus, __ATOMIC_RELAXED);
            if (found->start > CLAIMED && address - found->start < fg_segment_bytes(found->gpus))
                return true;
        }
    }
    return false;
}

static bool replace(const struct mapping *mapping)
{
    void *memory = mmap((void *)mapping->start, fg_segment_bytes(mapping->gpus), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    struct fg_segment *segment = memory;
    for (uint32_t gpu = 0; gpu < mapping->gpus; gpu++)
        for (unsigned int copy = 0; copy < 2; copy++)
            segment->gpus[gpu].states[copy].fault.is_lost = 1;
    return true;
}

static void handle(int number, siginfo_t *info, void *context)
{
    struct mapping mapping;
    int error = errno;
    bool is_ours = info->si_code == BUS_ADRERR && find((uintptr_t)info->si_addr, &mapping) && replace(&mapping);
    errno = error;
    if (is_ours)
        return;
    if ((earlier.sa_flags & SA_SIGINFO) != 0) {
        earlier.sa_sigaction(number, info, context);
    } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
        earlier.sa_handler(number);
    } else {
        signal(number, SIG_DFL);
        raise(number); /* ends the process when this handler returns */
    }
}

/* The stack for signals, where a thread has one, as the runtime of Go demands of libraries. */
static bool handle_from_now_on(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    uint32_t nobody = 0;
    if (!__atomic_compare_exchange_n(&is_handled, &nobody, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return true;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, NULL, &earlier) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

static bool claim(struct block *block, uintptr_t start, uint32_t gpus)
{
    for (unsigned int index = 0; index < MAPPINGS; index++) {
        uintptr_t nobody = 0;
        if (!__atomic_compare_exchange_n(&block->mappings[index].start, &nobody, CLAIMED, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&block->mappings[index].gpus, gpus, __ATOMIC_RELAXED);
        __atomic_store_n(&block->mappings[index].start, start, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

static struct block *after(struct block *block)
{
    struct block *next = __atomic_load_n(&block->next, __ATOMIC_ACQUIRE);
    if (next != NULL)
        return next;
    struct block *made = calloc(1, sizeof *made);
    if (made == NULL || __atomic_compare_exchange_n(&block->next, &next, made, false, __ATOMIC_ACQ_REL,
                                                    __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return next;
}

bool fg_mapping_add(const struct fg_segment *segment, uint32_t gpus)
{
    if (!handle_from_now_on())
        return false;
    for (struct block *block = &first; block != NULL; block = after(block))
        if (claim(block, (uintptr_t)segment, gpus))
            return true;
    return false;
}

void fg_mapping_remove(const struct fg_segment *segment)
{
    for (struct block *block = &first; block != NULL; block = __atomic_load_n(&block->next, __ATOMIC_ACQUIRE))
        for (unsigned int index = 0; index < MAPPINGS; index++) {
            uintptr_t start = (uintptr_t)segment;
            if (__atomic_compare_exchange_n(&block->mappings[index].start, &start, 0, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED))
                return;
        }
}

uint32_t fg_gpu_count(const struct fg_segment *segment)
{
    struct mapping mapping;
    return find((uintptr_t)segment, &mapping) && mapping.start == (uintptr_t)segment ? mapping.gpus : 0;
}

const struct fg_bank *fg_banks_of(const struct fg_gpu *gpu)
{
    struct mapping mapping;
    if (!find((uintptr_t)gpu, &mapping))
        return NULL;
    const struct fg_segment *segment = (const struct fg_segment *)mapping.start;
    return (const struct fg_bank *)((const char *)gpu + fg_banks_at(fg_index_of(segment, gpu), mapping.gpus));
}
