/* What using a library for the first time costs a process: opening it, nvmlInit, and asking every GPU who it is and how
 * it does.
 *
 *   nvml_walk LIBRARY     prints microseconds of dlopen, of nvmlInit_v2, of the first walk and of the second, the number
 *                         of calls of a walk, and KiB of resident memory that it all added
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void *handle;
typedef int (*function)();

static const char *const FUNCTIONS[] = {
    "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",       "nvmlDeviceGetName",
    "nvmlDeviceGetMinorNumber",      "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetTemperature",      "nvmlDeviceGetUtilizationRates",
};
enum { HANDLE, UUID, NAME, MINOR, PCI, MEMORY, TEMPERATURE, UTILIZATION, FUNCTION_COUNT };

static void *library;

static function find(const char *name)
{
    function found = (function)dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static void must(int result)
{
    if (result != 0) {
        fprintf(stderr, "NVML answers %d\n", result);
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Not /proc/self/statm, whose counters of the kernel are behind by up to some pages of each processor. */
static long resident_kib(void)
{
    static char text[65536];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *line = strstr(text, "\nRss:");
    if (line == NULL) {
        fputs("no Rss in /proc/self/smaps_rollup\n", stderr);
        exit(1);
    }
    return atol(line + sizeof "\nRss:" - 1);
}

static int walk(void)
{
    handle device;
    char out[512];
    unsigned int number, count;
    function ask[FUNCTION_COUNT];
    for (int index = 0; index < FUNCTION_COUNT; index++)
        ask[index] = find(FUNCTIONS[index]);
    must(find("nvmlDeviceGetCount_v2")(&count));
    for (unsigned int index = 0; index < count; index++) {
        must(ask[HANDLE](index, &device));
        must(ask[UUID](device, out, 96u));
        must(ask[NAME](device, out, 96u));
        must(ask[MINOR](device, &number));
        must(ask[PCI](device, out));
        must(ask[MEMORY](device, out));
        must(ask[TEMPERATURE](device, 0, &number));
        must(ask[UTILIZATION](device, out));
    }
    return 1 + FUNCTION_COUNT * (int)count;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    printf(" "); /* output's own buffer is not the library's memory */
    resident_kib();
    long before_kib = resident_kib();
    double began = now_us();
    library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL)
        return 1;
    double opened = now_us();
    must(find("nvmlInit_v2")());
    double initialised = now_us();
    int calls = walk();
    double walked = now_us();
    walk();
    double again = now_us();
    printf("%.1f %.1f %.1f %.1f %d %ld\n", opened - began, initialised - opened, walked - initialised, again - walked,
           calls, resident_kib() - before_kib);
    return 0;
}
