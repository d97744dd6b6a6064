/* The door through which NVIDIA's own programs reach functions of the library that nvml.h does not declare.
 *
 * nvidia-smi names a table by 16 bytes and gets an array of pointers whose first word is the array's size in bytes. It
 * takes a pointer only below that size, and where it is null continues as if the driver did not support the query. So
 * a null pointer is a good answer, and a guessed function, which writes through an argument of unknown meaning, is not.
 * Only those are here whose arguments could be seen: two strings, a handle or an index, and the place of one number, of
 * a text, or of an array whose every byte read is known.
 *
 * Source: nvidia-smi 535.261.03: the arguments of its calls, seen in a debugger and with a table of functions that
 * noted them, and what it does with the answers (objdump). 550.163.01 runs on the same table.
 */
#include "control/writer.h"
#include "nvml/mig.h"
#include "nvml/processes.h"

#include <string.h>

#define SLOTS 1024u

/* Offsets of the pointers in bytes. */
enum {
    COMMON_ANCESTOR = 0x0b8,
    IS_SUPPORTED = 0x240,
    BUS_ID = 0x288,
    ENFORCED_POWER_LIMIT = 0x360,
    COMPUTE_PROCESSES = 0x6a8,
    MPS_PROCESSES = 0x6b0,
    GRAPHICS_PROCESSES = 0x6b8,
    HOST_LINK_GENERATION = 0x730,
    TEMPERATURE_LIMIT = 0x780,
    ADDRESSING_MODE = 0x790,
};

struct named_process {
    uint32_t pid;
    uint32_t padding;
    uint64_t used_bytes;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint64_t protected_bytes;
    char name[4096];
};

_Static_assert(sizeof(struct named_process) == 0x1020, "as nvidia-smi steps from one to the next");

/* Of a GPU, or of a MIG device: nvidia-smi asks for those of each where the GPU is in MIG mode. */
static nvmlReturn_t list_processes(nvmlDevice_t device, uint32_t kind, unsigned int *count, struct named_process *out)
{
    FG_ENTER_ANY(device, count != NULL && out != NULL);
    struct fg_processes found;
    FG_TRY(fg_processes_of(gpu, slot, kind, &found));
    FG_REQUIRE(found.count <= *count, NVML_ERROR_INSUFFICIENT_SIZE);
    for (uint32_t index = 0; index < found.count; index++) {
        const struct fg_process *process = &found.entries[index];
        memset(&out[index], 0, sizeof out[index]);
        out[index].pid = process->pid;
        out[index].used_bytes = process->used_bytes;
        out[index].gpu_instance = process->gpu_instance;
        out[index].compute_instance = process->compute_instance;
        nvmlSystemGetProcessName(process->pid, out[index].name, sizeof out[index].name);
    }
    *count = found.count;
    return NVML_SUCCESS;
}

/* Those under MPS too: nvidia-smi shows no process that is in the list of MPS alone, and calls one in both M+C. */
static nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned int *count, struct named_process *out)
{
    return list_processes(device, FG_PROCESS_COMPUTE | FG_PROCESS_MPS, count, out);
}

static nvmlReturn_t graphics_processes(nvmlDevice_t device, unsigned int *count, struct named_process *out)
{
    return list_processes(device, FG_PROCESS_GRAPHICS, count, out);
}

static nvmlReturn_t mps_processes(nvmlDevice_t device, unsigned int *count, struct named_process *out)
{
    return list_processes(device, FG_PROCESS_MPS, count, out);
}

