/* Binding the calling thread to the CPUs near a GPU. */
#define _GNU_SOURCE
#include "nvml/api.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

static nvmlReturn_t bind_to(const cpu_set_t *cpus)
{
    if (sched_setaffinity(0, sizeof *cpus, cpus) == 0)
        return NVML_SUCCESS;
    return errno == EPERM ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_UNKNOWN;
}

/* A machine may name more CPUs than the host has; an affinity with none of the host's CPUs cannot be set. */
FG_API nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    FG_READ(gpu, placement, placement);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (unsigned int cpu = 0; cpu < FG_CPU_WORDS * 64u && cpu < CPU_SETSIZE; cpu++) {
        if ((placement.cpu_mask[cpu / 64u] >> cpu % 64u & 1u) != 0)
            CPU_SET(cpu, &cpus);
    }
    return bind_to(&cpus);
}

FG_API nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
    FG_ENTER(device, true);
    FG_READ(gpu, fault, fault);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    long count = sysconf(_SC_NPROCESSORS_CONF);
    for (long cpu = 0; cpu < count && cpu < CPU_SETSIZE; cpu++)
        CPU_SET((size_t)cpu, &cpus);
    return bind_to(&cpus);
}
