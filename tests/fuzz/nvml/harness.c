/* Plays any bytes as calls of the fake libnvidia-ml.so.1, with what the owner of the machine does in between.
 *
 * The machine is the one that FAKEGPU_SEGMENT names; each input begins with the machine as it was at the start. An input
 * is a sequence of operations: two bytes name a function of nvml.h, or one of the owner's operations below, and the
 * bytes that follow choose its arguments; bytes that are missing are zeros. Handles are valid, stale, of another kind or
 * no handles at all; sizes are true, from none to more than any list has, and any number where no buffer is given;
 * structs have any content but for pointers in them. Nothing here makes a call wait for long, as that is no error.
 *
 * A sanitizer ends the process at a bad access. This ends it at a code that NVML does not have.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/writer.h"
#include "core/clock.h"
#include "functions.h" /* generated from nvml.h: `functions`, their parameters, and enum pool */

enum { OPERATIONS_MAX = 200, POOL_MAX = 256, TEXTS_MAX = 32, ROOM_MAX = 2048, DELAY_STEP_US = 25, PLAN_US = 1000 };

static struct fg_segment *segment;
static struct fg_segment *pristine;
static uint64_t last_number; /* of a rule or plan of any input: what the library counts of a rule starts again */

/* What is left of the input. */
static const uint8_t *input;
static size_t left;

static void take_bytes(void *target, size_t count)
{
    size_t given = count < left ? count : left;
    memset(target, 0, count);
    if (given > 0)
        memcpy(target, input, given);
    input += given;
    left -= given;
}

static uint32_t take(size_t bytes)
{
    uint32_t number = 0;
    take_bytes(&number, bytes);
    return number;
}