/* Between two PCI functions, of which one may be a network card of the host, far from every GPU. */
static nvmlReturn_t common_ancestor(const char *bus_id, const char *other_bus_id, unsigned int *steps)
{
    enum { SAME_SWITCH, SEVERAL_SWITCHES, HOST_BRIDGE, NODE, SYSTEM };
    nvmlDevice_t device, other;
    nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
    FG_ENTER_SYSTEM(bus_id != NULL && other_bus_id != NULL && steps != NULL);
    (void)segment;
    if (nvmlDeviceGetHandleByPciBusId_v2(bus_id, &device) == NVML_SUCCESS &&
        nvmlDeviceGetHandleByPciBusId_v2(other_bus_id, &other) == NVML_SUCCESS) {
        level = NVML_TOPOLOGY_INTERNAL;
        if (device != other)
            FG_TRY(nvmlDeviceGetTopologyCommonAncestor(device, other, &level));
    }
    switch (level) {
    case NVML_TOPOLOGY_INTERNAL:
    case NVML_TOPOLOGY_SINGLE: *steps = SAME_SWITCH; break;
    case NVML_TOPOLOGY_MULTIPLE: *steps = SEVERAL_SWITCHES; break;
    case NVML_TOPOLOGY_HOSTBRIDGE: *steps = HOST_BRIDGE; break;
    case NVML_TOPOLOGY_NODE: *steps = NODE; break;
    default: *steps = SYSTEM; break;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t is_supported(nvmlDevice_t device, unsigned int *answer)
{
    FG_ENTER(device, answer != NULL);
    (void)gpu;
    *answer = 1;
    return NVML_SUCCESS;
}

/* What a message calls the GPU that hands out no handle: a lost one has its place nevertheless. */
static nvmlReturn_t bus_id_of(unsigned int index, char *text, unsigned int length)
{
    FG_ENTER_SYSTEM(text != NULL && index < fg_visible_count);
    nvmlPciInfo_t info;
    FG_TRY(nvmlDeviceGetPciInfo_v3(fg_handle_of(fg_visible_gpu(segment, index)), &info));
    return FG_ANSWER_TEXT(info.busIdLegacy, text, length);
}

static nvmlReturn_t enforced_power_limit(nvmlDevice_t device, unsigned int *limit_mw)
{
    return nvmlDeviceGetEnforcedPowerLimit(device, limit_mw);
}

static nvmlReturn_t host_link_generation(nvmlDevice_t device, unsigned int *generation)
{
    return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}

static nvmlReturn_t temperature_limit(nvmlDevice_t device, int *margin_c)
{
    nvmlMarginTemperature_t margin = {.version = nvmlMarginTemperature_v1};
    FG_ENTER_SYSTEM(margin_c != NULL);
    (void)segment;
    FG_TRY(nvmlDeviceGetMarginTemperature(device, &margin));
    *margin_c = margin.marginTemperature;
    return NVML_SUCCESS;
}

static nvmlReturn_t addressing_mode(nvmlDevice_t device, unsigned int *answer)
{
    nvmlDeviceAddressingMode_t mode = {.version = nvmlDeviceAddressingMode_v1};
    FG_ENTER_SYSTEM(answer != NULL);
    (void)segment;
    FG_TRY(nvmlDeviceGetAddressingMode(device, &mode));
    *answer = mode.value;
    return NVML_SUCCESS;
}

FG_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const unsigned char *name)
{
    static const struct {
        uint64_t size_bytes;
        const void *functions[SLOTS - 1u];
    } slots = {
        .size_bytes = sizeof slots,
#define FG_SLOT(offset, function) .functions[(offset) / sizeof(void *) - 1u] = (const void *)(function)
        FG_SLOT(COMMON_ANCESTOR, common_ancestor),
        FG_SLOT(IS_SUPPORTED, is_supported),
        FG_SLOT(BUS_ID, bus_id_of),
        FG_SLOT(ENFORCED_POWER_LIMIT, enforced_power_limit),
        FG_SLOT(COMPUTE_PROCESSES, compute_processes),
        FG_SLOT(GRAPHICS_PROCESSES, graphics_processes),
        FG_SLOT(MPS_PROCESSES, mps_processes),
        FG_SLOT(HOST_LINK_GENERATION, host_link_generation),
        FG_SLOT(TEMPERATURE_LIMIT, temperature_limit),
        FG_SLOT(ADDRESSING_MODE, addressing_mode),
    };
    FG_REQUIRE(table != NULL && name != NULL, NVML_ERROR_INVALID_ARGUMENT);
    *table = &slots;
    return NVML_SUCCESS;
}
