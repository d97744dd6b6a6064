/* One change of one GPU's state, as root. */
#include "nvml/change.h"
#include "core/state_io.h"

#include <unistd.h>

nvmlReturn_t fg_change_begin(const struct fg_segment *segment, const struct fg_gpu *gpu, bool anyone,
                             struct fg_change *change)
{
    FG_REQUIRE(anyone || geteuid() == 0, NVML_ERROR_NO_PERMISSION);
    FG_TRY(fg_writable_open(segment, &change->writable));
    change->gpu = fg_index_of(segment, gpu);
    const struct fg_gpu *changing = &change->writable.segment->gpus[change->gpu];
    bool is_lost;
    nvmlReturn_t result = fg_read(changing, 0, &change->state, sizeof change->state, &is_lost);
    if (result == NVML_SUCCESS && is_lost)
        result = NVML_ERROR_GPU_IS_LOST;
    return result == NVML_SUCCESS ? result : fg_change_abandon(change, result);
}

nvmlReturn_t fg_change_commit(struct fg_change *change)
{
    fg_write_state(&change->writable.segment->gpus[change->gpu], &change->state);
    fg_writable_close(&change->writable);
    return NVML_SUCCESS;
}

nvmlReturn_t fg_change_abandon(struct fg_change *change, nvmlReturn_t result)
{
    fg_writable_close(&change->writable);
    return result;
}
