/* Figures that move: utilisation, memory, power, temperature and clocks of a GPU under load.
 *
 * A load is a list of frames, written once by the owner of the machine (fakegpu/load/ computes them with a model of the
 * board, or reads them from a recording). A getter takes the two frames around this moment and interpolates between
 * them, so figures move for every process alike, without a writer. Limits of power and of clocks that are set meanwhile
 * apply to the frames.
 */
#include "core/live.h"
#include "core/alive.h"
#include "core/clock.h"
#include "core/mapping.h"

#define NS_PER_MS UINT64_C(1000000)

struct moment {
    struct fg_load load;
    struct fg_frame frame; /* of the load, if it had begun */
    struct fg_power power; /* as set */
    struct fg_fault fault;
};

static void copy_words(void *out, const void *source, size_t size)
{
    for (size_t word = 0; word < size / sizeof(fg_word); word++)
        ((fg_word *)out)[word] = __atomic_load_n(&((const fg_word *)source)[word], __ATOMIC_RELAXED);
}

/* The clock begins when the host starts: a replayed load may have begun before that. */
static uint64_t ms_between(uint64_t since_ns, uint64_t until_ns)
{
    int64_t elapsed_ns = (int64_t)(until_ns - since_ns);
    return elapsed_ns > 0 ? (uint64_t)elapsed_ns / NS_PER_MS : 0;
}

static uint64_t elapsed_ms(uint64_t since_ns)
{
    return ms_between(since_ns, fg_monotonic_ns());
}

static uint64_t between(uint64_t from, uint64_t to, double share)
{
    double value = (double)from + ((double)to - (double)from) * share + 0.5;
    return value <= 0 ? 0 : value < 0x1p63 ? (uint64_t)value : UINT64_C(1) << 63;
}

static struct fg_frame blend(const struct fg_frame *from, const struct fg_frame *to, double share)
{
    struct fg_frame frame = *from; /* reasons and the performance state stay until the next frame */
#define FG_BLEND(member) frame.member = (__typeof__(frame.member))between(from->member, to->member, share)
    FG_BLEND(energy_mj);
    FG_BLEND(memory_used_bytes);
    FG_BLEND(power_mw);
    FG_BLEND(graphics_mhz);
    FG_BLEND(memory_mhz);
    FG_BLEND(pcie_tx_kb_per_s);
    FG_BLEND(pcie_rx_kb_per_s);
    FG_BLEND(gpu_c);
    FG_BLEND(memory_c);
    FG_BLEND(gpu_percent);
    FG_BLEND(memory_percent);
    FG_BLEND(encoder_percent);
    FG_BLEND(decoder_percent);
    FG_BLEND(fan_percent);
    return frame;
}

