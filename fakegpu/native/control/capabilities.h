/* The files by which a driver grants the use of MIG instances. */
#ifndef FAKEGPU_CAPABILITIES_H
#define FAKEGPU_CAPABILITIES_H

#include "core/layout.h"

/* What a driver reserves minors for: GPU instances of one GPU, and compute instances of each. */
#define FG_CAPABILITY_INSTANCES 15u
#define FG_CAPABILITY_PARTS 8u

/* Minor of the capability of a GPU instance, or of its compute instance `part` where that is not negative. */
uint32_t fg_capability_minor(uint32_t gpu_minor, uint32_t instance, int32_t part);

/* Makes the files of one GPU's instances agree with its state: gpu<minor>/mig/gi<id>/access and ci<id>/access below
 * proc/driver/nvidia/capabilities of a machine's folder, and dev/nvidia-caps/nvidia-cap<n>. A folder without
 * capabilities of this GPU stays as it is. Returns 0, or the first errno. */
int fg_write_capabilities(const char *folder, const struct fg_gpu_state *state);

#endif
