/* Opening the segment for writing, and giving it back. */
#include "core/writable.h"
#include "core/segment.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

nvmlReturn_t fg_writable_open(const struct fg_segment *segment, struct fg_writable *writable)
{
    FG_TRY(fg_segment_open_for_writing(segment, &writable->file));
    int locked;
    while ((locked = flock(writable->file, LOCK_EX)) != 0 && errno == EINTR)
        ;
    writable->size = (size_t)segment->size_bytes;
    void *memory = MAP_FAILED;
    if (locked == 0)
        memory = mmap(NULL, writable->size, PROT_READ | PROT_WRITE, MAP_SHARED, writable->file, 0);
    if (memory == MAP_FAILED) {
        close(writable->file);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    writable->segment = memory;
    return NVML_SUCCESS;
}

void fg_writable_close(struct fg_writable *writable)
{
    munmap(writable->segment, writable->size);
    /* Not left to close(2): a child that was forked meanwhile shares the lock until it ends. */
    flock(writable->file, LOCK_UN);
    close(writable->file);
}
