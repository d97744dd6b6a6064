/* The shared state of one fake machine: the only place that knows the layout of the segment file.
 *
 * A segment is a header, one ring of events, an array of GPUs and, behind it, the frames of their loads: what every
 * process looks at lies together, because a kernel maps the neighbourhood too. Any number of processes map it; writers exclude each
 * other with flock(2) on the file, readers never lock. Two disciplines keep readers safe:
 *
 *  - a GPU holds two copies of its state. `sequence & 1` names the copy in force; a writer fills the other one and then
 *    increments `sequence`. A writer that dies half-way leaves the copy in force untouched, so readers cannot hang;
 *  - an event is valid while its `ticket` is its position + 1; a writer clears the ticket before it reuses the slot.
 *
 * Every topic is a multiple of eight bytes, because readers copy whole words. A change here needs a new FG_VERSION;
 * `fakegpu/state/layout.py` holds Python's view of the same bytes, and a test compares the two.
 */
#ifndef FAKEGPU_STATE_H
#define FAKEGPU_STATE_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) fg_word; /* what readers and writers copy at once */

#define FG_MAGIC UINT64_C(0x555047454b414646) /* "FFAKEGPU" read as bytes */
#define FG_VERSION 6u
#define FG_GPUS_MAX 1024u
#define FG_EVENTS_MAX 1024u
#define FG_LINKS_MAX 18u
#define FG_CLOCK_DOMAINS 4u
#define FG_MEMORY_CLOCKS_MAX 8u
#define FG_THRESHOLDS 8u
#define FG_ECC_LOCATIONS 8u
#define FG_CPU_WORDS 16u
#define FG_FANS_MAX 4u
#define FG_VIOLATIONS 12u
#define FG_PCIE_ERRORS 11u
#define FG_PROCESSES_MAX 32u
#define FG_ACCOUNTS_MAX 32u
#define FG_FRAMES_MAX 256u
#define FG_MIG_PROFILES 18u
#define FG_GPU_INSTANCES 16u
#define FG_COMPUTE_INSTANCES 8u
#define FG_RULES_MAX 32u
#define FG_PLANS_MAX 64u
#define FG_DELAY_POINTS 8u

/* Not an NVML event type: wakes a wait with NVML_ERROR_GPU_IS_LOST. */
#define FG_EVENT_GPU_LOST (UINT64_C(1) << 63)

/* fg_segment.fault_flags */
#define FG_FAULT_RULES 1u /* some call is slow or fails */
#define FG_FAULT_PLANS 2u /* something is due at some time */
#define FG_FAULT_WAIT 4u  /* waits for events are stuck */

/* Bits of fg_load.topics. */
#define FG_LIVE_MEMORY 0x1u
#define FG_LIVE_THERMAL 0x2u
#define FG_LIVE_FANS 0x4u
#define FG_LIVE_POWER 0x8u
#define FG_LIVE_CLOCKS 0x10u
#define FG_LIVE_UTILIZATION 0x20u
#define FG_LIVE_PCI 0x40u
#define FG_LIVE_PROCESSES 0x80u /* memory counts the processes', too */

/* Bits of fg_process.kind. */
#define FG_PROCESS_COMPUTE 0x1u
#define FG_PROCESS_GRAPHICS 0x2u
#define FG_PROCESS_MPS 0x4u

struct fg_fault {
    uint32_t is_lost;
    uint32_t last_xid;
    uint64_t xid_count;
    uint64_t supported_events;
    uint32_t is_unplugged; /* not there for whoever looks for devices from now on */
    uint32_t is_throttled; /* the board is too hot; what it showed before is kept below */
    uint32_t cool_gpu_c;
    uint32_t cool_memory_c;
    uint32_t cool_mhz[FG_CLOCK_DOMAINS];
    uint64_t cool_event_reasons;
    uint32_t links_down; /* mask of the links that a fault took down */
    uint32_t padding;
};

