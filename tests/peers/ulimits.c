/* A legacy plugin that adjusts: whatever its request, it asks for one resource limit. */
#include <unistd.h>

static const char result[] =
    "{\"plugin\":\"c\",\"spec\":{\"process\":{\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"hard\":4096,\"soft\":1024}]}}}";

int main(void) {
    char request[65536];
    while (read(0, request, sizeof request) > 0) {
    }
    return write(1, result, sizeof result - 1) < 0;
}
