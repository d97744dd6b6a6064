/* The state of one GPU, by topics: everything that NVML reports or sets of it. layout.h says where it is in the
 * segment.
 *
 * Every topic is a multiple of eight bytes, because readers copy whole words. A change here or in layout.h needs a new
 * FG_VERSION. tools/generate/layout.py writes Python's view of both files, fakegpu/state/layout.py, with these names
 * and comments; it expects one member a line, with its comment behind it. A test compares the two with what the
 * compiler made of them.
 *
 * It is one table with units in its names, which is why it is longer than other files.
 */
#ifndef FAKEGPU_STATE_H
#define FAKEGPU_STATE_H

#include <stdint.h>

#define FG_CLOCK_DOMAINS 4u

/* Faults that last, and what the GPU showed before them. */
struct fg_fault {
    uint32_t is_lost;
    uint32_t last_xid;
    uint64_t xid_count;
    uint64_t supported_events;
    uint32_t is_unplugged; /* hidden from processes that initialise NVML from now on */
    uint32_t is_throttled; /* the board is too hot; what it showed before is stored below */
    uint32_t cool_gpu_c;
    uint32_t cool_memory_c;
    uint32_t cool_mhz[FG_CLOCK_DOMAINS];
    uint64_t cool_event_reasons;
    uint32_t links_down; /* mask of the links that a fault took down */
    uint32_t padding;
};

/* Texts and numbers printed on the board. */
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

/* The address on the bus, and the link to the host. */
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

/* Device memory and its BAR1 window. */
struct fg_memory {
    uint64_t total_bytes;
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    uint64_t bar1_total_bytes;
    uint64_t bar1_used_bytes;
    uint32_t bus_width_bits;
    uint32_t padding;
};

#define FG_THRESHOLDS 8u

/* Temperatures and their thresholds. */
struct fg_thermal {
    uint32_t gpu_c;
    uint32_t memory_c;
    uint32_t has_memory_sensor;
    uint32_t padding;
    int32_t threshold_c[FG_THRESHOLDS]; /* by nvmlTemperatureThresholds_t; negative: the board has none */
};

#define FG_FANS_MAX 4u

/* Fans of the board. */
struct fg_fans {
    uint32_t count; /* zero: passive cooling */
    uint32_t min_percent;
    uint32_t max_percent;
    uint32_t max_rpm;
    uint32_t percent[FG_FANS_MAX];
    uint32_t target_percent[FG_FANS_MAX];
    uint32_t is_manual[FG_FANS_MAX];
};

/* Power draw, its limits and the energy counter. */
struct fg_power {
    uint32_t usage_mw;
    uint32_t limit_mw;
    uint32_t default_limit_mw;
    uint32_t limit_min_mw;
    uint32_t limit_max_mw;
    uint32_t memory_usage_mw; /* zero: the board does not measure it */
    uint64_t energy_mj;       /* drawn until energy_at_ns; what is drawn since is added by readers */
    uint64_t energy_at_ns;    /* CLOCK_MONOTONIC */
};

/* Power of the module of GPU and CPU to which the board belongs. All zeros: it belongs to none. */
struct fg_module_power {
    uint32_t usage_mw; /* while the GPU draws what is set for it */
    uint32_t limit_mw;
    uint32_t default_limit_mw;
    uint32_t limit_min_mw;
    uint32_t limit_max_mw;
    uint32_t padding;
};

#define FG_MEMORY_CLOCKS_MAX 8u

/* Clocks, what holds them down, and performance states. */
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

/* How busy the engines are. */
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

#define FG_ECC_LOCATIONS 8u

/* ECC mode and counters of memory errors. */
struct fg_ecc {
    uint32_t is_supported;
    uint32_t current;
    uint32_t pending;
    uint32_t default_mode;
    uint64_t errors[2][2][FG_ECC_LOCATIONS]; /* by nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlMemoryLocation_t */
};

/* Rows remapped and pages retired after memory errors. */
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

/* Modes that an administrator sets. */
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
    uint32_t virtualization; /* nvmlGpuVirtualizationMode_t; 1: passed through to a virtual machine */
};

#define FG_CPU_WORDS 16u

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

#define FG_LINKS_MAX 18u

/* fg_link.remote_type, as nvmlIntNvLinkDeviceType_t */
#define FG_LINK_TO_GPU 0u
#define FG_LINK_TO_SWITCH 2u

/* One NVLink. */
struct fg_link {
    uint32_t is_active;
    uint32_t remote_type; /* nvmlIntNvLinkDeviceType_t */
    uint32_t remote_domain;
    uint32_t remote_bus;
    uint32_t remote_device;
    uint32_t remote_device_id;
    uint64_t errors[5]; /* by nvmlNvLinkErrorCounter_t */
};

/* What the NVLinks of the board have in common. */
struct fg_nvlink {
    uint32_t count;
    uint32_t version;
    uint32_t low_power_threshold;
    uint32_t bandwidth_mode;
};

/* The fabric that NVSwitches form. */
struct fg_fabric {
    uint32_t is_supported;
    uint32_t state;
    uint32_t status;
    uint32_t clique_id;
    uint32_t health_mask;
    uint32_t health_summary;
    uint8_t cluster_uuid[16];
};