struct fg_identity {
    char name[96];
    char uuid[96];
    char serial[32];
    char part_number[80];
    char vbios_version[32];
    char inforom_image[16];
    char inforom_oem[16];
    char inforom_ecc[16];
    char inforom_power[16];
    char gsp_firmware[64];
    uint32_t minor_number;
    uint32_t brand;
    uint32_t architecture;
    uint32_t board_id;
    uint32_t module_id;
    uint32_t compute_major;
    uint32_t compute_minor;
    uint32_t core_count;
};

struct fg_pci {
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id;
    uint32_t subsystem_id;
    uint32_t link_generation;
    uint32_t link_generation_max;
    uint32_t gpu_link_generation_max;
    uint32_t link_width;
    uint32_t link_width_max;
    uint32_t replay_count;
    uint32_t tx_kb_per_s;
    uint32_t rx_kb_per_s;
    uint32_t irq;
};

struct fg_memory {
    uint64_t total_bytes;
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    uint64_t bar1_total_bytes;
    uint64_t bar1_used_bytes;
    uint32_t bus_width_bits;
    uint32_t padding;
};

struct fg_thermal {
    uint32_t gpu_c;
    uint32_t memory_c;
    uint32_t has_memory_sensor;
    uint32_t padding;
    int32_t threshold_c[FG_THRESHOLDS]; /* by nvmlTemperatureThresholds_t; negative: the board has none */
};

struct fg_fans {
    uint32_t count; /* zero: passive cooling */
    uint32_t min_percent;
    uint32_t max_percent;
    uint32_t max_rpm;
    uint32_t percent[FG_FANS_MAX];
    uint32_t target_percent[FG_FANS_MAX];
    uint32_t is_manual[FG_FANS_MAX];
};

struct fg_power {
    uint32_t usage_mw;
    uint32_t limit_mw;
    uint32_t default_limit_mw;
    uint32_t limit_min_mw;
    uint32_t limit_max_mw;
    uint32_t memory_usage_mw; /* zero: the board does not measure it */
    uint64_t energy_mj;       /* drawn until energy_at_ns: see fg_count_energy */
    uint64_t energy_at_ns;    /* CLOCK_MONOTONIC */
};

/* Of the module of GPU and CPU to which the board belongs; all zeros: it belongs to none. */
struct fg_module_power {
    uint32_t usage_mw; /* while the GPU draws what is set for it */
    uint32_t limit_mw;
    uint32_t default_limit_mw;
    uint32_t limit_min_mw;
    uint32_t limit_max_mw;
    uint32_t padding;
};

struct fg_clocks {
    uint32_t current_mhz[FG_CLOCK_DOMAINS]; /* by nvmlClockType_t, as the next three */
    uint32_t maximum_mhz[FG_CLOCK_DOMAINS];
    uint32_t application_mhz[FG_CLOCK_DOMAINS]; /* zero: the board has no applications clocks, as with the next */
    uint32_t default_application_mhz[FG_CLOCK_DOMAINS];
    uint32_t locked_graphics_mhz[2]; /* lowest and highest; zeros: not locked */
    uint32_t locked_memory_mhz[2];
    uint32_t memory_mhz[FG_MEMORY_CLOCKS_MAX]; /* supported, highest first, ended by zero */
    uint32_t graphics_max_mhz[FG_MEMORY_CLOCKS_MAX]; /* highest graphics clock at each of them */
    uint32_t graphics_min_mhz;
    uint32_t graphics_step_khz; /* some boards step by 7.5 MHz; NVML rounds down */
    uint32_t performance_state;
    uint32_t performance_states; /* mask of supported states */
    int32_t offset_mhz[2];       /* of graphics and memory clocks over the curve of the board */
    int32_t offset_max_mhz[2];   /* either way; zero: the board has no offsets */
    uint32_t anyone_sets_applications_clocks;
    uint32_t padding;
    uint64_t event_reasons;
    uint64_t supported_event_reasons;
};

struct fg_utilization {
    uint32_t gpu_percent;
    uint32_t memory_percent;
    uint32_t encoder_percent;
    uint32_t decoder_percent;
    uint32_t jpeg_percent;
    uint32_t ofa_percent;
    uint32_t has_jpeg;
    uint32_t has_ofa;
    uint32_t period_us;
    uint32_t has_encoder;
};