/* The last frame that has begun `at_ms` after the first. */
static uint32_t find_frame(const struct fg_bank *bank, uint32_t count, uint64_t at_ms)
{
    uint32_t low = 0;
    for (uint32_t high = count; high - low > 1;) {
        uint32_t middle = low + (high - low) / 2;
        if (__atomic_load_n(&bank->frames[middle].time_ms, __ATOMIC_RELAXED) <= at_ms)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct fg_frame frame_at(const struct fg_bank *bank, const struct fg_load *load, uint64_t at_ms)
{
    struct fg_frame from, to, last, first;
    uint32_t count = load->count <= FG_FRAMES_MAX ? load->count : FG_FRAMES_MAX;
    uint64_t rounds = 0;
    copy_words(&last, &bank->frames[count - 1], sizeof last);
    copy_words(&first, &bank->frames[load->loop_to < count ? load->loop_to : count - 1], sizeof first);
    if (at_ms >= last.time_ms && last.time_ms > first.time_ms) {
        uint64_t round_ms = last.time_ms - first.time_ms;
        rounds = (at_ms - first.time_ms) / round_ms;
        at_ms -= rounds * round_ms;
    }
    uint32_t index = find_frame(bank, count, at_ms);
    copy_words(&from, &bank->frames[index], sizeof from);
    copy_words(&to, &bank->frames[index + 1 < count ? index + 1 : index], sizeof to);
    uint64_t span_ms = to.time_ms > from.time_ms ? to.time_ms - from.time_ms : 0;
    uint64_t done_ms = at_ms > from.time_ms ? at_ms - from.time_ms : 0;
    struct fg_frame frame = span_ms > 0 ? blend(&from, &to, (double)done_ms / (double)span_ms) : from;
    if (span_ms == 0)
        frame.energy_mj += from.power_mw * done_ms / 1000; /* the last frame continues */
    frame.energy_mj += rounds * (last.energy_mj - first.energy_mj);
    return frame;
}

static nvmlReturn_t read_moment(const struct fg_gpu *gpu, uint64_t ago_ms, struct moment *moment)
{
    const struct fg_bank *banks = fg_banks_of(gpu);
    FG_REQUIRE(banks != NULL, NVML_ERROR_UNKNOWN);
    for (unsigned int attempt = 0; attempt < FG_READ_ATTEMPTS; attempt++) {
        uint32_t sequence = __atomic_load_n(&gpu->sequence, __ATOMIC_ACQUIRE);
        const struct fg_gpu_state *state = &gpu->states[sequence & 1u];
        copy_words(&moment->load, &state->load, sizeof moment->load);
        copy_words(&moment->power, &state->power, sizeof moment->power);
        copy_words(&moment->fault, &state->fault, sizeof moment->fault);
        uint64_t elapsed = elapsed_ms(moment->load.started_ns);
        if (moment->load.count == 0 || elapsed < ago_ms)
            moment->load.topics = 0;
        else
            moment->frame = frame_at(&banks[moment->load.bank & 1u], &moment->load, elapsed - ago_ms);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&gpu->sequence, __ATOMIC_RELAXED) == sequence)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_UNKNOWN;
}

/* Energy drawn from `since_ns` to `until_ns`, by the load or, without one, by the power that is set. */
static uint64_t drawn_mj(const struct fg_bank *bank, const struct fg_load *load, uint32_t rest_mw, uint64_t since_ns,
                         uint64_t until_ns)
{
    if ((load->topics & FG_LIVE_POWER) == 0 || load->count == 0)
        return rest_mw * ms_between(since_ns, until_ns) / 1000;
    return frame_at(bank, load, ms_between(load->started_ns, until_ns)).energy_mj -
           frame_at(bank, load, ms_between(load->started_ns, since_ns)).energy_mj;
}

nvmlReturn_t fg_count_energy(const struct fg_gpu *gpu, struct fg_power *power)
{
    const struct fg_bank *banks = fg_banks_of(gpu);
    FG_REQUIRE(banks != NULL, NVML_ERROR_UNKNOWN);
    struct fg_power set;
    struct fg_load load;
    for (unsigned int attempt = 0; attempt < FG_READ_ATTEMPTS; attempt++) {
        uint32_t sequence = __atomic_load_n(&gpu->sequence, __ATOMIC_ACQUIRE);
        const struct fg_gpu_state *state = &gpu->states[sequence & 1u];
        copy_words(&set, &state->power, sizeof set);
        copy_words(&load, &state->load, sizeof load);
        /* Whole milliseconds, so that counting often gives the same as counting once. */
        power->energy_at_ns = set.energy_at_ns + elapsed_ms(set.energy_at_ns) * NS_PER_MS;
        power->energy_mj = set.energy_mj + drawn_mj(&banks[load.bank & 1u], &load, set.usage_mw, set.energy_at_ns,
                                                    power->energy_at_ns);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&gpu->sequence, __ATOMIC_RELAXED) == sequence)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_UNKNOWN;
}

