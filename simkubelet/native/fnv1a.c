/* The hash that protects the checkpoint: FNV-1a, 32 bits. A hash continues that of the text before it. */
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

static uint32_t with(uint32_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT32_C(0x01000193);
}

EXPORTED uint32_t simkubelet_fnv1a(uint32_t hash, const unsigned char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = with(hash, text[i]);
    return hash;
}

/* The hash over bytes as decimal numbers with blanks between them: "0 17 255". */
EXPORTED uint32_t simkubelet_fnv1a_decimals(uint32_t hash, const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned number = bytes[i];
        if (i > 0)
            hash = with(hash, ' ');
        if (number >= 100)
            hash = with(hash, (unsigned char)('0' + number / 100));
        if (number >= 10)
            hash = with(hash, (unsigned char)('0' + number / 10 % 10));
        hash = with(hash, (unsigned char)('0' + number % 10));
    }
    return hash;
}
