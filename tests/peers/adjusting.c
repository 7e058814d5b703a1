/* A legacy plugin that reads its request, and sets two variables and a limit in the container. */
#include <unistd.h>

static const char result[] =
    "{\"spec\":{\"process\":{\"env\":[\"A=1\",\"B=2\"],"
    "\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":1024,\"hard\":4096}]}}}";

int main(void) {
    char request[65536];
    ssize_t count;
    while ((count = read(0, request, sizeof request)) > 0)
        ;
    return count < 0 || write(1, result, sizeof result - 1) < 0;
}
