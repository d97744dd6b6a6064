/* Finding and mapping the segment file: FAKEGPU_SEGMENT, else `segment` in the directory above the library's own, else
 * the one that is installed beside the library under the library's version: libfakegpu.so.595.45.04. */
#define _GNU_SOURCE
#include "core/segment.h"
#include "core/clock.h"
#include "core/mapping.h"

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
uint32_t fg_attached_gpus;

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

/* What must be right before the file is mapped. */
static nvmlReturn_t check(int file, uint64_t file_bytes, uint32_t *gpus)
{
    struct {
        uint64_t magic;
        uint32_t version, gpu_count;
        uint64_t size_bytes;
    } head;
    _Static_assert(offsetof(struct fg_segment, size_bytes) == 16, "the segment begins so");
    if (file_bytes < sizeof(struct fg_segment) || pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        head.magic != FG_MAGIC)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (head.version != FG_VERSION || head.gpu_count > FG_GPUS_MAX)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    uint64_t expected = fg_segment_bytes(head.gpu_count);
    if (head.size_bytes != expected || file_bytes < expected)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    *gpus = head.gpu_count;
    return NVML_SUCCESS;
}

static nvmlReturn_t map_memory(int file, int access, uint32_t gpus, struct fg_segment **segment)
{
    void *memory = mmap(NULL, fg_segment_bytes(gpus), access, MAP_SHARED, file, 0);
    FG_REQUIRE(memory != MAP_FAILED, NVML_ERROR_OPERATING_SYSTEM);
    if (!fg_mapping_add(memory, gpus)) {
        munmap(memory, fg_segment_bytes(gpus));
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    *segment = memory;
    return NVML_SUCCESS;
}

static void unmap(struct fg_segment *segment, uint32_t gpus)
{
    fg_mapping_remove(segment);
    munmap(segment, fg_segment_bytes(gpus));
}

/* Whether the mapping no longer shows its file, which became shorter. */
static bool has_lost_mapping(void)
{
    return mapped != NULL && __atomic_load_n(&mapped->magic, __ATOMIC_RELAXED) != FG_MAGIC;
}

/* In the same place, so that a process that initialises again and again has one mapping. */
static nvmlReturn_t map_again(int file, uint32_t gpus, struct fg_segment **segment)
{
    void *place = (void *)(uintptr_t)mapped;
    *segment = mmap(place, fg_segment_bytes(gpus), PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
    return *segment != MAP_FAILED ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

static nvmlReturn_t map_file(const char *path, int file, const struct stat *status, const struct fg_segment **segment)
{
    struct fg_segment *memory;
    uint32_t gpus;
    FG_TRY(check(file, (uint64_t)status->st_size, &gpus));
    if (has_lost_mapping() && fg_attached_gpus == gpus)
        FG_TRY(map_again(file, gpus, &memory));
    else
        FG_TRY(map_memory(file, PROT_READ, gpus, &memory));
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        if (memory->gpus[gpu].banks_at != fg_banks_at(gpu, gpus)) {
            if (memory != mapped)
                unmap(memory, gpus);
            return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
        }
    }
    if (memory != mapped || mapped_path == NULL || status->st_ino != mapped_inode)
        mapped_path = realpath(path, NULL);
    mapped = memory;
    mapped_device = status->st_dev;
    mapped_inode = status->st_ino;
    fg_attached_gpus = gpus;
    *segment = mapped;
    return NVML_SUCCESS;
}

static bool is_mapped(const struct stat *status)
{
    return mapped != NULL && status->st_dev == mapped_device && status->st_ino == mapped_inode && !has_lost_mapping();
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
        if (is_mapped(&status)) {
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
    *file = open(mapped_path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    FG_REQUIRE(*file >= 0, errno == ENOENT ? NVML_ERROR_UNKNOWN : NVML_ERROR_NO_PERMISSION);
    if (fstat(*file, &status) == 0 && status.st_dev == mapped_device && status.st_ino == mapped_inode &&
        (uint64_t)status.st_size >= fg_segment_bytes(fg_attached_gpus))
        return NVML_SUCCESS;
    close(*file);
    return NVML_ERROR_UNKNOWN;
}

/* A process that keeps the lock is waited for once: afterwards each call looks only whether it is free. */
static nvmlReturn_t lock(int file)
{
    static bool has_waited_in_vain;
    struct timespec pause = {0, 200000};
    uint64_t deadline_ns = fg_monotonic_ns() + (uint64_t)FG_LOCK_WAIT_MS * 1000000u;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        FG_REQUIRE(errno == EWOULDBLOCK || errno == EINTR, NVML_ERROR_OPERATING_SYSTEM);
        if (__atomic_load_n(&has_waited_in_vain, __ATOMIC_RELAXED) || fg_monotonic_ns() >= deadline_ns) {
            __atomic_store_n(&has_waited_in_vain, true, __ATOMIC_RELAXED);
            return NVML_ERROR_TIMEOUT;
        }
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        pause.tv_nsec = pause.tv_nsec < 10000000 ? pause.tv_nsec * 2 : pause.tv_nsec;
    }
    __atomic_store_n(&has_waited_in_vain, false, __ATOMIC_RELAXED);
    return NVML_SUCCESS;
}

nvmlReturn_t fg_writable_open(const struct fg_segment *segment, struct fg_writable *writable)
{
    FG_TRY(open_for_writing(segment, &writable->file));
    writable->gpus = fg_attached_gpus;
    nvmlReturn_t result = lock(writable->file);
    if (result == NVML_SUCCESS)
        result = map_memory(writable->file, PROT_READ | PROT_WRITE, writable->gpus, &writable->segment);
    if (result != NVML_SUCCESS)
        close(writable->file);
    return result;
}

void fg_writable_close(struct fg_writable *writable)
{
    unmap(writable->segment, writable->gpus);
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
