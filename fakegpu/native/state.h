/* The shared state of one fake machine: the only place that knows the layout of the segment file.
 *
 * A segment is a header, one ring of events and an array of GPUs. Any number of processes map it; writers exclude each
 * other with flock(2) on the file, readers never lock. Two disciplines keep readers safe:
 *
 *  - a GPU holds two copies of its state. `sequence & 1` names the copy in force; a writer fills the other one and then
 *    increments `sequence`. A writer that dies half-way leaves the copy in force untouched, so readers cannot hang;
 *  - an event is valid while its `ticket` is its position + 1; a writer clears the ticket before it reuses the slot.
 *
 * Every topic is a multiple of eight bytes, because readers copy whole words. A change here needs a new FG_VERSION;
 * `fakegpu/_layout.py` holds Python's view of the same bytes, and a test compares the two.
 */
#ifndef FAKEGPU_STATE_H
#define FAKEGPU_STATE_H

#include <stdint.h>

#define FG_MAGIC UINT64_C(0x555047454b414646) /* "FFAKEGPU" read as bytes */
#define FG_VERSION 1u
#define FG_GPUS_MAX 1024u
#define FG_EVENTS_MAX 1024u
#define FG_LINKS_MAX 18u
#define FG_CLOCK_DOMAINS 4u
#define FG_MEMORY_CLOCKS_MAX 8u
#define FG_THRESHOLDS 8u
#define FG_ECC_LOCATIONS 8u
#define FG_CPU_WORDS 16u

/* Not an NVML event type: wakes a wait with NVML_ERROR_GPU_IS_LOST. */
#define FG_EVENT_GPU_LOST (UINT64_C(1) << 63)

struct fg_fault {
    uint32_t is_lost;
    uint32_t last_xid;
    uint64_t xid_count;
    uint64_t supported_events;
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
    uint32_t fan_count;
    uint32_t fan_percent;
    uint32_t padding;
    int32_t threshold_c[FG_THRESHOLDS]; /* by nvmlTemperatureThresholds_t; negative: the board has none */
};

struct fg_power {
    uint32_t usage_mw;
    uint32_t limit_mw;
    uint32_t default_limit_mw;
    uint32_t limit_min_mw;
    uint32_t limit_max_mw;
    uint32_t padding;
    uint64_t energy_mj;
};

struct fg_clocks {
    uint32_t current_mhz[FG_CLOCK_DOMAINS]; /* by nvmlClockType_t, as the next two */
    uint32_t maximum_mhz[FG_CLOCK_DOMAINS];
    uint32_t application_mhz[FG_CLOCK_DOMAINS];
    uint32_t memory_mhz[FG_MEMORY_CLOCKS_MAX]; /* supported, highest first, ended by zero */
    uint32_t graphics_min_mhz;
    uint32_t graphics_step_mhz;
    uint32_t performance_state;
    uint32_t performance_states; /* mask of supported states */
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
    uint32_t padding;
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

struct fg_gpu_state {
    struct fg_fault fault;
    struct fg_identity identity;
    struct fg_pci pci;
    struct fg_memory memory;
    struct fg_thermal thermal;
    struct fg_power power;
    struct fg_clocks clocks;
    struct fg_utilization utilization;
    struct fg_ecc ecc;
    struct fg_remap remap;
    struct fg_modes modes;
    struct fg_placement placement;
    struct fg_nvlink nvlink;
    struct fg_link links[FG_LINKS_MAX];
    struct fg_fabric fabric;
};

struct fg_gpu {
    uint32_t sequence;
    uint32_t padding[15];
    struct fg_gpu_state states[2];
    uint8_t tail[2992];
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

struct fg_segment {
    uint64_t magic;
    uint32_t version;
    uint32_t gpu_count;
    uint64_t size_bytes;
    int32_t cuda_driver_version;
    uint32_t padding;
    char driver_version[80];
    char nvml_version[80];
    char driver_branch[80];
    uint8_t tail[240];
    struct fg_ring ring;
    struct fg_gpu gpus[];
};

#define FG_WHOLE_WORDS(topic) _Static_assert(sizeof(struct topic) % 8 == 0, #topic " must be whole words")
FG_WHOLE_WORDS(fg_fault);
FG_WHOLE_WORDS(fg_identity);
FG_WHOLE_WORDS(fg_pci);
FG_WHOLE_WORDS(fg_memory);
FG_WHOLE_WORDS(fg_thermal);
FG_WHOLE_WORDS(fg_power);
FG_WHOLE_WORDS(fg_clocks);
FG_WHOLE_WORDS(fg_utilization);
FG_WHOLE_WORDS(fg_ecc);
FG_WHOLE_WORDS(fg_remap);
FG_WHOLE_WORDS(fg_modes);
FG_WHOLE_WORDS(fg_placement);
FG_WHOLE_WORDS(fg_link);
FG_WHOLE_WORDS(fg_nvlink);
FG_WHOLE_WORDS(fg_fabric);

_Static_assert(sizeof(struct fg_link) == 64, "one link is one cache line");
_Static_assert(sizeof(struct fg_event) == 64, "one event is one cache line");
_Static_assert(sizeof(struct fg_gpu) == 8192, "a power of two, so that checking a handle needs no division");
_Static_assert(sizeof(struct fg_segment) == 512 + 64 + 64 * FG_EVENTS_MAX, "GPUs follow the ring at once");

#endif
