/* A legacy plugin that does nothing but count: it reads its request, notes that in the file which its conf names, and
 * prints a fixed result. Without a request it fails. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char result[] = "{\"plugin\":\"c\",\"version\":\"0.1\",\"error\":\"\",\"metadata\":{\"k\":\"v\"}}";
static const char key[] = "\"log\":\"";

int main(void) {
    char request[65536];
    size_t length = 0;
    ssize_t count;
    while (length < sizeof request && (count = read(0, request + length, sizeof request - length)) > 0)
        length += count;
    char *path = memmem(request, length, key, sizeof key - 1);
    if (!path)
        return 1;
    path += sizeof key - 1;
    char *end = memchr(path, '"', request + length - path);
    if (!end)
        return 1;
    *end = 0;
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    return write(log, ".", 1) < 0 || write(1, result, sizeof result - 1) < 0;
}