struct fg_ecc {
    uint32_t is_supported;
    uint32_t current;
    uint32_t pending;
    uint32_t default_mode;
    uint64_t errors[2][2][FG_ECC_LOCATIONS]; /* by nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlMemoryLocation_t */
};

struct fg_remap {
    uint32_t is_supported; /* boards without row remapping retire pages instead */
    uint32_t corrected_rows;
    uint32_t uncorrected_rows;
    uint32_t is_pending;
    uint32_t has_failed;
    uint32_t banks_max;
    uint32_t banks_high;
    uint32_t banks_partial;
    uint32_t banks_low;
    uint32_t banks_none;
    uint32_t retired_pages[2]; /* by nvmlPageRetirementCause_t */
};

struct fg_modes {
    uint32_t persistence;
    uint32_t compute;
    uint32_t display;
    uint32_t display_active;
    uint32_t accounting;
    uint32_t mig_supported;
    uint32_t mig_current;
    uint32_t mig_pending;
    uint32_t addressing;
    uint32_t is_draining;
    uint32_t gpm_is_streaming;
    uint32_t padding;
};

/* Where the board sits. Two GPUs share a level when they have equal values there; -1 in numa_node means none. */
struct fg_placement {
    int32_t numa_node;
    uint32_t board;
    uint32_t pcie_switch;
    uint32_t switch_tree;
    uint32_t host_bridge;
    uint32_t padding;
    uint64_t cpu_mask[FG_CPU_WORDS];
};

struct fg_link {
    uint32_t is_active;
    uint32_t remote_type; /* nvmlIntNvLinkDeviceType_t */
    uint32_t remote_domain;
    uint32_t remote_bus;
    uint32_t remote_device;
    uint32_t remote_device_id;
    uint64_t errors[5]; /* by nvmlNvLinkErrorCounter_t */
};

struct fg_nvlink {
    uint32_t count;
    uint32_t version;
    uint32_t low_power_threshold;
    uint32_t bandwidth_mode;
};

struct fg_fabric {
    uint32_t is_supported;
    uint32_t state;
    uint32_t status;
    uint32_t clique_id;
    uint32_t health_mask;
    uint32_t health_summary;
    uint8_t cluster_uuid[16];
};

/* What the board keeps of itself besides the texts of its identity. */
struct fg_firmware {
    uint64_t flushed_at_us; /* last flush of the black box recorder; zero: it has none */
    uint64_t flush_us;
    uint64_t pdi;
    uint32_t inforom_checksum;
    uint32_t c2c; /* one more than nvmlC2cModeInfo's isC2cEnabled; zero: the board cannot tell */
    char hostname[64];
};

/* What only grows, beside the counters of memory errors and links. */
struct fg_counters {
    uint64_t violation_ns[FG_VIOLATIONS];  /* by nvmlPerfPolicyType_t */
    uint64_t pcie_errors[FG_PCIE_ERRORS]; /* by the field values from NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS on */
    uint64_t pcie_tx_bytes;
    uint64_t pcie_rx_bytes;
    uint64_t nvlink_tx_kib;
    uint64_t nvlink_rx_kib;
};

/* One GPU instance profile of the model. */
struct fg_mig_profile {
    char name[24];    /* "1g.10gb" */
    uint32_t is_here; /* the others are zeros then: the model does not have it */
    uint32_t id;
    uint32_t slices; /* of compute; the size of a placement counts slices of memory */
    uint32_t instances;
    uint32_t multiprocessors;
    uint32_t copy_engines;
    uint32_t decoders;
    uint32_t encoders;
    uint32_t jpegs;
    uint32_t ofas;
    uint32_t capabilities;
    uint32_t memory_mib;
    uint32_t size;
    uint32_t starts; /* mask of the memory slices at which an instance may start */
};

struct fg_gpu_instance {
    uint32_t is_here;
    uint32_t profile; /* NVML_GPU_INSTANCE_PROFILE_* */
    uint32_t start;
    uint32_t padding;
    uint64_t used_bytes;
};

