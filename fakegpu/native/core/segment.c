/* Finding and mapping the segment file: FAKEGPU_SEGMENT, else `segment` in the directory above the library's own, else
 * the one that is installed beside the library under the library's version: libfakegpu.so.595.45.04. */
#define _GNU_SOURCE
#include "core/segment.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct fg_segment *mapped;
static dev_t mapped_device;
static ino_t mapped_inode;
static char *mapped_path; /* absolute; NULL: not known. Never freed, as the mapping is never undone */
bool fg_segment_is_installed;

/* Removes the last component of `path`; false when there is none. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

static bool path_of_library(char path[PATH_MAX])
{
    Dl_info library;
    return dladdr((const void *)&mapped, &library) != 0 && library.dli_fname != NULL &&
           realpath(library.dli_fname, path) != NULL;
}

static bool above_the_library(char path[PATH_MAX])
{
    static const char name[] = "/segment";
    if (!path_of_library(path) || !to_parent(path) || !to_parent(path) || strlen(path) + sizeof name > PATH_MAX)
        return false;
    strcat(path, name);
    return true;
}

static bool beside_the_library(char path[PATH_MAX])
{
    char library[PATH_MAX];
    if (!path_of_library(library))
        return false;
    const char *version = strstr(strrchr(library, '/'), ".so.");
    if (version == NULL)
        return false;
    memcpy(path, library, sizeof library);
    to_parent(path);
    size_t folder = strlen(path);
    return (size_t)snprintf(path + folder, PATH_MAX - folder, "/libfakegpu%s", version) < PATH_MAX - folder;
}

static nvmlReturn_t check(const struct fg_segment *segment, uint64_t file_bytes)
{
    if (segment->magic != FG_MAGIC)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (segment->version != FG_VERSION || segment->gpu_count > FG_GPUS_MAX)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    uint64_t expected = fg_segment_bytes(segment->gpu_count);
    if (segment->size_bytes != expected || file_bytes < expected)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    for (uint32_t gpu = 0; gpu < segment->gpu_count; gpu++)
        if (segment->gpus[gpu].banks_at != fg_banks_at(gpu, segment->gpu_count))
            return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    return NVML_SUCCESS;
}

static nvmlReturn_t map_file(const char *path, int file, const struct stat *status, const struct fg_segment **segment)
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
    mapped_path = realpath(path, NULL);
    mapped = memory;
    mapped_device = status->st_dev;
    mapped_inode = status->st_ino;
    *segment = mapped;
    return NVML_SUCCESS;
}

nvmlReturn_t fg_segment_attach(const struct fg_segment **segment)
{
    char found[PATH_MAX];
    const char *path = getenv("FAKEGPU_SEGMENT");
    bool is_installed = false;
    if (path == NULL || *path == '\0') {
        if (!above_the_library(found) || access(found, F_OK) != 0) {
            is_installed = true;
            if (!beside_the_library(found))
                return NVML_ERROR_DRIVER_NOT_LOADED;
        }
        path = found;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe would wait for a writer */
    if (file < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    struct stat status;
    nvmlReturn_t result = NVML_ERROR_DRIVER_NOT_LOADED;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        if (mapped != NULL && status.st_dev == mapped_device && status.st_ino == mapped_inode) {
            *segment = mapped;
            result = NVML_SUCCESS;
        } else {
            result = map_file(path, file, &status, segment);
        }
    }
    close(file);
    if (result == NVML_SUCCESS)
        fg_segment_is_installed = is_installed;
    return result;
}

static nvmlReturn_t open_for_writing(const struct fg_segment *segment, int *file)
{
    struct stat status;
    FG_REQUIRE(segment == mapped && mapped_path != NULL, NVML_ERROR_UNKNOWN);
    *file = open(mapped_path, O_RDWR | O_CLOEXEC);
    FG_REQUIRE(*file >= 0, errno == ENOENT ? NVML_ERROR_UNKNOWN : NVML_ERROR_NO_PERMISSION);
    if (fstat(*file, &status) == 0 && status.st_dev == mapped_device && status.st_ino == mapped_inode &&
        (uint64_t)status.st_size >= segment->size_bytes)
        return NVML_SUCCESS;
    close(*file);
    return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t fg_writable_open(const struct fg_segment *segment, struct fg_writable *writable)
{
    FG_TRY(open_for_writing(segment, &writable->file));
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
    /* close(2) is not enough: a child that was forked meanwhile shares the lock until it ends. */
    flock(writable->file, LOCK_UN);
    close(writable->file);
}

bool fg_segment_folder(char folder[PATH_MAX])
{
    if (mapped_path == NULL)
        return false;
    strcpy(folder, mapped_path);
    return to_parent(folder);
}