/* A small number, one bit, four bytes, or an end of a range. */
static uint64_t take_number(void)
{
    static const uint64_t ends[] = {INT32_MAX, UINT64_C(1) << 31, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
    uint32_t byte = take(1);
    if (byte < 128)
        return byte;
    if (byte < 192)
        return UINT64_C(1) << (byte - 128);
    return byte < 224 ? take(4) : ends[byte % (sizeof ends / sizeof *ends)];
}

static uint32_t take_room(void)
{
    static const uint32_t large[] = {12, 16, 32, 64, 80, 96, 120, 256, ROOM_MAX};
    uint32_t byte = take(1);
    return byte < 192 ? byte % 10 : large[byte % (sizeof large / sizeof *large)];
}

/* Handles of each kind that were valid at some time, the oldest replaced first. */
static struct {
    uint64_t handles[POOL_MAX];
    unsigned int count;
} pools[POOLS];

static void remember(enum pool kind, uint64_t handle)
{
    pools[kind].handles[pools[kind].count++ % POOL_MAX] = handle;
}

static uint64_t take_handle(enum pool kind)
{
    uint32_t byte = take(1);
    if (byte >= 224)
        kind = byte % POOLS;
    unsigned int known = pools[kind].count < POOL_MAX ? pools[kind].count : POOL_MAX;
    uint64_t handle = known == 0 ? 0 : pools[kind].handles[byte % known];
    switch (byte / 16) {
    case 10: return 0;
    case 11: return 0xDEADBEEF;
    case 12: return handle + 8;
    case 13: return (uint64_t)segment + byte; /* in the machine's own memory, at another address */
    default: return handle;
    }
}

/* Texts that name something of this machine. */
static char texts[TEXTS_MAX][96];
static unsigned int text_count;

static void add_text(const char *text)
{
    if (text_count < TEXTS_MAX)
        snprintf(texts[text_count++], sizeof *texts, "%s", text);
}

/* Buffers of one call, each exactly as large as what the caller says. */
static void *buffers[PARAMETERS_MAX];

static void *buffer(unsigned int position, size_t bytes)
{
    buffers[position] = malloc(bytes > 0 ? bytes : 1);
    return buffers[position];
}

static void *text_for(unsigned int position, uint32_t room)
{
    uint32_t choice = take(1);
    const char *known = choice < 128 && text_count > 0 ? texts[choice % text_count] : NULL;
    size_t length = known != NULL ? strlen(known) : room;
    char *text = buffer(position, length + 1);
    if (known != NULL) {
        memcpy(text, known, length);
    } else {
        memset(text, (int)choice, length);
        take_bytes(text, length < 16 ? length : 16);
    }
    text[length] = '\0';
    return text;
}

/* An array of structs: full of one byte, the first of them with content of the input. */
static void *structs_for(unsigned int position, const struct parameter *parameter, size_t count, int fill)
{
    size_t bytes = parameter->size * count;
    uint8_t *content = buffer(position, bytes);
    memset(content, parameter->has_pointers || parameter->kind == WAIT ? 0 : fill, bytes);
    if (bytes == 0)
        return content;
    uint32_t version = parameter->version_count > 0 ? take(1) % (parameter->version_count + 1u) : 0;
    if (!parameter->has_pointers && parameter->kind != WAIT) {
        size_t given = take(1);
        take_bytes(content, given < bytes ? given : bytes);
    }
    if (version < parameter->version_count)
        memcpy(content, &parameter->versions[version], sizeof *parameter->versions);
    if (parameter->kind == WAIT)
        content[0] = 1; /* a millisecond */
    return content;
}

static uint64_t argument(unsigned int position, const struct parameter *parameter, uint32_t room, int fill,
                         bool is_without_buffers)
{
    uint64_t claimed = is_without_buffers ? take_number() : room;
    size_t count = room > parameter->least ? room : parameter->least;
    switch (parameter->kind) {
    case NUMBER: return take_number();
    case ROOM: return claimed;
    case MILLISECONDS: return take(1) % 2;
    case HANDLE: return take_handle(parameter->pool);
    case TEXT: return (uint64_t)text_for(position, room);
    case TEXT_ROOM: return (uint64_t)memset(buffer(position, count), fill, count);
    case ROOM_AT: return (uint64_t)memcpy(buffer(position, sizeof(uint32_t)), &claimed, sizeof(uint32_t));
    case STRUCTS: return (uint64_t)structs_for(position, parameter, count, fill);
    case WAIT: return (uint64_t)structs_for(position, parameter, 1, 0);
    }
    return 0;
}

static void call(const struct function *function)
{
    uint64_t arguments[PARAMETERS_MAX] = {0};
    uint32_t style = take(1), room = take_room(), fill = take(1);
    bool is_missing[PARAMETERS_MAX], is_without_buffers = true;
    for (unsigned int position = 0; position < function->count; position++) {
        enum kind kind = function->parameters[position].kind;
        is_missing[position] = kind >= FIRST_POINTER && (style & 0x80u) != 0 && (style >> position % 7u & 1u) != 0;
        if (kind >= FIRST_BUFFER && !is_missing[position])
            is_without_buffers = false;
    }
    for (unsigned int position = 0; position < function->count; position++)
        if (!is_missing[position])
            arguments[position] =
                argument(position, &function->parameters[position], room, (int)fill, is_without_buffers);
    int code = function->call(arguments);
    if (code < 0 || (code > LAST_CODE && code != NVML_ERROR_UNKNOWN)) {
        fprintf(stderr, "%s answers %d, which is no code of NVML\n", function->name, code);
        abort();
    }
    for (unsigned int position = 0; position < function->count; position++) {
        const struct parameter *parameter = &function->parameters[position];
        if (code == 0 && parameter->is_new_handle && buffers[position] != NULL)
            remember(parameter->pool, *(uint64_t *)buffers[position]);
        free(buffers[position]);
        buffers[position] = NULL;
    }
}

/* What the owner of the machine does. */

static bool is_nonsense; /* what the owner has not made by its own rules, it does not partition */

static void write_nonsense(void)
{
    struct fg_gpu_state state;
    uint32_t gpu = take(1) % segment->gpu_count, where = take(2) % sizeof state, bytes = take(1) % 64;
    if (fakegpu_read_state(segment, gpu, &state) == 0) {
        take_bytes((uint8_t *)&state + where, bytes < sizeof state - where ? bytes : sizeof state - where);
        fakegpu_write_state(segment, gpu, &state);
        is_nonsense = true;
    }
}

static void damage_events(void)
{
    uint32_t where = take(2) % sizeof segment->ring, bytes = take(1) % 64;
    take_bytes((uint8_t *)&segment->ring + where,
               bytes < sizeof segment->ring - where ? bytes : sizeof segment->ring - where);
}

static struct fg_action an_action(void)
{
    return (struct fg_action){.kind = take(1) % 16,
                              .gpu = take(1) % 4,
                              .gpu_instance = take(1),
                              .compute_instance = take(1),
                              .argument = take_number()};
}

static void post(void)
{
    struct fg_event event = {.type = take_number(), .data = take_number(), .gpu = take(1) % 4};
    event.gpu_instance = event.compute_instance = (uint32_t)take_number();
    fakegpu_post_event(segment, &event);
}

static void act(void)
{
    struct fg_action action = an_action();
    fakegpu_act(segment, &action);
}

static void plan(void)
{
    struct fg_plan plan = {.due_us = fg_now_us() + take(1), .period_us = take(1) * PLAN_US, .left = take(1) % 8 + 1u};
    if (plan.left == 8)
        plan.left = FG_FOR_EVER;
    plan.action = an_action();
    fakegpu_add_plan(segment, &plan);
}

static void rule(void)
{
    struct fg_rule rule = {.from_us = 0, .until_us = FG_FOR_EVER, .gpu = FG_NO_GPU, .every = take(1) % 4};
    const char *name = functions[take(2) % FUNCTIONS].name;
    uint32_t shape = take(1);
    snprintf(rule.function, sizeof rule.function, "%.*s%s", shape % 16u + 4u, name, shape < 128 ? "*" : "");
    if (shape % 3 == 0)
        rule.gpu = take(1) % 4;
    rule.left = shape % 5 == 0 ? FG_FOR_EVER : shape % 5u;
    rule.error = take(1) % (LAST_CODE + 1u);
    rule.chance = take(4);
    rule.seed = take(1);
    rule.delay_count = take(1) % 16 == 0 ? take(1) : 0;
    for (uint32_t point = 0, share = 0, delay_us = 0; rule.delay_count > 0 && point < FG_DELAY_POINTS; point++) {
        rule.delay_share[point] = share += take(4) / FG_DELAY_POINTS;
        rule.delay_us[point] = delay_us += take(1) % DELAY_STEP_US;
    }
    fakegpu_add_rule(segment, &rule);
}

static void end_rule_or_plan(void)
{
    uint64_t number = segment->faults.last_number - take(1) % 8;
    if (fakegpu_remove_rule(segment, number) != 0)
        fakegpu_remove_plan(segment, number);
}

static void keep_plans(void)
{
    fakegpu_keep_plans(segment);
}

static void end_processes(void)
{
    uint32_t gpu = take(1) % 4;
    fakegpu_end_processes(segment, gpu, (uint32_t)take_number());
}

static void partition(void)
{
    struct fg_gpu_state state;
    uint32_t gpu = take(1) % segment->gpu_count, profile = take(1) % FG_MIG_PROFILES, start = (uint32_t)take_number();
    uint32_t compute_profile = take(1) % NVML_COMPUTE_INSTANCE_PROFILE_COUNT, compute_start = (uint32_t)take_number();
    uint32_t id, slot, doomed = take(1) % FG_GPU_INSTANCES;
    if (is_nonsense || fakegpu_read_state(segment, gpu, &state) != 0 || !state.mig.profiles[profile].is_here)
        return;
    if (fakegpu_mig_create(&state, profile, start, &id) == 0)
        fakegpu_mig_create_compute(&state, id, compute_profile, compute_start, &slot);
    else
        fakegpu_mig_destroy(&state, doomed);
    fakegpu_write_state(segment, gpu, &state);
}

static void look(void)
{
    struct fg_gpu_state state;
    char text[48];
    uint32_t gpu = take(1) % segment->gpu_count, profile = take(1) % FG_MIG_PROFILES, index = (uint32_t)take_number();
    if (fakegpu_read_live(segment, gpu, &state) != 0)
        return;
    fakegpu_count_energy(segment, gpu, &state);
    if (is_nonsense)
        return;
    fakegpu_mig_capacity(&state, profile);
    int slot = fakegpu_mig_device_slot(&state, index);
    if (slot >= 0) {
        fakegpu_mig_device_name(&state, (uint32_t)slot, text);
        fakegpu_mig_uuid(&state, (uint32_t)slot, text);
    }
}

static void (*const operations[])(void) = {
    write_nonsense, damage_events, post, act, plan, rule, end_rule_or_plan, keep_plans, end_processes, partition, look,
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static void restore_machine(void)
{
    last_number = segment->faults.last_number > last_number ? segment->faults.last_number : last_number;
    memcpy(segment, pristine, segment->size_bytes);
    segment->faults.last_number = last_number;
}

/* Begins a session with handles of everything that the machine has. */
static void open_session(void)
{
    nvmlDevice_t device, part;
    nvmlGpuInstance_t instance;
    nvmlComputeInstance_t compute;
    nvmlEventSet_t events;
    nvmlGpmSample_t sample;
    memset(pools, 0, sizeof pools);
    nvmlInit_v2();
    for (unsigned int gpu = 0; nvmlDeviceGetHandleByIndex_v2(gpu, &device) == NVML_SUCCESS; gpu++) {
        remember(POOL_nvmlDevice_t, (uint64_t)device);
        for (unsigned int id = 0; id < FG_GPU_INSTANCES; id++)
            if (nvmlDeviceGetGpuInstanceById(device, id, &instance) == NVML_SUCCESS) {
                remember(POOL_nvmlGpuInstance_t, (uint64_t)instance);
                if (nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute) == NVML_SUCCESS)
                    remember(POOL_nvmlComputeInstance_t, (uint64_t)compute);
            }
        if (nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &part) == NVML_SUCCESS)
            remember(POOL_nvmlDevice_t, (uint64_t)part);
    }
    if (nvmlEventSetCreate(&events) == NVML_SUCCESS)
        remember(POOL_nvmlEventSet_t, (uint64_t)events);
    if (nvmlGpmSampleAlloc(&sample) == NVML_SUCCESS)
        remember(POOL_nvmlGpmSample_t, (uint64_t)sample);
}

