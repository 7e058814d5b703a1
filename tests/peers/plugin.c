/* A legacy plugin that does nothing: it reads its request and prints a fixed result. */
#include <unistd.h>

static const char result[] = "{\"plugin\":\"c\",\"version\":\"0.1\",\"error\":\"\",\"metadata\":{\"k\":\"v\"}}";

int main(void) {
    char request[65536];
    while (read(0, request, sizeof request) > 0) {
    }
    return write(1, result, sizeof result - 1) < 0;
}
