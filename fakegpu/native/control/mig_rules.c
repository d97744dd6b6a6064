/* What fits where on a partitioned GPU.
 *
 * Memory is cut into slices, and an instance occupies those of its placement. Where the caller leaves the choice, the
 * instance takes the place that makes the fewest other placements impossible, the lowest of equals; so seven of the
 * smallest get the ids 13, 11, 12, 7, 8, 9, 10 as on an A100.
 * Source: NVIDIA Multi-Instance GPU User Guide, "Getting Started with MIG": placements, order of ids, profiles of
 * compute instances.
 */
#include "control/mig_rules.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static uint32_t span(unsigned int start, unsigned int size)
{
    return ((1u << size) - 1u) << start;
}

static bool is_start(const struct fg_mig_profile *profile, unsigned int start)
{
    return start < 32 && (profile->starts >> start & 1u) != 0;
}

const struct fg_mig_profile *fg_mig_profile_by_id(const struct fg_mig *mig, unsigned int id, unsigned int *profile)
{
    for (unsigned int index = 0; index < FG_MIG_PROFILES; index++) {
        if (mig->profiles[index].is_here && mig->profiles[index].id == id) {
            *profile = index;
            return &mig->profiles[index];
        }
    }
    return NULL;
}

static uint32_t occupied(const struct fg_mig *mig)
{
    uint32_t slices = 0;
    for (unsigned int id = 0; id < FG_GPU_INSTANCES; id++) {
        const struct fg_gpu_instance *instance = &mig->gpu_instances[id];
        if (instance->is_here)
            slices |= span(instance->start, mig->profiles[instance->profile].size);
    }
    return slices;
}

/* What the whole GPU has besides memory: its largest profile has all of it. */
static const struct fg_mig_profile *largest(const struct fg_mig *mig)
{
    const struct fg_mig_profile *found = &mig->profiles[0];
    for (unsigned int index = 0; index < FG_MIG_PROFILES; index++)
        if (mig->profiles[index].is_here && mig->profiles[index].slices > found->slices)
            found = &mig->profiles[index];
    return found;
}

/* How many of `profile` the engines and slices of compute allow beside the instances that exist. */
static unsigned int allowed_by_engines(const struct fg_mig *mig, const struct fg_mig_profile *profile)
{
    const struct fg_mig_profile *whole = largest(mig);
    unsigned int same = 0;
    unsigned int slices = whole->slices, decoders = whole->decoders, jpegs = whole->jpegs, ofas = whole->ofas;
    for (unsigned int id = 0; id < FG_GPU_INSTANCES; id++) {
        if (!mig->gpu_instances[id].is_here)
            continue;
        const struct fg_mig_profile *used = &mig->profiles[mig->gpu_instances[id].profile];
        same += used == profile;
        slices -= used->slices;
        decoders -= used->decoders;
        jpegs -= used->jpegs;
        ofas -= used->ofas;
    }
    unsigned int allowed = same < profile->instances ? profile->instances - same : 0;
#define FG_AT_MOST(left, each)                                                                                         \
    if ((each) > 0 && (left) / (each) < allowed)                                                                       \
        allowed = (left) / (each)
    FG_AT_MOST(slices, profile->slices);
    FG_AT_MOST(decoders, profile->decoders);
    FG_AT_MOST(jpegs, profile->jpegs);
    FG_AT_MOST(ofas, profile->ofas);
    return allowed;
}

unsigned int fg_mig_capacity(const struct fg_mig *mig, unsigned int profile)
{
    const struct fg_mig_profile *wanted = &mig->profiles[profile];
    uint32_t taken = occupied(mig);
    unsigned int fitting = 0, allowed = allowed_by_engines(mig, wanted);
    for (unsigned int start = 0; start < mig->memory_slices; start++) {
        if (!is_start(wanted, start) || (taken & span(start, wanted->size)) != 0)
            continue;
        taken |= span(start, wanted->size);
        fitting++;
    }
    return fitting < allowed ? fitting : allowed;
}

/* Counts the placements of any profile that are possible now and would no longer be. */
static unsigned int spoiled(const struct fg_mig *mig, uint32_t taken, uint32_t wanted)
{
    unsigned int count = 0;
    for (unsigned int index = 0; index < FG_MIG_PROFILES; index++) {
        const struct fg_mig_profile *profile = &mig->profiles[index];
        for (unsigned int start = 0; profile->is_here && start < mig->memory_slices; start++) {
            uint32_t place = span(start, profile->size);
            count += is_start(profile, start) && (place & taken) == 0 && (place & wanted) != 0;
        }
    }
    return count;
}

