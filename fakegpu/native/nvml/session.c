/* nvmlInit, nvmlShutdown and the texts of return codes. */
#include "core/segment.h"
#include "nvml/api.h"
#include "nvml/events.h"
#include "nvml/visible.h"

#include <pthread.h>

/* Guards `references` and the attaching; getters read `fg_session` only. */
static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int references;

static void lock_session(void)
{
    pthread_mutex_lock(&session_lock);
}

static void unlock_session(void)
{
    pthread_mutex_unlock(&session_lock);
}

/* A child forked while another thread initialises must not inherit a lock that no thread will release. */
__attribute__((constructor)) static void survive_fork(void)
{
    pthread_atfork(lock_session, unlock_session, unlock_session);
}

FG_API nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    nvmlReturn_t result = NVML_SUCCESS;
    lock_session();
    if (references == 0) {
        const struct fg_segment *segment = NULL;
        result = fg_segment_attach(&segment);
        if (result == NVML_SUCCESS)
            result = fg_apply_faults(segment, NULL, "nvmlInit");
        if (result == NVML_SUCCESS)
            result = fg_find_devices(segment);
        if (result == NVML_SUCCESS)
            __atomic_store_n(&fg_session, segment, __ATOMIC_RELEASE);
    }
    if (result == NVML_SUCCESS)
        references++;
    unlock_session();
    return result;
}

FG_API nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

FG_ALIAS(nvmlInit, nvmlInit_v2);

FG_API nvmlShutdown(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    lock_session();
    if (references == 0) {
        result = NVML_ERROR_UNINITIALIZED;
    } else if (--references == 0) {
        __atomic_store_n(&fg_session, NULL, __ATOMIC_SEQ_CST);
        fg_event_sets_release();
    }
    unlock_session();
    return result;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM: return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: return "vGPU ECC not supported";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_FREQ_NOT_SUPPORTED: return "Invalid Frequency";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_DEPRECATED: return "Requested functionality has been deprecated";
    case NVML_ERROR_NOT_READY: return "System is not in ready state";
    case NVML_ERROR_GPU_NOT_FOUND: return "No supported GPUs were found";
    case NVML_ERROR_INVALID_STATE: return "Resource not in correct state to perform requested operation";
    case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: return "Reset type is not supported for given device";
    case NVML_ERROR_UNKNOWN: break;
    }
    return "Unknown Error";
}
