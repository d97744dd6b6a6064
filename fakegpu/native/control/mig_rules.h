/* The rules of partitioning one GPU: what fits where. They change a copy of a GPU's state and nothing else. */
#ifndef FAKEGPU_MIG_RULES_H
#define FAKEGPU_MIG_RULES_H

#include "core/result.h"
#include "core/layout.h"

/* Leaves the choice of the place to the rules. */
#define FG_ANY_START UINT32_MAX

#define FG_MIG_UUID_SIZE 48u

/* The profile with the id, NULL for none. */
const struct fg_mig_profile *fg_mig_profile_by_id(const struct fg_mig *mig, unsigned int id, unsigned int *profile);

/* How many more instances of a profile fit. */
unsigned int fg_mig_capacity(const struct fg_mig *mig, unsigned int profile);

/* The id that an instance of a profile has at a start. */
unsigned int fg_mig_instance_id(const struct fg_mig *mig, unsigned int profile, unsigned int start);

/* Creates an instance and returns its id in `id`. INSUFFICIENT_RESOURCES where there is no room, INVALID_ARGUMENT
 * for a start at which the profile can never be. */
nvmlReturn_t fg_mig_create(struct fg_mig *mig, unsigned int profile, unsigned int start, unsigned int *id);

/* IN_USE while it has compute instances. */
nvmlReturn_t fg_mig_destroy(struct fg_mig *mig, unsigned int id);

/* Slices of compute that a compute instance profile takes; zero: there is no such profile in an instance of so many. */
unsigned int fg_mig_compute_slices(unsigned int profile, unsigned int instance_slices);

/* Starts at which it can be, as a mask; none for zero slices. */
uint32_t fg_mig_compute_starts(unsigned int slices, unsigned int instance_slices);

unsigned int fg_mig_compute_multiprocessors(const struct fg_mig *mig, const struct fg_mig_profile *instance,
                                            unsigned int slices);

unsigned int fg_mig_compute_capacity(const struct fg_mig *mig, unsigned int gpu_instance, unsigned int profile);

/* The same for compute instances, which have slots beside their ids. */
nvmlReturn_t fg_mig_create_compute(struct fg_mig *mig, unsigned int gpu_instance, unsigned int profile,
                                   unsigned int start, unsigned int *slot);

/* Slot of the `index`-th MIG device in order of GPU instance and compute instance ids; -1: there are not so many. */
int fg_mig_device_slot(const struct fg_mig *mig, unsigned int index);

/* Writes "1g.10gb", or "1c.3g.40gb" for a part of an instance. */
void fg_mig_compute_name(const struct fg_mig_profile *profile, unsigned int slices, char name[48]);
void fg_mig_device_name(const struct fg_mig *mig, const struct fg_compute_instance *device, char name[48]);

/* A MIG device's UUID follows from those of its GPU and its instances, so it is the same when the device is created
 * again. */
void fg_mig_uuid(const char *gpu_uuid, const struct fg_compute_instance *device, char uuid[FG_MIG_UUID_SIZE]);

#endif