static unsigned int best_start(const struct fg_mig *mig, const struct fg_mig_profile *profile)
{
    uint32_t taken = occupied(mig);
    unsigned int best = FG_ANY_START, least = UINT32_MAX;
    for (unsigned int start = 0; start < mig->memory_slices; start++) {
        uint32_t place = span(start, profile->size);
        if (!is_start(profile, start) || (taken & place) != 0)
            continue;
        unsigned int harm = spoiled(mig, taken, place);
        if (harm < least) {
            least = harm;
            best = start;
        }
    }
    return best;
}

/* The whole memory, its halves, quarters and eighths are numbered as the nodes of a tree. */
unsigned int fg_mig_instance_id(const struct fg_mig *mig, unsigned int profile, unsigned int start)
{
    unsigned int size = mig->profiles[profile].size;
    return mig->memory_slices / size - 1u + start / size;
}

nvmlReturn_t fg_mig_create(struct fg_mig *mig, unsigned int profile, unsigned int start, unsigned int *id)
{
    const struct fg_mig_profile *wanted = &mig->profiles[profile];
    FG_REQUIRE(start == FG_ANY_START || is_start(wanted, start), NVML_ERROR_INVALID_ARGUMENT);
    FG_REQUIRE(allowed_by_engines(mig, wanted) > 0, NVML_ERROR_INSUFFICIENT_RESOURCES);
    if (start == FG_ANY_START)
        start = best_start(mig, wanted);
    FG_REQUIRE(start != FG_ANY_START && (occupied(mig) & span(start, wanted->size)) == 0,
               NVML_ERROR_INSUFFICIENT_RESOURCES);
    *id = fg_mig_instance_id(mig, profile, start);
    mig->gpu_instances[*id] = (struct fg_gpu_instance){.is_here = 1, .profile = profile, .start = start};
    return NVML_SUCCESS;
}

nvmlReturn_t fg_mig_destroy(struct fg_mig *mig, unsigned int id)
{
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++)
        FG_REQUIRE(!mig->compute_instances[slot].is_here || mig->compute_instances[slot].gpu_instance != id,
                   NVML_ERROR_IN_USE);
    mig->gpu_instances[id] = (struct fg_gpu_instance){0};
    return NVML_SUCCESS;
}

unsigned int fg_mig_compute_slices(unsigned int profile, unsigned int instance_slices)
{
    static const unsigned int slices_of[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {
        [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE] = 1, [NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE] = 2,
        [NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE] = 3, [NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE] = 4,
        [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE] = 7,
    };
    unsigned int slices = slices_of[profile];
    bool is_a_gap = slices == 3 && instance_slices == 4;
    return slices <= instance_slices && !is_a_gap ? slices : 0;
}

uint32_t fg_mig_compute_starts(unsigned int slices, unsigned int instance_slices)
{
    unsigned int step = slices == 3 ? 4 : slices;
    uint32_t starts = 0;
    for (unsigned int start = 0; slices > 0 && start + slices <= instance_slices; start += step)
        starts |= 1u << start;
    return starts;
}

unsigned int fg_mig_compute_multiprocessors(const struct fg_mig *mig, const struct fg_mig_profile *instance,
                                            unsigned int slices)
{
    return slices == instance->slices ? instance->multiprocessors : slices * mig->slice_multiprocessors;
}

static uint32_t occupied_compute(const struct fg_mig *mig, unsigned int gpu_instance)
{
    unsigned int instance_slices = mig->profiles[mig->gpu_instances[gpu_instance].profile].slices;
    uint32_t slices = 0;
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++) {
        const struct fg_compute_instance *compute = &mig->compute_instances[slot];
        if (compute->is_here && compute->gpu_instance == gpu_instance)
            slices |= span(compute->start, fg_mig_compute_slices(compute->profile, instance_slices));
    }
    return slices;
}

unsigned int fg_mig_compute_capacity(const struct fg_mig *mig, unsigned int gpu_instance, unsigned int profile)
{
    unsigned int instance_slices = mig->profiles[mig->gpu_instances[gpu_instance].profile].slices;
    unsigned int slices = fg_mig_compute_slices(profile, instance_slices), fitting = 0;
    uint32_t starts = fg_mig_compute_starts(slices, instance_slices), taken = occupied_compute(mig, gpu_instance);
    for (unsigned int start = 0; start < instance_slices; start++)
        fitting += (starts >> start & 1u) != 0 && (taken & span(start, slices)) == 0;
    return fitting;
}

