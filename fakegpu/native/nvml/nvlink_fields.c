/* Field values about NVLink: counters by link, in the ways that three generations of fields ask for them. */
#include "nvml/nvlink_fields.h"

/* Fields of the first generations name the link: links 0 to 5, their sum, and links 6 to 11 further on. */
#define OLD_LINKS 6u

static const struct {
    uint16_t first, further, total;
    nvmlNvLinkErrorCounter_t counter;
} old_counters[] = {
    {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6,
     NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_CRC_FLIT},
    {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6,
     NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_CRC_DATA},
    {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6,
     NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_REPLAY},
    {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6,
     NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_RECOVERY},
    {NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L6,
     NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL, NVML_NVLINK_ERROR_DL_ECC_DATA},
};

nvmlNvlinkVersion_t fg_nvlink_version_code(uint32_t generation)
{
    static const nvmlNvlinkVersion_t codes[] = {
        NVML_NVLINK_VERSION_INVALID, NVML_NVLINK_VERSION_1_0, NVML_NVLINK_VERSION_2_0, NVML_NVLINK_VERSION_3_0,
        NVML_NVLINK_VERSION_4_0,     NVML_NVLINK_VERSION_5_0, NVML_NVLINK_VERSION_6_0,
    };
    return generation < sizeof codes / sizeof *codes ? codes[generation] : NVML_NVLINK_VERSION_INVALID;
}

/* Data rate of one link in MB/s, as nvidia-smi nvlink -s prints it, by generation. */
static unsigned int speed_mbps(const struct fg_nvlink *nvlink)
{
    static const unsigned int speeds[] = {0, 19531, 25781, 25000, 26562, 50000, 100000};
    return nvlink->version < sizeof speeds / sizeof *speeds ? speeds[nvlink->version] : 0;
}

static nvmlReturn_t read_link(const struct fg_gpu *gpu, const struct fg_nvlink *nvlink, unsigned int number,
                              struct fg_link *link)
{
    FG_REQUIRE(number < nvlink->count && number < FG_LINKS_MAX, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, links[number], copy);
    *link = copy;
    return NVML_SUCCESS;
}

