/* Finding and mapping the segment file: FAKEGPU_SEGMENT, else `segment` in the directory above the library's own. */
#define _GNU_SOURCE
#include "segment.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct fg_segment *mapped;
static dev_t mapped_device;
static ino_t mapped_inode;

/* Cuts the last component off `path`; false when there is none. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

static bool beside_the_library(char path[PATH_MAX])
{
    static const char name[] = "/segment";
    Dl_info library;
    if (dladdr((const void *)&mapped, &library) == 0 || library.dli_fname == NULL)
        return false;
    if (realpath(library.dli_fname, path) == NULL || !to_parent(path) || !to_parent(path))
        return false;
    if (strlen(path) + sizeof name > PATH_MAX)
        return false;
    strcat(path, name);
    return true;
}

static nvmlReturn_t check(const struct fg_segment *segment, uint64_t file_bytes)
{
    if (segment->magic != FG_MAGIC)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (segment->version != FG_VERSION || segment->gpu_count > FG_GPUS_MAX)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    uint64_t expected = sizeof *segment + (uint64_t)segment->gpu_count * sizeof(struct fg_gpu);
    if (segment->size_bytes != expected || file_bytes < expected)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    return NVML_SUCCESS;
}

static nvmlReturn_t map_file(int file, const struct stat *status, const struct fg_segment **segment)
{
    size_t size = (size_t)status->st_size;
    if (size < sizeof(struct fg_segment))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return NVML_ERROR_OPERATING_SYSTEM;
    nvmlReturn_t result = check(memory, size);
    if (result != NVML_SUCCESS) {
        munmap(memory, size);
        return result;
    }
    mapped = memory;
    mapped_device = status->st_dev;
    mapped_inode = status->st_ino;
    *segment = mapped;
    return NVML_SUCCESS;
}

nvmlReturn_t fg_segment_attach(const struct fg_segment **segment)
{
    char beside[PATH_MAX];
    const char *path = getenv("FAKEGPU_SEGMENT");
    if (path == NULL || *path == '\0') {
        if (!beside_the_library(beside))
            return NVML_ERROR_DRIVER_NOT_LOADED;
        path = beside;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    struct stat status;
    nvmlReturn_t result = NVML_ERROR_DRIVER_NOT_LOADED;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        if (mapped != NULL && status.st_dev == mapped_device && status.st_ino == mapped_inode) {
            *segment = mapped;
            result = NVML_SUCCESS;
        } else {
            result = map_file(file, &status, segment);
        }
    }
    close(file);
    return result;
}
