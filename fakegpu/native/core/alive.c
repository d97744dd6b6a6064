/* Whether a process is the one that was entered: its number and its start in /proc are the same. */
#include "core/alive.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields of /proc/<pid>/stat after the command, which may contain blanks and brackets: the state, and 19 fields
 * later the start. */
#define FIELDS_TO_START 19

bool fg_is_alive(const struct fg_process *process)
{
    char path[32];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", process->pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0)
        return false;
    text[got] = '\0';
    const char *field = strrchr(text, ')');
    if (field == NULL || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return false;
    field += 2;
    for (int index = 0; index < FIELDS_TO_START; index++) {
        field = strchr(field, ' ');
        if (field == NULL)
            return false;
        field++;
    }
    return strtoull(field, NULL, 10) == process->start_ticks;
}

nvmlReturn_t fg_processes_alive(const struct fg_gpu *gpu, struct fg_processes *alive)
{
    FG_READ_EVEN_IF_LOST(gpu, processes, entered);
    uint32_t count = entered.count < FG_PROCESSES_MAX ? entered.count : FG_PROCESSES_MAX;
    alive->count = 0;
    for (uint32_t index = 0; index < count; index++)
        if (fg_is_alive(&entered.entries[index]))
            alive->entries[alive->count++] = entered.entries[index];
    return NVML_SUCCESS;
}
