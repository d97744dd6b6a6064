/* The mapped segment files of this process. See mapping.c. */
#ifndef FAKEGPU_MAPPING_H
#define FAKEGPU_MAPPING_H

#include <stdbool.h>

#include "core/layout.h"

/* Records a mapping of fg_segment_bytes(gpus) bytes before anybody reads it; false where there is no memory for that. */
bool fg_mapping_add(const struct fg_segment *segment, uint32_t gpus);

/* Forgets it; before it is unmapped. */
void fg_mapping_remove(const struct fg_segment *segment);

/* GPUs of a recorded mapping, whatever its file says by now; zero for any other address. */
uint32_t fg_gpu_count(const struct fg_segment *segment);

/* The two banks of a GPU, whatever `banks_at` says by now; NULL outside of recorded mappings. */
const struct fg_bank *fg_banks_of(const struct fg_gpu *gpu);

#endif