static unsigned int free_compute_id(const struct fg_mig *mig, unsigned int gpu_instance)
{
    uint32_t taken = 0;
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++)
        if (mig->compute_instances[slot].is_here && mig->compute_instances[slot].gpu_instance == gpu_instance)
            taken |= 1u << mig->compute_instances[slot].id;
    return (unsigned int)__builtin_ctz(~taken);
}

nvmlReturn_t fg_mig_create_compute(struct fg_mig *mig, unsigned int gpu_instance, unsigned int profile,
                                   unsigned int start, unsigned int *slot)
{
    unsigned int instance_slices = mig->profiles[mig->gpu_instances[gpu_instance].profile].slices;
    unsigned int slices = fg_mig_compute_slices(profile, instance_slices);
    uint32_t starts = fg_mig_compute_starts(slices, instance_slices), taken = occupied_compute(mig, gpu_instance);
    FG_REQUIRE(start == FG_ANY_START || (start < 32 && (starts >> start & 1u) != 0), NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int place = 0; start == FG_ANY_START && place < instance_slices; place++)
        if ((starts >> place & 1u) != 0 && (taken & span(place, slices)) == 0)
            start = place;
    FG_REQUIRE(start != FG_ANY_START && (taken & span(start, slices)) == 0, NVML_ERROR_INSUFFICIENT_RESOURCES);
    for (unsigned int index = 0; index < FG_COMPUTE_INSTANCES; index++) {
        if (mig->compute_instances[index].is_here)
            continue;
        mig->compute_instances[index] = (struct fg_compute_instance){
            .is_here = 1,
            .gpu_instance = gpu_instance,
            .id = free_compute_id(mig, gpu_instance),
            .profile = profile,
            .start = start,
        };
        *slot = index;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

static bool comes_before(const struct fg_compute_instance *one, const struct fg_compute_instance *other)
{
    return one->gpu_instance != other->gpu_instance ? one->gpu_instance < other->gpu_instance : one->id < other->id;
}

int fg_mig_device_slot(const struct fg_mig *mig, unsigned int index)
{
    for (unsigned int slot = 0; slot < FG_COMPUTE_INSTANCES; slot++) {
        unsigned int before = 0;
        for (unsigned int other = 0; other < FG_COMPUTE_INSTANCES; other++)
            before += mig->compute_instances[other].is_here &&
                      comes_before(&mig->compute_instances[other], &mig->compute_instances[slot]);
        if (mig->compute_instances[slot].is_here && before == index)
            return (int)slot;
    }
    return -1;
}

void fg_mig_device_name(const struct fg_mig *mig, const struct fg_compute_instance *device, char name[48])
{
    const struct fg_mig_profile *profile = &mig->profiles[mig->gpu_instances[device->gpu_instance].profile];
    unsigned int slices = fg_mig_compute_slices(device->profile, profile->slices);
    fg_mig_compute_name(profile, slices, name);
}

/* The name leaves out what the GPU instance has in addition ("+me"). */
void fg_mig_compute_name(const struct fg_mig_profile *profile, unsigned int slices, char name[48])
{
    int length = (int)strcspn(profile->name, "+");
    if (slices == profile->slices)
        snprintf(name, 48, "%.*s", length, profile->name);
    else
        snprintf(name, 48, "%uc.%.*s", slices, length, profile->name);
}

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

void fg_mig_uuid(const char *gpu_uuid, const struct fg_compute_instance *device, char uuid[FG_MIG_UUID_SIZE])
{
    uint64_t high = device->gpu_instance + 1u, low = device->id + 1u;
    for (const char *digit = gpu_uuid; *digit != '\0'; digit++) {
        high = mixed(high ^ (uint64_t)(unsigned char)*digit) + low;
        low = mixed(low + high);
    }
    /* Name-based, as those of a driver: version 5, RFC 9562's variant. */
    high = (high & ~UINT64_C(0xf000)) | UINT64_C(0x5000);
    low = (low & UINT64_C(0x3fffffffffffffff)) | UINT64_C(0x8000000000000000);
    snprintf(uuid, FG_MIG_UUID_SIZE, "MIG-%08x-%04x-%04x-%04x-%012llx", (unsigned int)(high >> 32),
             (unsigned int)(high >> 16 & 0xffff), (unsigned int)(high & 0xffff), (unsigned int)(low >> 48),
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}
