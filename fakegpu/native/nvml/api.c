/* The session of the process, and answers in text. */
#include "nvml/api.h"

#include <string.h>

const struct fg_segment *fg_session;

nvmlReturn_t fg_answer_text(const char *text, size_t size, char *out, unsigned int length)
{
    size_t characters = strnlen(text, size - 1);
    FG_REQUIRE(characters < length, NVML_ERROR_INSUFFICIENT_SIZE);
    /* Callers decode texts, which a driver has in ASCII alone. */
    for (size_t index = 0; index < characters; index++)
        out[index] = (unsigned char)text[index] < 0x80 ? text[index] : '?';
    out[characters] = '\0';
    return NVML_SUCCESS;
}
