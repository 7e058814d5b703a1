/* A legacy plugin that takes a second at the create of each container, and writes when it is done with it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char request[1 << 20];

/* Returns the string of a key that the original client writes before all others of its name. */
static const char *value(const char *key, size_t *length) {
    char *found = strstr(request, key);
    if (!found)
        return 0;
    found += strlen(key);
    *length = strcspn(found, "\"");
    return found;
}

int main(void) {
    size_t length = 0, id_length, pod_length;
    ssize_t count;
    while (length < sizeof request - 1 && (count = read(0, request + length, sizeof request - 1 - length)) > 0)
        length += count;
    const char *id = value("\"id\":\"", &id_length), *pod = value("\"sandboxID\":\"", &pod_length);
    if (strstr(request, "\"state\":\"create\"") && id && pod && strncmp(id, pod, id_length)) {
        struct timespec now;
        int log = open("/run/e2e/done", O_WRONLY | O_APPEND | O_CREAT, 0600);
        sleep(1);
        clock_gettime(CLOCK_REALTIME, &now);
        if (dprintf(log, "%.*s %ld.%09ld\n", (int)id_length, id, (long)now.tv_sec, now.tv_nsec) < 0)
            return 1;
    }
    return write(1, "{}", 2) != 2;
}