struct fg_compute_instance {
    uint32_t is_here;
    uint32_t gpu_instance;
    uint32_t id;
    uint32_t profile; /* NVML_COMPUTE_INSTANCE_PROFILE_* */
    uint32_t start;   /* slice of compute within the GPU instance */
    uint32_t mode;    /* nvmlComputeMode_t */
};

struct fg_mig {
    uint32_t memory_slices;
    uint32_t compute_slices;
    uint32_t needs_reset; /* a change of the mode takes effect at a reset, not at once */
    uint32_t slice_multiprocessors;
    struct fg_mig_profile profiles[FG_MIG_PROFILES]; /* by NVML_GPU_INSTANCE_PROFILE_* */
    struct fg_gpu_instance gpu_instances[FG_GPU_INSTANCES]; /* by id */
    struct fg_compute_instance compute_instances[FG_COMPUTE_INSTANCES];
};

/* One process on the GPU. It counts while /proc tells of a process with this number and start, so that one that ends
 * needs nobody to take it off. */
struct fg_process {
    uint32_t pid; /* zero: a free entry */
    uint32_t kind; /* FG_PROCESS_* */
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat */
    uint64_t used_bytes;
    uint64_t most_bytes; /* that it has held so far */
    uint32_t gpu_instance; /* all bits set: none, as with the next */
    uint32_t compute_instance;
};

struct fg_processes {
    uint32_t count; /* entries in use come first */
    uint32_t padding;
    struct fg_process entries[FG_PROCESSES_MAX];
};

/* What is remembered of a process that has ended, while accounting is on. */
struct fg_account {
    uint32_t pid;
    uint16_t gpu_percent; /* over its life, as the next */
    uint16_t memory_percent;
    uint64_t start_us; /* CLOCK_REALTIME */
    uint64_t time_ms;
    uint64_t most_bytes;
};

struct fg_accounts {
    uint32_t count; /* ever written; the last FG_ACCOUNTS_MAX of them are kept, in a ring */
    uint32_t padding;
    struct fg_account entries[FG_ACCOUNTS_MAX];
};

/* What the GPU works on: figures over time, from which a getter takes those of the moment. */
struct fg_load {
    uint32_t topics;     /* mask of FG_LIVE_*: whose figures follow the frames */
    uint32_t bank;       /* which of the two arrays of frames is in force */
    uint32_t count;      /* frames */
    uint32_t loop_to;    /* the frame to go back to after the last; as large as count: the last one stays */
    uint64_t started_ns; /* CLOCK_MONOTONIC */
};

struct fg_gpu_state {
    struct fg_fault fault;
    struct fg_identity identity;
    struct fg_pci pci;
    struct fg_memory memory;
    struct fg_thermal thermal;
    struct fg_fans fans;
    struct fg_power power;
    struct fg_module_power module_power;
    struct fg_clocks clocks;
    struct fg_utilization utilization;
    struct fg_ecc ecc;
    struct fg_remap remap;
    struct fg_modes modes;
    struct fg_placement placement;
    struct fg_nvlink nvlink;
    struct fg_link links[FG_LINKS_MAX];
    struct fg_fabric fabric;
    struct fg_firmware firmware;
    struct fg_counters counters;
    struct fg_mig mig;
    struct fg_processes processes;
    struct fg_accounts accounts;
    struct fg_load load;
};

/* The figures of one moment of a load; between two frames they run straight. */
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

struct fg_bank {
    struct fg_frame frames[FG_FRAMES_MAX];
};

#define FG_GPU_BYTES 16384u
#define FG_GPU_TAIL (FG_GPU_BYTES - 64u - 2u * sizeof(struct fg_gpu_state))

struct fg_gpu {
    uint32_t sequence;
    uint32_t live_topics; /* those of the load in force, for a quick look */
    uint64_t banks_at;    /* where its two banks begin, in bytes from here: see fg_banks_at */
    uint32_t padding[12];
    struct fg_gpu_state states[2];
    uint8_t tail[FG_GPU_TAIL];
};

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

struct fg_ring {
    uint64_t head; /* events ever posted */
    uint32_t wake; /* futex word: changes after every post */
    uint32_t padding[13];
    struct fg_event events[FG_EVENTS_MAX];
};

