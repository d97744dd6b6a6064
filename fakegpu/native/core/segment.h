/* Finding and mapping the segment file. */
#ifndef FAKEGPU_SEGMENT_H
#define FAKEGPU_SEGMENT_H

#include "nvml/api.h"

#include <limits.h>

/* Maps the segment this process belongs to. A mapping is never undone: a thread may still wait inside it. When the
 * file is the one mapped last time, that mapping is returned again, so handles outlive nvmlShutdown. */
nvmlReturn_t fg_segment_attach(const struct fg_segment **segment);

/* Whether the attached segment is an installed driver's: what a process may see is what it has device nodes of. */
extern bool fg_segment_is_installed;

/* Opens the file of an attached segment anew. NO_PERMISSION where the process must not write it, UNKNOWN when the
 * machine was taken down meanwhile. */
nvmlReturn_t fg_segment_open_for_writing(const struct fg_segment *segment, int *file);

/* The folder in which the file of the attached segment lies; false when it is not known. */
bool fg_segment_folder(char folder[PATH_MAX]);

#endif
