/* GPM: metrics between two samples of counters, for Hopper and newer boards.
 *
 * A sample here holds what the GPU did when it was taken; a metric is the later sample's figure. Samples are in a fixed
 * table, so that a pointer that is not a sample is recognised.
 */
#include "nvml/change.h"

#include <string.h>

#define SAMPLES_MAX 4096u
#define MIB_PER_KIB (1.0 / 1024.0)
#define LAST_METRIC NVML_GPM_METRIC_GR7_CTXSW_ACTIVE_PCT /* the last that driver 580 knows */

enum { FREE, EMPTY, TAKEN };

struct nvmlGpmSample_st {
    uint32_t phase;
    struct fg_utilization utilization;
    uint32_t pcie_tx_kb_per_s;
    uint32_t pcie_rx_kb_per_s;
};

static struct nvmlGpmSample_st samples[SAMPLES_MAX];

static bool is_sample(nvmlGpmSample_t sample)
{
    uintptr_t offset = (uintptr_t)sample - (uintptr_t)samples;
    return offset % sizeof *samples == 0 && offset / sizeof *samples < SAMPLES_MAX &&
           __atomic_load_n(&sample->phase, __ATOMIC_ACQUIRE) >= EMPTY;
}

FG_API nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    FG_ENTER_SYSTEM(sample != NULL);
    (void)segment;
    for (unsigned int index = 0; index < SAMPLES_MAX; index++) {
        uint32_t phase = FREE;
        if (__atomic_compare_exchange_n(&samples[index].phase, &phase, EMPTY, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            *sample = &samples[index];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_MEMORY;
}

FG_API nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    FG_ENTER_SYSTEM(is_sample(sample));
    (void)segment;
    __atomic_store_n(&sample->phase, FREE, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

static nvmlReturn_t take(const struct fg_gpu *gpu, nvmlGpmSample_t sample)
{
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_HOPPER, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, utilization, utilization);
    FG_READ(gpu, pci, pci);
    sample->utilization = utilization;
    sample->pcie_tx_kb_per_s = pci.tx_kb_per_s;
    sample->pcie_rx_kb_per_s = pci.rx_kb_per_s;
    __atomic_store_n(&sample->phase, TAKEN, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

FG_API nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    FG_ENTER(device, is_sample(sample));
    return take(gpu, sample);
}

/* The use of one instance is not modelled: its sample is that of the GPU. */
FG_API nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpu_instance, nvmlGpmSample_t sample)
{
    FG_ENTER(device, is_sample(sample));
    FG_READ(gpu, modes, modes);
    FG_READ(gpu, mig, mig);
    FG_REQUIRE(modes.mig_current, NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(gpu_instance < FG_GPU_INSTANCES && mig.gpu_instances[gpu_instance].is_here, NVML_ERROR_INVALID_ARGUMENT);
    return take(gpu, sample);
}

static nvmlReturn_t answer(nvmlGpmMetric_t *metric, double value)
{
    metric->value = value;
    return NVML_SUCCESS;
}

static nvmlReturn_t measure(const struct nvmlGpmSample_st *sample, nvmlGpmMetric_t *metric)
{
    const struct fg_utilization *busy = &sample->utilization;
    unsigned int id = metric->metricId;
    if (id == NVML_GPM_METRIC_GRAPHICS_UTIL || id == NVML_GPM_METRIC_SM_UTIL)
        return answer(metric, busy->gpu_percent);
    if (id == NVML_GPM_METRIC_DRAM_BW_UTIL)
        return answer(metric, busy->memory_percent);
    if (id == NVML_GPM_METRIC_PCIE_TX_PER_SEC)
        return answer(metric, sample->pcie_tx_kb_per_s * MIB_PER_KIB);
    if (id == NVML_GPM_METRIC_PCIE_RX_PER_SEC)
        return answer(metric, sample->pcie_rx_kb_per_s * MIB_PER_KIB);
    if (id >= NVML_GPM_METRIC_NVDEC_0_UTIL && id <= NVML_GPM_METRIC_NVDEC_7_UTIL)
        return answer(metric, busy->decoder_percent);
    if (id >= NVML_GPM_METRIC_NVJPG_0_UTIL && id <= NVML_GPM_METRIC_NVJPG_7_UTIL && busy->has_jpeg)
        return answer(metric, busy->jpeg_percent);
    if (id == NVML_GPM_METRIC_NVOFA_0_UTIL && busy->has_ofa)
        return answer(metric, busy->ofa_percent);
    /* The rest is not modelled: multiprocessors are busy with nothing in particular, links carry nothing. A driver
     * answers 0 for what the board lacks too, and for the numbers between the metrics. */
    return id == 0 || id > LAST_METRIC ? NVML_ERROR_INVALID_ARGUMENT : answer(metric, 0);
}

#define RATE "MiB/s"

/* The names of a metric are literals, which the caller may keep. */
#define NAMES(id, short_name, unit_name)                                                                               \
    [NVML_GPM_METRIC_##id] = {.shortName = (char *)(short_name), .longName = (char *)#id, .unit = (char *)(unit_name)}
#define NAMES_OF_LINK(n)                                                                                               \
    NAMES(NVLINK_L##n##_RX_PER_SEC, "nvl" #n "rx", RATE), NAMES(NVLINK_L##n##_TX_PER_SEC, "nvl" #n "tx", RATE)
#define NAMES_OF_CHIP_LINK(n)                                                                                          \
    NAMES(C2C_LINK##n##_TOTAL_TX_PER_SEC, "c2c" #n "ttx", RATE),                                                       \
        NAMES(C2C_LINK##n##_TOTAL_RX_PER_SEC, "c2c" #n "trx", RATE),                                                   \
        NAMES(C2C_LINK##n##_DATA_TX_PER_SEC, "c2c" #n "dtx", RATE),                                                    \
        NAMES(C2C_LINK##n##_DATA_RX_PER_SEC, "c2c" #n "drx", RATE)
#define NAMES_OF_ENGINES(n) NAMES(NVDEC_##n##_UTIL, "nvdec" #n, "%"), NAMES(NVJPG_##n##_UTIL, "nvjpg" #n, "%")
#define NAMES_OF_SWITCHES(n)                                                                                           \
    NAMES(GR##n##_CTXSW_CYCLES_ELAPSED, "cs" #n "elp", "#"), NAMES(GR##n##_CTXSW_CYCLES_ACTIVE, "cs" #n "act", "#"),   \
        NAMES(GR##n##_CTXSW_REQUESTS, "cs" #n "req", "#"),                                                             \
        NAMES(GR##n##_CTXSW_CYCLES_PER_REQ, "cs" #n "cperq", "C/R"),                                                   \
        NAMES(GR##n##_CTXSW_ACTIVE_PCT, "cs" #n "actpt", "%")
#define EIGHT(names) names(0), names(1), names(2), names(3), names(4), names(5), names(6), names(7)

/* Source: driver 580.159.04 on an H200, which names no DMMA metric. */
static const struct {
    char *shortName, *longName, *unit;
} names_of[LAST_METRIC + 1] = {
    NAMES(GRAPHICS_UTIL, "gract", "%"),
    NAMES(SM_UTIL, "smutil", "%"),
    NAMES(SM_OCCUPANCY, "smocc", "%"),
    NAMES(INTEGER_UTIL, "intutil", "%"),
    NAMES(ANY_TENSOR_UTIL, "mmaact", "%"),
    NAMES(DFMA_TENSOR_UTIL, "dfmat", "%"),
    NAMES(HMMA_TENSOR_UTIL, "hmmat", "%"),
    NAMES(IMMA_TENSOR_UTIL, "immat", "%"),
    NAMES(DRAM_BW_UTIL, "dram", "%"),
    NAMES(FP64_UTIL, "fp64", "%"),
    NAMES(FP32_UTIL, "fp32", "%"),
    NAMES(FP16_UTIL, "fp16", "%"),
    NAMES(PCIE_TX_PER_SEC, "pcitx", RATE),
    NAMES(PCIE_RX_PER_SEC, "pcirx", RATE),
    NAMES(NVOFA_0_UTIL, "nvofa0", "%"),
    NAMES(NVOFA_1_UTIL, "nvofa1", "%"),
    NAMES(NVLINK_TOTAL_RX_PER_SEC, "nvlrx", RATE),
    NAMES(NVLINK_TOTAL_TX_PER_SEC, "nvltx", RATE),
    NAMES(C2C_TOTAL_TX_PER_SEC, "c2cttx", RATE),
    NAMES(C2C_TOTAL_RX_PER_SEC, "c2ctrx", RATE),
    NAMES(C2C_DATA_TX_PER_SEC, "c2cdtx", RATE),
    NAMES(C2C_DATA_RX_PER_SEC, "c2cdrx", RATE),
    NAMES(HOSTMEM_CACHE_HIT, "hmhit", "%"),
    NAMES(HOSTMEM_CACHE_MISS, "hmmiss", "%"),
    NAMES(PEERMEM_CACHE_HIT, "pmhit", "%"),
    NAMES(PEERMEM_CACHE_MISS, "pmmiss", "%"),
    NAMES(DRAM_CACHE_HIT, "dmhit", "%"),
    NAMES(DRAM_CACHE_MISS, "dmmiss", "%"),
    NAMES(NVENC_0_UTIL, "nvenc0", "%"),
    NAMES(NVENC_1_UTIL, "nvenc1", "%"),
    NAMES(NVENC_2_UTIL, "nvenc2", "%"),
    NAMES(NVENC_3_UTIL, "nvenc3", "%"),
    EIGHT(NAMES_OF_ENGINES),
    EIGHT(NAMES_OF_SWITCHES),
    EIGHT(NAMES_OF_LINK),
    NAMES_OF_LINK(8), NAMES_OF_LINK(9), NAMES_OF_LINK(10), NAMES_OF_LINK(11), NAMES_OF_LINK(12), NAMES_OF_LINK(13),
    NAMES_OF_LINK(14), NAMES_OF_LINK(15), NAMES_OF_LINK(16), NAMES_OF_LINK(17),
    EIGHT(NAMES_OF_CHIP_LINK),
    NAMES_OF_CHIP_LINK(8), NAMES_OF_CHIP_LINK(9), NAMES_OF_CHIP_LINK(10), NAMES_OF_CHIP_LINK(11),
    NAMES_OF_CHIP_LINK(12), NAMES_OF_CHIP_LINK(13),
};

static void name(nvmlGpmMetric_t *metric)
{
    memset(&metric->metricInfo, 0, sizeof metric->metricInfo);
    if (metric->nvmlReturn != NVML_SUCCESS)
        return;
    metric->metricInfo.shortName = names_of[metric->metricId].shortName;
    metric->metricInfo.longName = names_of[metric->metricId].longName;
    metric->metricInfo.unit = names_of[metric->metricId].unit;
    if (metric->metricInfo.unit == NULL)
        metric->metricInfo.unit = (char *)"%";
}

FG_API nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *wanted)
{
    FG_ENTER_SYSTEM(wanted != NULL);
    (void)segment;
    FG_REQUIRE(wanted->version == NVML_GPM_METRICS_GET_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_REQUIRE(wanted->numMetrics > 0 && wanted->numMetrics <= NVML_GPM_METRIC_MAX, NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(is_sample(wanted->sample1) && is_sample(wanted->sample2), NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(wanted->sample1->phase == TAKEN && wanted->sample2->phase == TAKEN, NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(wanted->sample1 != wanted->sample2, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int index = 0; index < wanted->numMetrics; index++) {
        nvmlGpmMetric_t *metric = &wanted->metrics[index];
        metric->nvmlReturn = measure(wanted->sample2, metric);
        name(metric);
    }
    return NVML_SUCCESS;
}

/* The version is a plain 1, other than in nearly all structs: go-nvml before April 2026 passes one that has the
 * struct's size in it, which drivers refuse (go-nvml issue 168, fixed there by pull request 176). */
FG_API nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    FG_ENTER(device, support != NULL);
    FG_REQUIRE(support->version == NVML_GPM_SUPPORT_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_READ(gpu, identity, identity);
    support->isSupportedDevice = identity.architecture >= NVML_DEVICE_ARCH_HOPPER;
    return NVML_SUCCESS;
}

FG_API nvmlGpmQueryIfStreamingEnabled(nvmlDevice_t device, unsigned int *state)
{
    FG_ENTER(device, state != NULL);
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_HOPPER, NVML_ERROR_NOT_SUPPORTED);
    FG_READ(gpu, modes, modes);
    *state = modes.gpm_is_streaming;
    return NVML_SUCCESS;
}

FG_API nvmlGpmSetStreamingEnabled(nvmlDevice_t device, unsigned int state)
{
    FG_ENTER(device, FG_IS_SWITCH(state));
    FG_READ(gpu, identity, identity);
    FG_REQUIRE(identity.architecture >= NVML_DEVICE_ARCH_HOPPER, NVML_ERROR_NOT_SUPPORTED);
    FG_CHANGE(gpu, change);
    change.state.modes.gpm_is_streaming = state;
    return fg_change_commit(&change);
}
