/* The C side of xid_latency.py: loads the library it is given and measures from inside.
 *
 *   xid_waiter LIBRARY N    waits for N XID events of GPU 0; prints "ready", then one arrival time each, in ns
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define XID 8ull
#define WAIT_MS 10000u

typedef void *handle;
typedef int (*function)();

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

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int wait_for_events(handle device, int count)
{
    struct { handle device; unsigned long long type, data; unsigned int gi, ci; } event;
    handle set;
    function wait = find("nvmlEventSetWait_v2");
    if (find("nvmlEventSetCreate")(&set) != 0 || find("nvmlDeviceRegisterEvents")(device, XID, set) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    for (int index = 0; index < count; index++) {
        if (wait(set, &event, WAIT_MS) != 0)
            return 1;
        printf("%lld\n", now_ns());
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    handle device;
    if (argc != 3)
        return 2;
    library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL || find("nvmlInit_v2")() != 0 || find("nvmlDeviceGetHandleByIndex_v2")(0, &device) != 0)
        return 1;
    return wait_for_events(device, atoi(argv[2]));
}
