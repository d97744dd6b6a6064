/* What a call of a getter costs. Linked to nvml_floor.c and to a machine's library, so that both are called through
 * the PLT.
 *
 *   nvml_getters ROUNDS     prints one line a round: nanoseconds per call of the floor and of each getter, alternately
 *
 * The clock is slower than a getter, so a figure is the mean of a batch.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define CALLS 1000

typedef void *handle;

int seqlock_read(const void *record, unsigned long long *value);
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle *device);
int nvmlDeviceGetTemperature(handle device, int sensor, unsigned int *celsius);
int nvmlDeviceGetMemoryInfo(handle device, void *info);
int nvmlDeviceGetUtilizationRates(handle device, void *rates);
int nvmlDeviceGetUUID(handle device, char *uuid, unsigned int length);

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define PRINT_COST(end, call)                                                                                          \
    do {                                                                                                               \
        double started = now_ns();                                                                                     \
        for (int count = 0; count < CALLS; count++)                                                                    \
            if ((call) != 0)                                                                                           \
                return 1;                                                                                              \
        printf("%.3f" end, (now_ns() - started) / CALLS);                                                              \
    } while (0)

int main(int argc, char **argv)
{
    handle device;
    unsigned long long value, out[4];
    unsigned int celsius;
    char uuid[96];
    void *record = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 2 || record == MAP_FAILED || nvmlInit_v2() != 0 || nvmlDeviceGetHandleByIndex_v2(0, &device) != 0)
        return 1;
    for (int round = atoi(argv[1]); round > 0; round--) {
        PRINT_COST(" ", seqlock_read(record, &value));
        PRINT_COST(" ", nvmlDeviceGetTemperature(device, 0, &celsius));
        PRINT_COST(" ", nvmlDeviceGetMemoryInfo(device, out));
        PRINT_COST(" ", nvmlDeviceGetUtilizationRates(device, out));
        PRINT_COST("\n", nvmlDeviceGetUUID(device, uuid, sizeof uuid));
    }
    return 0;
}