/* What befalls calls of functions; read without a lock, valid while `number` stays what it was. */
struct fg_rule {
    uint64_t number; /* of the rule since the machine was made; zero: the slot is free */
    uint64_t from_us; /* CLOCK_REALTIME, as all times below */
    uint64_t until_us;
    uint64_t seed;
    uint64_t left;     /* times it still comes; UINT64_MAX: for ever */
    char function[64]; /* a name, or its beginning and a star */
    uint32_t gpu; /* index, or FG_NO_GPU for all of them and for functions of the machine */
    uint32_t error; /* nvmlReturn_t to answer; zero: the call is only slow */
    uint32_t every; /* every n-th call of a process; zero: by chance */
    uint32_t chance; /* of 2^32 */
    uint32_t delay_count;
    uint32_t padding;
    uint32_t delay_share[FG_DELAY_POINTS]; /* of 2^32: so many calls take at most so long as delay_us says, */
    uint32_t delay_us[FG_DELAY_POINTS];    /* rising, and straight between two points */
};

#define FG_NO_GPU UINT32_MAX

/* One thing that befalls a GPU. */
struct fg_action {
    uint32_t kind; /* FG_ACTION_* of actions.h */
    uint32_t gpu;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint64_t argument;
};

/* An action that is due at some time; changed by writers only. */
struct fg_plan {
    uint64_t number; /* as in a rule */
    uint64_t due_us;
    uint64_t period_us; /* zero: once */
    uint64_t left; /* times it still comes */
    struct fg_action action;
};

struct fg_faults {
    uint64_t last_number; /* of a rule or a plan */
    uint64_t due_us; /* when the next plan is due */
    struct fg_rule rules[FG_RULES_MAX];
    struct fg_plan plans[FG_PLANS_MAX];
    uint64_t tail[6];
};

struct fg_segment {
    uint64_t magic;
    uint32_t version;
    uint32_t gpu_count;
    uint64_t size_bytes;
    int32_t cuda_driver_version;
    uint32_t fault_flags; /* FG_FAULT_*; zero: calls need not look any further */
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

#define FG_WHOLE_WORDS(topic) _Static_assert(sizeof(struct topic) % 8 == 0, #topic " must be whole words")
FG_WHOLE_WORDS(fg_fault);
FG_WHOLE_WORDS(fg_identity);
FG_WHOLE_WORDS(fg_pci);
FG_WHOLE_WORDS(fg_memory);
FG_WHOLE_WORDS(fg_thermal);
FG_WHOLE_WORDS(fg_fans);
FG_WHOLE_WORDS(fg_power);
FG_WHOLE_WORDS(fg_module_power);
FG_WHOLE_WORDS(fg_clocks);
FG_WHOLE_WORDS(fg_utilization);
FG_WHOLE_WORDS(fg_ecc);
FG_WHOLE_WORDS(fg_remap);
FG_WHOLE_WORDS(fg_modes);
FG_WHOLE_WORDS(fg_placement);
FG_WHOLE_WORDS(fg_link);
FG_WHOLE_WORDS(fg_nvlink);
FG_WHOLE_WORDS(fg_fabric);
FG_WHOLE_WORDS(fg_firmware);
FG_WHOLE_WORDS(fg_counters);
FG_WHOLE_WORDS(fg_mig);
FG_WHOLE_WORDS(fg_processes);
FG_WHOLE_WORDS(fg_load);
FG_WHOLE_WORDS(fg_rule);

_Static_assert(sizeof(struct fg_link) == 64, "one link is one cache line");
_Static_assert(sizeof(struct fg_frame) == 64, "one frame is one cache line");
_Static_assert(sizeof(struct fg_event) == 64, "one event is one cache line");
_Static_assert(sizeof(struct fg_gpu) == FG_GPU_BYTES, "a power of two, so that checking a handle needs no division");
_Static_assert(offsetof(struct fg_segment, ring) == 512, "the ring begins a cache line");
_Static_assert(sizeof(struct fg_segment) % 64 == 0, "so does the first GPU");

#endif