/* What the board stores besides the texts of its identity. */
struct fg_firmware {
    uint64_t flushed_at_us; /* last flush of the black box recorder; zero: it has none */
    uint64_t flush_us;
    uint64_t pdi;
    uint32_t inforom_checksum;
    uint32_t c2c; /* one more than nvmlC2cModeInfo's isC2cEnabled; zero: the board does not report it */
    char hostname[64];
};

#define FG_VIOLATIONS 12u
#define FG_PCIE_ERRORS 11u

/* Counters that only grow, besides those of memory errors and links. */
struct fg_counters {
    uint64_t violation_ns[FG_VIOLATIONS];  /* by nvmlPerfPolicyType_t */
    uint64_t pcie_errors[FG_PCIE_ERRORS]; /* by the field values from NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS on */
    uint64_t pcie_tx_bytes;
    uint64_t pcie_rx_bytes;
    uint64_t nvlink_tx_kib;
    uint64_t nvlink_rx_kib;
};

#define FG_MIG_PROFILES 18u
#define FG_GPU_INSTANCES 16u
#define FG_COMPUTE_INSTANCES 8u

/* In place of the id of an instance: none, or the whole GPU. */
#define FG_NO_INSTANCE UINT32_MAX

/* One GPU instance profile of the model. */
struct fg_mig_profile {
    char name[24];    /* "1g.10gb" */
    uint32_t is_here; /* false: the model does not have it, and the others are zeros */
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

/* One GPU instance. */
struct fg_gpu_instance {
    uint32_t is_here;
    uint32_t profile; /* NVML_GPU_INSTANCE_PROFILE_* */
    uint32_t start;
    uint32_t padding;
    uint64_t used_bytes;
};

/* One compute instance, which is a MIG device. */
struct fg_compute_instance {
    uint32_t is_here;
    uint32_t gpu_instance;
    uint32_t id;
    uint32_t profile; /* NVML_COMPUTE_INSTANCE_PROFILE_* */
    uint32_t start;   /* slice of compute within the GPU instance */
    uint32_t mode;    /* nvmlComputeMode_t */
};

/* How the GPU can be partitioned, and how it is. */
struct fg_mig {
    uint32_t memory_slices;
    uint32_t compute_slices;
    uint32_t needs_reset; /* a change of the mode takes effect at a reset, not at once */
    uint32_t slice_multiprocessors;
    struct fg_mig_profile profiles[FG_MIG_PROFILES]; /* by NVML_GPU_INSTANCE_PROFILE_* */
    struct fg_gpu_instance gpu_instances[FG_GPU_INSTANCES]; /* by id */
    struct fg_compute_instance compute_instances[FG_COMPUTE_INSTANCES];
};

#define FG_PROCESSES_MAX 32u

/* Bits of fg_process.kind */
#define FG_PROCESS_COMPUTE 0x1u
#define FG_PROCESS_GRAPHICS 0x2u
#define FG_PROCESS_MPS 0x4u

/* One process on the GPU. It counts while /proc has a process with this number and start, so that one that ends
 * needs nobody to remove it. */
struct fg_process {
    uint32_t pid; /* zero: a free entry */
    uint32_t kind; /* FG_PROCESS_* */
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat */
    uint64_t used_bytes;
    uint64_t most_bytes; /* the most that it has held so far */
    uint32_t gpu_instance; /* or FG_NO_INSTANCE, as the next */
    uint32_t compute_instance;
};

/* The processes on the GPU. */
struct fg_processes {
    uint32_t count; /* entries in use come first */
    uint32_t padding;
    struct fg_process entries[FG_PROCESSES_MAX];
};

#define FG_ACCOUNTS_MAX 32u

/* What accounting records of a process that has ended. */
struct fg_account {
    uint32_t pid;
    uint16_t gpu_percent; /* mean from its start to its end, as the next */
    uint16_t memory_percent;
    uint64_t start_us; /* CLOCK_REALTIME */
    uint64_t time_ms;
    uint64_t most_bytes;
};

/* The last processes that have ended. */
struct fg_accounts {
    uint32_t count; /* ever written; the last FG_ACCOUNTS_MAX of them are kept, in a ring */
    uint32_t padding;
    struct fg_account entries[FG_ACCOUNTS_MAX];
};

/* Bits of fg_load.topics */
#define FG_LIVE_MEMORY 0x1u
#define FG_LIVE_THERMAL 0x2u
#define FG_LIVE_FANS 0x4u
#define FG_LIVE_POWER 0x8u
#define FG_LIVE_CLOCKS 0x10u
#define FG_LIVE_UTILIZATION 0x20u
#define FG_LIVE_PCI 0x40u
#define FG_LIVE_ALL 0x7Fu       /* of the above, which are all that a load can move */
#define FG_LIVE_PROCESSES 0x80u /* memory also counts the processes */

/* The load of the GPU: figures over time, from which a getter takes those of the moment. */
struct fg_load {
    uint32_t topics;     /* mask of FG_LIVE_*: whose figures follow the frames */
    uint32_t bank;       /* which of the two arrays of frames is in force */
    uint32_t count;      /* frames */
    uint32_t loop_to;    /* the frame to go back to after the last; as large as count: the last one stays */
    uint64_t started_ns; /* CLOCK_MONOTONIC */
};

/* Everything that NVML reports of one GPU. */
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

_Static_assert(sizeof(struct fg_link) == 64, "one link is one cache line");

#endif
