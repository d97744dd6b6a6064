/* The host: versions, processes, and hardware that fake machines never have. */
#include "nvml/api.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

FG_API nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    FG_ENTER_SYSTEM(version != NULL);
    return FG_ANSWER_TEXT(segment->driver_version, version, length);
}

FG_API nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    FG_ENTER_SYSTEM(version != NULL);
    return FG_ANSWER_TEXT(segment->nvml_version, version, length);
}

FG_API nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *info, unsigned int length)
{
    FG_ENTER_SYSTEM(info != NULL);
    FG_REQUIRE_VERSION(info, nvmlSystemDriverBranchInfo_v1);
    unsigned int room = sizeof info->branch;
    return FG_ANSWER_TEXT(segment->driver_branch, info->branch, length < room ? length : room);
}

FG_API nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    FG_ENTER_SYSTEM(version != NULL);
    *version = segment->cuda_driver_version;
    return NVML_SUCCESS;
}

FG_ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

FG_API nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    FG_ENTER_SYSTEM(name != NULL && length != 0);
    (void)segment;
    char path[64];
    char command[1024];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    FG_REQUIRE(file >= 0, NVML_ERROR_NOT_FOUND);
    ssize_t got = read(file, command, sizeof command - 1);
    close(file);
    FG_REQUIRE(got >= 0, NVML_ERROR_NOT_FOUND);
    FG_REQUIRE(got > 0, NVML_ERROR_NO_DATA); /* a thread of the kernel */
    command[got] = '\0';
    snprintf(name, length, "%s", command); /* cut to the caller's room, as nvml.h says */
    return NVML_SUCCESS;
}

FG_API nvmlSystemGetHicVersion(unsigned int *count, nvmlHwbcEntry_t *entries)
{
    FG_ENTER_SYSTEM(count != NULL);
    (void)segment;
    (void)entries;
    *count = 0;
    return NVML_SUCCESS;
}

FG_API nvmlUnitGetCount(unsigned int *count)
{
    FG_ENTER_SYSTEM(count != NULL);
    (void)segment;
    *count = 0;
    return NVML_SUCCESS;
}

FG_API nvmlGetExcludedDeviceCount(unsigned int *count)
{
    FG_ENTER_SYSTEM(count != NULL);
    (void)segment;
    *count = 0;
    return NVML_SUCCESS;
}

FG_API nvmlGetExcludedDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info)
{
    FG_ENTER_SYSTEM(info != NULL);
    (void)segment;
    (void)index;
    return NVML_ERROR_INVALID_ARGUMENT;
}

FG_ALIAS(nvmlGetBlacklistDeviceCount, nvmlGetExcludedDeviceCount);
FG_ALIAS(nvmlGetBlacklistDeviceInfoByIndex, nvmlGetExcludedDeviceInfoByIndex);
