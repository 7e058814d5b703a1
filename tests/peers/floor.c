/* What the machine itself takes, in nanoseconds, a line per round:
 *   floor spawn N PROGRAM [ARGUMENT ...]   vfork, exec with an empty environment, wait
 *   floor socket N                         a byte to another process and back over a unix socket
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void spawn(char **command) {
    static char *empty[] = {NULL};
    int status;
    pid_t child = vfork();
    if (child == 0) {
        execve(command[0], command, empty);
        _exit(127);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(1);
}

static int echo(void) {
    int ends[2];
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        exit(1);
    if (fork() == 0) {
        close(ends[0]);
        while (read(ends[1], &byte, 1) == 1 && write(ends[1], &byte, 1) == 1) {
        }
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

static void round_trip(int socket) {
    char byte = 'x';
    if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
        exit(1);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int spawning = strcmp(argv[1], "spawn") == 0;
    int socket = spawning ? -1 : echo();
    int results = dup(1);
    int null = open("/dev/null", O_RDWR);
    FILE *out = fdopen(results, "w");
    if (null < 0 || out == NULL || fcntl(results, F_SETFD, FD_CLOEXEC) != 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return 1;
    for (int n = atoi(argv[2]); n > 0; n--) {
        long long begin = now();
        if (spawning)
            spawn(argv + 3);
        else
            round_trip(socket);
        fprintf(out, "%lld\n", now() - begin);
    }
    return fclose(out) != 0;
}
