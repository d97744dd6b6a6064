/* GPM: metrics between two samples of counters, for Hopper and newer boards.
 *
 * A sample here holds what the GPU did when it was taken; a metric is the later sample's figure. Samples are in a fixed
 * table, so that a pointer that is not a sample is recognised.
 */
#include "nvml/change.h"

#include <string.h>

#define SAMPLES_MAX 4096u
#define MIB_PER_KIB (1.0 / 1024.0)

enum { FREE, EMPTY, TAKEN };

struct nvmlGpmSample_st {
    uint32_t phase;
    uint32_t link_count;
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
    FG_READ(gpu, nvlink, nvlink);
    sample->utilization = utilization;
    sample->pcie_tx_kb_per_s = pci.tx_kb_per_s;
    sample->pcie_rx_kb_per_s = pci.rx_kb_per_s;
    sample->link_count = nvlink.count;
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
    FG_REQUIRE(modes.mig_current, NVML_ERROR_NOT_SUPPORTED);
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
    /* What the multiprocessors compute is not modelled: they are busy with nothing in particular. */
    if (id >= NVML_GPM_METRIC_SM_OCCUPANCY && id <= NVML_GPM_METRIC_FP16_UTIL)
        return answer(metric, 0);
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
    bool is_of_links = id == NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC || id == NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC;
    bool is_of_one_link = id >= NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC && id <= NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC;
    if ((is_of_links && sample->link_count > 0) ||
        (is_of_one_link && (id - NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC) / 2 < sample->link_count))
        return answer(metric, 0);
    return id == 0 || id >= NVML_GPM_METRIC_MAX ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
}

FG_API nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *wanted)
{
    FG_ENTER_SYSTEM(wanted != NULL);
    (void)segment;
    FG_REQUIRE(wanted->version == NVML_GPM_METRICS_GET_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    FG_REQUIRE(wanted->numMetrics > 0 && wanted->numMetrics <= NVML_GPM_METRIC_MAX, NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(is_sample(wanted->sample1) && is_sample(wanted->sample2), NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(wanted->sample1->phase == TAKEN && wanted->sample2->phase == TAKEN, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int index = 0; index < wanted->numMetrics; index++) {
        nvmlGpmMetric_t *metric = &wanted->metrics[index];
        metric->nvmlReturn = measure(wanted->sample2, metric);
        memset(&metric->metricInfo, 0, sizeof metric->metricInfo);
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