static uint32_t clamp(uint32_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Clocks follow the frame as far as locks, applications clocks and the power limit let them. */
static void apply_clocks(const struct moment *now, struct fg_clocks *clocks)
{
    uint32_t graphics = now->frame.graphics_mhz;
    uint32_t memory = now->frame.memory_mhz;
    uint64_t reasons = now->frame.event_reasons;
    if (now->frame.power_mw > now->power.limit_mw) {
        graphics = (uint32_t)((uint64_t)graphics * now->power.limit_mw / now->frame.power_mw);
        reasons |= nvmlClocksEventReasonSwPowerCap;
    }
    uint32_t application = clocks->application_mhz[NVML_CLOCK_GRAPHICS];
    if (application != 0 && graphics > application) {
        graphics = application;
        reasons |= nvmlClocksEventReasonApplicationsClocksSetting;
    }
    if (clocks->locked_graphics_mhz[1] != 0)
        graphics = clamp(graphics, clocks->locked_graphics_mhz[0], clocks->locked_graphics_mhz[1]);
    if (clocks->locked_memory_mhz[1] != 0)
        memory = clamp(memory, clocks->locked_memory_mhz[0], clocks->locked_memory_mhz[1]);
    uint32_t top = clocks->maximum_mhz[NVML_CLOCK_GRAPHICS];
    uint32_t video = top == 0 ? 0 : (uint32_t)((uint64_t)clocks->maximum_mhz[NVML_CLOCK_VIDEO] * graphics / top);
    if (video > clocks->current_mhz[NVML_CLOCK_VIDEO])
        clocks->current_mhz[NVML_CLOCK_VIDEO] = video;
    clocks->current_mhz[NVML_CLOCK_GRAPHICS] = clocks->current_mhz[NVML_CLOCK_SM] = graphics;
    clocks->current_mhz[NVML_CLOCK_MEM] = memory;
    clocks->performance_state = now->frame.performance_state;
    clocks->event_reasons = reasons;
}

static void apply_fans(const struct fg_frame *frame, struct fg_fans *fans)
{
    for (uint32_t fan = 0; fan < FG_FANS_MAX && fan < fans->count; fan++)
        if (!fans->is_manual[fan])
            fans->percent[fan] = fans->target_percent[fan] = frame->fan_percent;
}

static nvmlReturn_t apply_memory(const struct fg_gpu *gpu, const struct moment *now, struct fg_memory *memory)
{
    if ((now->load.topics & FG_LIVE_MEMORY) != 0)
        memory->used_bytes = now->frame.memory_used_bytes;
    struct fg_processes alive;
    FG_TRY(fg_processes_alive(gpu, &alive));
    for (uint32_t index = 0; index < alive.count; index++)
        memory->used_bytes += alive.entries[index].used_bytes;
    uint64_t room = memory->total_bytes - memory->reserved_bytes;
    if (memory->used_bytes > room)
        memory->used_bytes = room;
    return NVML_SUCCESS;
}

nvmlReturn_t fg_live_apply(const struct fg_gpu *gpu, uint32_t bits, void *copy)
{
    return fg_live_apply_ago(gpu, bits, copy, 0);
}

nvmlReturn_t fg_live_apply_ago(const struct fg_gpu *gpu, uint32_t bits, void *copy, uint64_t ago_ms)
{
    struct moment now;
    FG_TRY(read_moment(gpu, ago_ms, &now));
    if ((bits & FG_LIVE_MEMORY) != 0)
        return apply_memory(gpu, &now, copy);
    switch (bits & now.load.topics) {
    case FG_LIVE_THERMAL: {
        struct fg_thermal *thermal = copy;
        if (now.fault.is_throttled)
            break;
        thermal->gpu_c = now.frame.gpu_c;
        thermal->memory_c = thermal->has_memory_sensor ? now.frame.memory_c : 0;
        break;
    }
    case FG_LIVE_FANS: apply_fans(&now.frame, copy); break;
    case FG_LIVE_POWER: {
        struct fg_power *power = copy;
        power->usage_mw = now.frame.power_mw < power->limit_mw ? now.frame.power_mw : power->limit_mw;
        break;
    }
    case FG_LIVE_CLOCKS:
        if (!now.fault.is_throttled)
            apply_clocks(&now, copy);
        break;
    case FG_LIVE_UTILIZATION: {
        struct fg_utilization *utilization = copy;
        utilization->gpu_percent = now.frame.gpu_percent;
        utilization->memory_percent = now.frame.memory_percent;
        utilization->encoder_percent = now.frame.encoder_percent;
        utilization->decoder_percent = now.frame.decoder_percent;
        break;
    }
    case FG_LIVE_PCI: {
        struct fg_pci *pci = copy;
        pci->tx_kb_per_s = now.frame.pcie_tx_kb_per_s;
        pci->rx_kb_per_s = now.frame.pcie_rx_kb_per_s;
        break;
    }
    default: break;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t fg_read_live(const struct fg_gpu *gpu, struct fg_gpu_state *state)
{
    static const size_t topics[] = {
#define FG_TOPIC(name) offsetof(struct fg_gpu_state, name), sizeof(((struct fg_gpu_state *)0)->name)
        FG_TOPIC(memory), FG_TOPIC(thermal),     FG_TOPIC(fans), FG_TOPIC(power),
        FG_TOPIC(clocks), FG_TOPIC(utilization), FG_TOPIC(pci),
    };
    FG_TRY(fg_read_state(gpu, state));
    for (size_t index = 0; index < sizeof topics / sizeof *topics; index += 2) {
        uint32_t bits = fg_live_bits(topics[index], topics[index + 1]);
        if (fg_is_live(gpu, bits))
            FG_TRY(fg_live_apply(gpu, bits, (char *)state + topics[index]));
    }
    return fg_count_energy(gpu, &state->power);
}
