/* The layout of the segment file, the shared memory of one fake machine.
 *
 * A segment is a header, one ring of events, an array of GPUs and, behind it, the frames of their loads: what every
 * process reads is close together, because a kernel maps the neighbourhood too. Any number of processes map it; writers
 * exclude each other with flock(2) on the file, readers never lock. Two disciplines keep readers safe:
 *
 *  - a GPU holds two copies of its state. `sequence & 1` names the copy in force; a writer fills the other one and then
 *    increments `sequence`. A writer that dies half-way leaves the copy in force untouched, so readers cannot hang;
 *  - an event is valid while its `ticket` is its position + 1; a writer clears the ticket before it reuses the slot.
 */
#ifndef FAKEGPU_LAYOUT_H
#define FAKEGPU_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "core/state.h"

typedef uint64_t __attribute__((may_alias)) fg_word; /* what readers and writers copy at once */

#define FG_FRAMES_MAX 256u

/* The figures of one moment of a load; between two frames they are interpolated. */
struct fg_frame {
    uint64_t energy_mj; /* since the load began */
    uint64_t memory_used_bytes;
    uint32_t time_ms; /* since the load began; the first frame's is zero */
    uint32_t power_mw;
    uint32_t graphics_mhz;
    uint32_t memory_mhz;
    uint32_t event_reasons;
    uint32_t performance_state;
    uint32_t pcie_tx_kb_per_s;
    uint32_t pcie_rx_kb_per_s;
    uint16_t gpu_c;
    uint16_t memory_c;
    uint16_t gpu_percent;
    uint16_t memory_percent;
    uint16_t encoder_percent;
    uint16_t decoder_percent;
    uint16_t fan_percent;
    uint16_t padding;
};

/* The frames of one load. */
struct fg_bank {
    struct fg_frame frames[FG_FRAMES_MAX];
};

#define FG_GPU_BYTES 16384u
#define FG_GPU_TAIL (FG_GPU_BYTES - 64u - 2u * sizeof(struct fg_gpu_state))

/* One GPU: two copies of its state, of which `sequence` names the one in force. */
struct fg_gpu {
    uint32_t sequence;
    uint32_t live_topics; /* topics of the load in force, for a quick look */
    uint64_t banks_at;    /* where its two banks begin, in bytes from here */
    uint32_t padding[12];
    struct fg_gpu_state states[2];
    uint8_t tail[FG_GPU_TAIL];
};

#define FG_EVENTS_MAX 1024u

/* Not an NVML event type: wakes a wait with NVML_ERROR_GPU_IS_LOST. */
#define FG_EVENT_GPU_LOST (UINT64_C(1) << 63)

/* One event. */
struct fg_event {
    uint64_t ticket;
    uint64_t type; /* one nvmlEventType bit, or FG_EVENT_GPU_LOST */
    uint64_t data;
    uint32_t gpu;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t padding;
    uint64_t timestamp_us;
    uint64_t tail[2];
};

/* The events of the machine, the last FG_EVENTS_MAX of them. */
struct fg_ring {
    uint64_t head; /* events ever posted */
    uint32_t wake; /* futex word: changes after every post */
    uint32_t padding[13];
    struct fg_event events[FG_EVENTS_MAX];
};

#define FG_RULES_MAX 32u
#define FG_DELAY_POINTS 8u

/* fg_rule.gpu: all GPUs, and functions of the machine */
#define FG_NO_GPU UINT32_MAX

/* A time that never comes, and a number of times that never ends */
#define FG_FOR_EVER UINT64_MAX

/* What happens to calls of functions; read without a lock, valid while `number` stays what it was. */
struct fg_rule {
    uint64_t number; /* of the rule since the machine was made; zero: the slot is free */
    uint64_t from_us; /* CLOCK_REALTIME, as all times below */
    uint64_t until_us;
    uint64_t seed;
    uint64_t left;     /* times it still applies, or FG_FOR_EVER */
    char function[64]; /* a name, or its beginning and a star */
    uint32_t gpu; /* index, or FG_NO_GPU for all of them and for functions of the machine */
    uint32_t error; /* nvmlReturn_t to answer; zero: the call is only slow */
    uint32_t every; /* every n-th call of a process; zero: by chance */
    uint32_t chance; /* of 2^32 */
    uint32_t delay_count;
    uint32_t padding;
    uint32_t delay_share[FG_DELAY_POINTS]; /* of 2^32: this share of calls takes at most delay_us, */
    uint32_t delay_us[FG_DELAY_POINTS];    /* rising; interpolated between two points */
};

