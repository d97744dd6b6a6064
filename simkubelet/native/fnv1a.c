/* The hash that protects the checkpoint: FNV-1a, 32 bits. A hash continues that of the text before it. */
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED uint32_t simkubelet_fnv1a(uint32_t hash, const unsigned char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ text[i]) * UINT32_C(0x01000193);
    return hash;
}
