/* Finding and mapping the segment file. */
#ifndef FAKEGPU_SEGMENT_H
#define FAKEGPU_SEGMENT_H

#include <limits.h>
#include <stdbool.h>

#include "core/result.h"
#include "core/layout.h"

/* Maps the segment this process belongs to. A mapping is never undone: a thread may still wait inside it. When the
 * file is the one mapped last time, that mapping is returned again, so handles outlive nvmlShutdown. */
nvmlReturn_t fg_segment_attach(const struct fg_segment **segment);

/* Whether the attached segment is that of an installed driver: a process sees the GPUs whose device nodes it has. */
extern bool fg_segment_is_installed;

/* GPUs of the attached segment; the file may say anything by now. */
extern uint32_t fg_attached_gpus;

#define FG_LOCK_WAIT_MS 2000u

/* The attached segment opened again, for writing, with the lock of writers held: by flock(2) on a file that is
 * opened for this, so that threads of one process exclude each other too and a process that is killed leaves nothing
 * locked. */
struct fg_writable {
    struct fg_segment *segment;
    uint32_t gpus;
    int file;
};

/* NO_PERMISSION where the process must not write the file, UNKNOWN when the machine was taken down meanwhile, TIMEOUT
 * where another process keeps the lock for FG_LOCK_WAIT_MS. After success fg_writable_close must follow. */
nvmlReturn_t fg_writable_open(const struct fg_segment *segment, struct fg_writable *writable);

void fg_writable_close(struct fg_writable *writable);

/* The folder of the attached segment's file; false when it is not known. */
bool fg_segment_folder(char folder[PATH_MAX]);

#endif
