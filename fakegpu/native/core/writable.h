/* The segment opened once more, for writing, with the lock of writers held: by flock(2) on a file that is opened for
 * this, so that threads of one process exclude each other as well and a process that is killed leaves nothing locked. */
#ifndef FAKEGPU_WRITABLE_H
#define FAKEGPU_WRITABLE_H

#include "nvml/api.h"

struct fg_writable {
    struct fg_segment *segment;
    size_t size;
    int file;
};

/* NO_PERMISSION where the process cannot write the file. After success fg_writable_close must follow. */
nvmlReturn_t fg_writable_open(const struct fg_segment *segment, struct fg_writable *writable);

void fg_writable_close(struct fg_writable *writable);

#endif
