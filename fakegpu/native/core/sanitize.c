/* Which states there can be. */
#include "core/sanitize.h"

#define MEMORY_SLICES_MAX 8u
#define COMPUTE_SLICES_MAX 7u
#define COMPUTE_PROFILES 5u /* of 1, 2, 3, 4 and 7 slices */

#define MINORS_MAX 4096u
#define LARGEST_BYTES (UINT64_C(1) << 45)

#define AT_MOST(value, limit) ((value) = (value) < (limit) ? (value) : (limit))

static void sanitize_profile(const struct fg_mig *mig, struct fg_mig_profile *profile)
{
    bool can_be = profile->size >= 1 && profile->size <= mig->memory_slices && profile->slices <= COMPUTE_SLICES_MAX &&
                  profile->starts >> mig->memory_slices == 0;
    profile->name[sizeof profile->name - 1] = '\0';
    for (char *character = profile->name; *character != '\0'; character++)
        if ((unsigned char)*character >= 0x80)
            *character = '?';
    if (profile->is_here && !can_be)
        *profile = (struct fg_mig_profile){0};
}

/* A GPU without MIG has no slices of memory, no profile and no instance. */
void fg_sanitize_mig(struct fg_mig *mig)
{
    AT_MOST(mig->memory_slices, MEMORY_SLICES_MAX);
    AT_MOST(mig->compute_slices, COMPUTE_SLICES_MAX);
    for (unsigned int index = 0; index < FG_MIG_PROFILES; index++)
        sanitize_profile(mig, &mig->profiles[index]);
    for (unsigned int id = 0; id < FG_GPU_INSTANCES; id++) {
        struct fg_gpu_instance *instance = &mig->gpu_instances[id];
        if (instance->is_here && (instance->profile >= FG_MIG_PROFILES || !mig->profiles[instance->profile].is_here ||
                                  instance->start >= mig->memory_slices))
            *instance = (struct fg_gpu_instance){0};
    }
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++) {
        struct fg_compute_instance *part = &mig->compute_instances[slot];
        if (part->is_here && (part->gpu_instance >= FG_GPU_INSTANCES || !mig->gpu_instances[part->gpu_instance].is_here ||
                              part->id >= FG_COMPUTE_INSTANCES || part->profile >= COMPUTE_PROFILES ||
                              part->start >= COMPUTE_SLICES_MAX))
            *part = (struct fg_compute_instance){0};
    }
}

#define END(text) ((text)[sizeof(text) - 1] = '\0')

void fg_sanitize_state(struct fg_gpu_state *state)
{
    struct fg_identity *identity = &state->identity;
    END(identity->name);
    END(identity->uuid);
    END(identity->serial);
    END(identity->part_number);
    END(identity->vbios_version);
    END(identity->inforom_image);
    END(identity->inforom_oem);
    END(identity->inforom_ecc);
    END(identity->inforom_power);
    END(identity->gsp_firmware);
    END(state->firmware.hostname);
    AT_MOST(state->fans.count, FG_FANS_MAX);
    AT_MOST(state->nvlink.count, FG_LINKS_MAX);
    AT_MOST(state->processes.count, FG_PROCESSES_MAX);
    fg_sanitize_mig(&state->mig);
}

/* All texts are printable ASCII. */
static bool is_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static bool are_texts(const struct fg_gpu_state *state)
{
    const struct fg_identity *identity = &state->identity;
    return is_text(identity->name) && is_text(identity->uuid) && is_text(identity->serial) &&
           is_text(identity->part_number) && is_text(identity->vbios_version) && is_text(identity->inforom_image) &&
           is_text(identity->inforom_oem) && is_text(identity->inforom_ecc) && is_text(identity->inforom_power) &&
           is_text(identity->gsp_firmware);
}

/* The address and the window onto the memory, from which the files of sysfs are written. */
static bool is_address(const struct fg_pci *pci, const struct fg_memory *memory)
{
    return pci->domain <= 0xffffff && pci->bus <= 0xff && pci->device <= 0x1f && pci->link_generation <= 15 &&
           pci->link_generation_max <= 15 && pci->link_width <= 32 && pci->link_width_max <= 32 &&
           memory->bar1_total_bytes <= LARGEST_BYTES;
}

bool fg_is_sound(const struct fg_gpu_state *state)
{
    for (unsigned int index = 0; index < FG_MIG_PROFILES; index++)
        if (!is_text(state->mig.profiles[index].name))
            return false;
    return are_texts(state) && is_address(&state->pci, &state->memory) &&
           state->identity.minor_number < MINORS_MAX;
}