/* Kinds of actions; a plan in the segment holds the number. */
enum fg_action_kind {
    FG_ACTION_HEAL = 1,        /* ends every fault below that lasts */
    FG_ACTION_XID,             /* argument: the number */
    FG_ACTION_LOSE,            /* argument: XID that reports it; zero: waits end with NVML_ERROR_GPU_IS_LOST */
    FG_ACTION_UNPLUG,          /* lost, and not counted by processes that initialise NVML from now on */
    FG_ACTION_PLUG,            /* ends UNPLUG */
    FG_ACTION_CORRECTED_ECC,   /* argument: errors of the memory */
    FG_ACTION_UNCORRECTED_ECC, /* argument: as before */
    FG_ACTION_RETIRE,          /* argument: rows to remap or pages to retire for uncorrected errors */
    FG_ACTION_THROTTLE,        /* hotter than the slowdown threshold */
    FG_ACTION_COOL,            /* ends THROTTLE */
    FG_ACTION_LINKS_DOWN,      /* argument: mask of links */
    FG_ACTION_LINKS_UP,        /* argument: as before */
    FG_ACTION_EVENT,           /* argument: one NVML event type */
};

/* One thing that happens to a GPU. */
struct fg_action {
    uint32_t kind; /* FG_ACTION_* */
    uint32_t gpu;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint64_t argument;
};

#define FG_PLANS_MAX 64u

/* An action that is due at some time; changed by writers only. */
struct fg_plan {
    uint64_t number; /* as in a rule */
    uint64_t due_us;
    uint64_t period_us; /* zero: once */
    uint64_t left; /* times it is still due, or FG_FOR_EVER */
    struct fg_action action;
};

/* The rules and plans of the machine. */
struct fg_faults {
    uint64_t last_number; /* of a rule or a plan */
    uint64_t due_us; /* when the next plan is due */
    struct fg_rule rules[FG_RULES_MAX];
    struct fg_plan plans[FG_PLANS_MAX];
    uint64_t tail[6];
};

#define FG_MAGIC UINT64_C(0x555047454B414646) /* "FFAKEGPU" read as bytes */
#define FG_VERSION 6u
#define FG_GPUS_MAX 1024u

/* fg_segment.fault_flags */
#define FG_FAULT_RULES 1u /* some call is slow or fails */
#define FG_FAULT_PLANS 2u /* something is due at some time */
#define FG_FAULT_WAIT 4u  /* waits for events are stuck */

/* The segment; the array of GPUs ends it. */
struct fg_segment {
    uint64_t magic;
    uint32_t version;
    uint32_t gpu_count;
    uint64_t size_bytes;
    int32_t cuda_driver_version;
    uint32_t fault_flags; /* FG_FAULT_*; zero: calls need no further look */
    char driver_version[80];
    char nvml_version[80];
    char driver_branch[80];
    uint64_t loaded_at_us; /* when the driver was loaded: the machine made */
    uint8_t tail[232];
    struct fg_ring ring;
    struct fg_faults faults;
    struct fg_gpu gpus[];
};

static inline unsigned int fg_index_of(const struct fg_segment *segment, const struct fg_gpu *gpu)
{
    return (unsigned int)(gpu - segment->gpus);
}

static inline uint64_t fg_segment_bytes(uint32_t gpus)
{
    return sizeof(struct fg_segment) + gpus * (sizeof(struct fg_gpu) + 2 * sizeof(struct fg_bank));
}

/* What `banks_at` of a GPU is among so many: the banks of all of them follow the last record, two for each. */
static inline uint64_t fg_banks_at(uint32_t gpu, uint32_t gpus)
{
    return (gpus - gpu) * sizeof(struct fg_gpu) + gpu * 2 * sizeof(struct fg_bank);
}

FG_WHOLE_WORDS(fg_rule);
_Static_assert(sizeof(struct fg_frame) == 64, "one frame is one cache line");
_Static_assert(sizeof(struct fg_event) == 64, "one event is one cache line");
_Static_assert(sizeof(struct fg_gpu) == FG_GPU_BYTES, "a power of two, so that checking a handle needs no division");
_Static_assert(offsetof(struct fg_segment, ring) == 512, "the ring begins a cache line");
_Static_assert(sizeof(struct fg_segment) % 64 == 0, "so does the first GPU");

#endif