static nvmlReturn_t sum_links(const struct fg_gpu *gpu, const struct fg_nvlink *nvlink,
                              nvmlNvLinkErrorCounter_t counter, uint64_t *sum)
{
    *sum = 0;
    for (unsigned int number = 0; number < nvlink->count && number < FG_LINKS_MAX; number++) {
        struct fg_link link;
        FG_TRY(read_link(gpu, nvlink, number, &link));
        *sum += link.errors[counter];
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_old_counter(const struct fg_gpu *gpu, const struct fg_nvlink *nvlink,
                                       nvmlFieldValue_t *field)
{
    for (unsigned int index = 0; index < sizeof old_counters / sizeof *old_counters; index++) {
        unsigned int id = field->fieldId;
        struct fg_link link;
        uint64_t sum;
        if (id == old_counters[index].total) {
            FG_TRY(sum_links(gpu, nvlink, old_counters[index].counter, &sum));
            return fg_field_whole(field, sum);
        }
        unsigned int number = id - old_counters[index].first;
        if (number >= OLD_LINKS)
            number = id - old_counters[index].further < OLD_LINKS ? id - old_counters[index].further + OLD_LINKS
                                                                  : FG_LINKS_MAX;
        if (number < FG_LINKS_MAX) {
            FG_REQUIRE(number < nvlink->count, NVML_ERROR_NOT_SUPPORTED);
            FG_TRY(read_link(gpu, nvlink, number, &link));
            return fg_field_whole(field, link.errors[old_counters[index].counter]);
        }
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t answer_speed(const struct fg_nvlink *nvlink, nvmlFieldValue_t *field, unsigned int number)
{
    FG_REQUIRE(number < nvlink->count, NVML_ERROR_NOT_SUPPORTED);
    return fg_field_small(field, speed_mbps(nvlink));
}

/* Fields that take the link from `scopeId`. */
static nvmlReturn_t answer_of_link(const struct fg_gpu *gpu, const struct fg_nvlink *nvlink, nvmlFieldValue_t *field)
{
    struct fg_link link;
    FG_TRY(read_link(gpu, nvlink, field->scopeId, &link));
    switch (field->fieldId) {
    case NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY: return fg_field_whole(field, link.errors[NVML_NVLINK_ERROR_DL_REPLAY]);
    case NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY: return fg_field_whole(field, link.errors[NVML_NVLINK_ERROR_DL_RECOVERY]);
    case NVML_FI_DEV_NVLINK_ERROR_DL_CRC: return fg_field_whole(field, link.errors[NVML_NVLINK_ERROR_DL_CRC_FLIT]);
    case NVML_FI_DEV_NVLINK_GET_SPEED: return fg_field_small(field, link.is_active ? speed_mbps(nvlink) : 0);
    case NVML_FI_DEV_NVLINK_GET_STATE: return fg_field_small(field, link.is_active);
    case NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID: return fg_field_small(field, field->scopeId);
    default: return fg_field_small(field, NVML_NVLINK_POWER_STATE_HIGH_SPEED);
    }
}

/* Traffic is counted for the whole GPU, and each link has its equal part of it. */
static nvmlReturn_t answer_throughput(const struct fg_gpu *gpu, const struct fg_nvlink *nvlink,
                                      nvmlFieldValue_t *field)
{
    FG_READ(gpu, counters, counters);
    bool is_sent = field->fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX ||
                   field->fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX;
    uint64_t total = is_sent ? counters.nvlink_tx_kib : counters.nvlink_rx_kib;
    if (field->scopeId == UINT32_MAX)
        return fg_field_whole(field, total);
    FG_REQUIRE(field->scopeId < nvlink->count, NVML_ERROR_INVALID_ARGUMENT);
    return fg_field_whole(field, total / nvlink->count);
}

static nvmlReturn_t answer_threshold(const struct fg_nvlink *nvlink, nvmlFieldValue_t *field)
{
    bool is_supported = nvlink->version >= 4;
    if (field->fieldId == NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_SUPPORTED)
        return fg_field_small(field, is_supported);
    FG_REQUIRE(is_supported, NVML_ERROR_NOT_SUPPORTED);
    switch (field->fieldId) {
    case NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_MIN: return fg_field_small(field, NVML_NVLINK_LOW_POWER_THRESHOLD_MIN);
    case NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_MAX: return fg_field_small(field, NVML_NVLINK_LOW_POWER_THRESHOLD_MAX);
    case NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_UNITS:
        return fg_field_small(field, NVML_NVLINK_LOW_POWER_THRESHOLD_UNIT_100US);
    default: return fg_field_small(field, nvlink->low_power_threshold);
    }
}

static nvmlReturn_t count_links_to_switches(const struct fg_gpu *gpu, const struct fg_nvlink *nvlink,
                                            nvmlFieldValue_t *field)
{
    unsigned int found = 0;
    for (unsigned int number = 0; number < nvlink->count && number < FG_LINKS_MAX; number++) {
        struct fg_link link;
        FG_TRY(read_link(gpu, nvlink, number, &link));
        found += link.is_active && link.remote_type == NVML_NVLINK_DEVICE_TYPE_SWITCH;
    }
    return fg_field_small(field, found);
}

nvmlReturn_t fg_nvlink_field(const struct fg_gpu *gpu, nvmlFieldValue_t *field)
{
    FG_READ(gpu, nvlink, nvlink);
    unsigned int id = field->fieldId;
    FG_REQUIRE(nvlink.count > 0, NVML_ERROR_NOT_SUPPORTED);
    switch (id) {
    case NVML_FI_DEV_NVLINK_LINK_COUNT: return fg_field_small(field, nvlink.count);
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 ... NVML_FI_DEV_NVLINK_SPEED_MBPS_L5:
        return answer_speed(&nvlink, field, id - NVML_FI_DEV_NVLINK_SPEED_MBPS_L0);
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 ... NVML_FI_DEV_NVLINK_SPEED_MBPS_L11:
        return answer_speed(&nvlink, field, id - NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + OLD_LINKS);
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: return answer_speed(&nvlink, field, 0);
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX ... NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX:
        return answer_throughput(gpu, &nvlink, field);
    case NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT: return count_links_to_switches(gpu, &nvlink, field);
    case NVML_FI_DEV_NVLINK_GET_VERSION: return fg_field_small(field, fg_nvlink_version_code(nvlink.version));
    case NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID:
    case NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY ... NVML_FI_DEV_NVLINK_GET_STATE:
    case NVML_FI_DEV_NVLINK_GET_POWER_STATE: return answer_of_link(gpu, &nvlink, field);
    case NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD:
    case NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_MAX:
    case NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_MIN ... NVML_FI_DEV_NVLINK_GET_POWER_THRESHOLD_SUPPORTED:
        return answer_threshold(&nvlink, field);
    default: return answer_old_counter(gpu, &nvlink, field);
    }
}

bool fg_is_nvlink_counter(unsigned int field)
{
    if (field >= NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY && field <= NVML_FI_DEV_NVLINK_ERROR_DL_CRC)
        return true;
    for (unsigned int index = 0; index < sizeof old_counters / sizeof *old_counters; index++) {
        if (field - old_counters[index].first < OLD_LINKS || field - old_counters[index].further < OLD_LINKS ||
            field == old_counters[index].total)
            return true;
    }
    return false;
}
