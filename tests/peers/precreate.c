/* A precreate hook: it puts a variable at the beginning of the environment. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

static char spec[1 << 20];
static const char before[] = "\"env\":[", variable[] = "\"HOOK=precreate\",";

static void print(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(1, text, length);
        if (written < 0)
            _exit(1);
        text += written;
        length -= written;
    }
}

int main(void) {
    size_t length = 0;
    ssize_t count;
    while (length < sizeof spec && (count = read(0, spec + length, sizeof spec - length)) > 0)
        length += count;
    char *found = memmem(spec, length, before, sizeof before - 1);
    if (!found)
        return 1;
    found += sizeof before - 1;
    print(spec, found - spec);
    print(variable, sizeof variable - 1);
    print(found, spec + length - found);
    return 0;
}
