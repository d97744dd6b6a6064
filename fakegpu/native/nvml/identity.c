/* Identity of the board: names, numbers, firmware. */
#include "nvml/mig.h"
#include "nvml/visible.h"

#include <stdio.h>
#include <string.h>

/* Any text of a GPU's UUID, and those of MIG devices. */
static FG_APART nvmlReturn_t answer_any_uuid(const struct fg_gpu *gpu, int slot, char *uuid, unsigned int length)
{
    FG_READ_EVEN_IF_LOST(gpu, identity.uuid, text);
    if (slot < 0)
        return FG_ANSWER_TEXT(text, uuid, length);
    char mig_uuid[FG_MIG_UUID_SIZE];
    FG_READ_EVEN_IF_LOST(gpu, mig, mig);
    fg_mig_uuid(text, &mig.compute_instances[slot], mig_uuid);
    return FG_ANSWER_TEXT(mig_uuid, uuid, length);
}

/* Clients ask often, and nearly every UUID has the usual length: its words go from the segment to the caller by way of
 * registers, without a copy that is read at once in another width. */
FG_API nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    enum { SIZE = sizeof "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", WHOLE_WORDS = SIZE / sizeof(fg_word) };
    _Static_assert(SIZE == WHOLE_WORDS * sizeof(fg_word) + 1, "the last word begins with the end of the text");
    FG_ENTER_ANY(device, uuid != NULL);
    fg_word words[WHOLE_WORDS + 1];
    bool is_lost; /* and is reported nevertheless */
    FG_TRY(fg_read(gpu, offsetof(struct fg_gpu_state, identity.uuid), words, sizeof words, &is_lost));
    bool is_usual = (words[WHOLE_WORDS] & UINT8_MAX) == 0;
    if (__builtin_expect(!is_usual || length < SIZE || FG_IS_MIG_DEVICE, 0))
        return answer_any_uuid(gpu, slot, uuid, length);
    FG_UNROLL
    for (size_t word = 0; word < WHOLE_WORDS; word++)
        memcpy(uuid + word * sizeof(fg_word), &words[word], sizeof(fg_word));
    uuid[SIZE - 1] = '\0';
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    FG_ENTER_ANY(device, name != NULL);
    FG_READ(gpu, identity.name, text);
    if (!FG_IS_MIG_DEVICE)
        return FG_ANSWER_TEXT(text, name, length);
    char part[48], whole[sizeof text + sizeof part + sizeof " MIG "];
    FG_READ(gpu, mig, mig);
    fg_mig_device_name(&mig, &mig.compute_instances[slot], part);
    snprintf(whole, sizeof whole, "%.*s MIG %s", (int)sizeof text, text, part);
    return FG_ANSWER_TEXT(whole, name, length);
}

FG_API nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    FG_ENTER(device, minor != NULL);
    FG_READ_EVEN_IF_LOST(gpu, identity, identity);
    *minor = identity.minor_number;
    return NVML_SUCCESS;
}

/* A board without the text (a consumer board has no serial number) does not support the question. */
#define FG_TEXT_GETTER(function, member)                                                                               \
    FG_API function(nvmlDevice_t device, char *out, unsigned int length)                                               \
    {                                                                                                                  \
        FG_ENTER(device, out != NULL);                                                                                 \
        FG_READ(gpu, identity.member, text);                                                                           \
        FG_REQUIRE(text[0] != '\0', NVML_ERROR_NOT_SUPPORTED);                                                         \
        return FG_ANSWER_TEXT(text, out, length);                                                                      \
    }

FG_TEXT_GETTER(nvmlDeviceGetSerial, serial)
FG_TEXT_GETTER(nvmlDeviceGetBoardPartNumber, part_number)
FG_TEXT_GETTER(nvmlDeviceGetVbiosVersion, vbios_version)
FG_TEXT_GETTER(nvmlDeviceGetInforomImageVersion, inforom_image)

FG_API nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *version, unsigned int length)
{
    FG_ENTER(device, version != NULL && (unsigned int)object < NVML_INFOROM_COUNT);
    FG_READ(gpu, identity, identity);
    const char *texts[NVML_INFOROM_COUNT] = {
        [NVML_INFOROM_OEM] = identity.inforom_oem,
        [NVML_INFOROM_ECC] = identity.inforom_ecc,
        [NVML_INFOROM_POWER] = identity.inforom_power,
    };
    FG_REQUIRE(texts[object] != NULL && texts[object][0] != '\0', NVML_ERROR_NOT_SUPPORTED);
    return fg_answer_text(texts[object], sizeof identity.inforom_oem, version, length);
}

FG_API nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    FG_ENTER(device, version != NULL);
    FG_READ(gpu, identity.gsp_firmware, text);
    FG_REQUIRE(text[0] != '\0', NVML_ERROR_NOT_SUPPORTED);
    return FG_ANSWER_TEXT(text, version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}

FG_API nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int *is_enabled, unsigned int *default_mode)
{
    FG_ENTER(device, is_enabled != NULL && default_mode != NULL);
    FG_READ(gpu, identity.gsp_firmware, text);
    *is_enabled = *default_mode = text[0] != '\0';
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    FG_ENTER(device, major != NULL && minor != NULL);
    FG_READ(gpu, identity, identity);
    *major = (int)identity.compute_major;
    *minor = (int)identity.compute_minor;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int *on_same_board)
{
    FG_ENTER(device, on_same_board != NULL);
    const struct fg_gpu *other_gpu = fg_gpu_of(segment, other);
    FG_REQUIRE(other_gpu != NULL, NVML_ERROR_INVALID_ARGUMENT);
    FG_READ(gpu, placement, mine);
    FG_READ(other_gpu, placement, theirs);
    *on_same_board = mine.board == theirs.board;
    return NVML_SUCCESS;
}

FG_API nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *is_multi_gpu)
{
    FG_ENTER(device, is_multi_gpu != NULL);
    FG_READ(gpu, placement, mine);
    *is_multi_gpu = 0;
    for (unsigned int position = 0; position < fg_visible_count; position++) {
        FG_READ_EVEN_IF_LOST(fg_visible_gpu(segment, position), placement, theirs);
        if (fg_visible_gpu(segment, position) != gpu && theirs.board == mine.board)
            *is_multi_gpu = 1;
    }
    return NVML_SUCCESS;
}

FG_GETTER(nvmlDeviceGetBrand, nvmlBrandType_t, identity, true, identity.brand)
FG_GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, identity, true, identity.architecture)
FG_GETTER(nvmlDeviceGetBoardId, unsigned int, identity, true, identity.board_id)
FG_GETTER(nvmlDeviceGetModuleId, unsigned int, identity, true, identity.module_id)
FG_GETTER(nvmlDeviceGetNumGpuCores, unsigned int, identity, true, identity.core_count)