/* Ends all sessions. Samples stay when the last one ends, and there is a limit to their number. */
static void close_sessions(void)
{
    nvmlInit_v2();
    for (unsigned int sample = 0; sample < pools[POOL_nvmlGpmSample_t].count && sample < POOL_MAX; sample++)
        nvmlGpmSampleFree((nvmlGpmSample_t)pools[POOL_nvmlGpmSample_t].handles[sample]);
    while (nvmlShutdown() == NVML_SUCCESS)
        ;
}

static void know_texts(void)
{
    char text[96];
    for (unsigned int index = 0; index < pools[POOL_nvmlDevice_t].count; index++) {
        nvmlDevice_t device = (nvmlDevice_t)pools[POOL_nvmlDevice_t].handles[index];
        nvmlPciInfo_t pci;
        if (nvmlDeviceGetUUID(device, text, sizeof text) == NVML_SUCCESS)
            add_text(text);
        if (nvmlDeviceGetSerial(device, text, sizeof text) == NVML_SUCCESS)
            add_text(text);
        if (nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS)
            add_text(pci.busId);
    }
    add_text("");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const char *path = getenv("FAKEGPU_SEGMENT");
    struct stat status;
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0) {
        fprintf(stderr, "error: FAKEGPU_SEGMENT names no segment that can be written\n");
        exit(2);
    }
    size_t bytes = (size_t)status.st_size;
    segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pristine = malloc(bytes);
    close(file);
    if (segment == MAP_FAILED || pristine == NULL) {
        perror("error: the segment cannot be mapped");
        exit(2);
    }
    memcpy(pristine, segment, bytes);
    open_session();
    know_texts();
    close_sessions();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    input = data;
    left = size;
    is_nonsense = false;
    open_session();
    for (unsigned int done = 0; left > 0 && done < OPERATIONS_MAX; done++) {
        uint32_t choice = take(2) % (FUNCTIONS + 8u * OPERATIONS); /* the owner has few operations, and each matters */
        if (choice < FUNCTIONS)
            call(&functions[choice]);
        else
            operations[(choice - FUNCTIONS) % OPERATIONS]();
    }
    restore_machine();
    close_sessions();
    sched_setaffinity(0, sizeof cpus, &cpus);
    return 0;
}
