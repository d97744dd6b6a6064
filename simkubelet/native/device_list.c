/*
 * Reads the usual form of v1beta1.ListAndWatchResponse: devices with an id and a health, and nothing else.
 *
 * A list may have 65,000 devices and come many times a second. Whatever is not in the usual form (topology, unknown
 * fields, a field twice, another health, a length that does not fit) is left to the general reader, which knows
 * protobuf's rules.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { TAG_DEVICE = 0x0a, TAG_ID = 0x0a, TAG_HEALTH = 0x12 };

struct span {
    const unsigned char *begin;
    size_t length;
};

/* Takes the first byte of `from`, which is not empty. */
static unsigned char take_byte(struct span *from)
{
    from->length--;
    return *from->begin++;
}

/* Takes a length and so many bytes off the front of `from`; 0 when they are not all there. */
static int take(struct span *from, struct span *taken)
{
    size_t length = 0;
    for (unsigned shift = 0; shift < 28; shift += 7) {
        if (!from->length)
            return 0;
        unsigned char byte = take_byte(from);
        length |= (size_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (length > from->length)
            return 0;
        *taken = (struct span){from->begin, length};
        from->begin += length;
        from->length -= length;
        return 1;
    }
    return 0;
}

static int is(struct span text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.begin, word, text.length) == 0;
}

/* Reads the fields of one device; 0 when it is not in the usual form. */
static int read_device(struct span device, struct span *id, struct span *health)
{
    while (device.length) {
        unsigned char tag = take_byte(&device);
        struct span *field = tag == TAG_ID ? id : tag == TAG_HEALTH ? health : NULL;
        if (!field || field->begin || !take(&device, field))
            return 0;
    }
    return 1;
}

/*
 * Writes each id and a zero byte after it to `ids`, and whether it is healthy to `is_healthy`. Both have room for
 * `length` bytes, and more is never written: a device takes two bytes or more beside its id.
 *
 * Returns the number of devices, or -1 when the message is not in the usual form.
 */
EXPORTED long simkubelet_read_devices(const unsigned char *message, size_t length, char *ids, size_t *ids_length,
                                      unsigned char *is_healthy)
{
    struct span rest = {message, length};
    char *next_id = ids;
    long count = 0;

    while (rest.length) {
        struct span device, id = {0}, health = {0};
        if (take_byte(&rest) != TAG_DEVICE || !take(&rest, &device) || !read_device(device, &id, &health))
            return -1;
        if (id.length && memchr(id.begin, 0, id.length))
            return -1;
        int healthy = is(health, "Healthy");
        if (!healthy && !is(health, "Unhealthy"))
            return -1;
        if (id.length)
            memcpy(next_id, id.begin, id.length);
        next_id += id.length;
        *next_id++ = 0;
        is_healthy[count++] = (unsigned char)healthy;
    }
    *ids_length = (size_t)(next_id - ids);
    return count;
}
