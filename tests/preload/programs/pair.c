/* Two processes and one connection: pair LISTENED CONNECTED PORT HOW.  Prints how many bytes came back.
 *
 * LISTENED, CONNECTED: numeric addresses.  HOW: wait; begin: connect() does not block; again: nor does it, and it was
 * refused before, at the next port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 40 };

static socklen_t read_address(const char *text, const char *port, struct sockaddr_storage *address)
{
    struct sockaddr_in *four = (void *)address;
    struct sockaddr_in6 *six = (void *)address;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)atoi(port));
        return sizeof *four;
    }
    CHECK(inet_pton(AF_INET6, text, &six->sin6_addr) == 1);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)atoi(port));
    return sizeof *six;
}

static void be_refused(int stream, struct sockaddr_storage address, socklen_t size)
{
    struct sockaddr_in *four = (void *)&address;
    struct pollfd one = {stream, POLLOUT, 0};
    four->sin_port = htons((uint16_t)(ntohs(four->sin_port) + 1)); /* where IPv6 has it, too */
    CHECK(connect(stream, (struct sockaddr *)&address, size) == -1);
    if (errno == EINPROGRESS) {
        CHECK(poll(&one, 1, 10000) == 1);
        CHECK(connect(stream, (struct sockaddr *)&address, size) == -1);
    }
    CHECK(errno == ECONNREFUSED);
}

static void ask(const char *text, const char *port, const char *how)
{
    int begins = strcmp(how, "wait") != 0;
    struct sockaddr_storage address;
    socklen_t size = read_address(text, port, &address);
    int stream = socket(address.ss_family, SOCK_STREAM | (begins ? SOCK_NONBLOCK : 0), 0), came = 0;
    CHECK(stream >= 0);
    if (strcmp(how, "again") == 0) be_refused(stream, address, size);
    if (connect(stream, (struct sockaddr *)&address, size) != 0) {
        struct pollfd one = {stream, POLLOUT, 0};
        CHECK(begins && errno == EINPROGRESS && poll(&one, 1, 10000) == 1);
    }
    CHECK(fcntl(stream, F_SETFL, 0) == 0);
    for (char byte = 0; came < ROUNDS; came++) CHECK(send(stream, &byte, 1, 0) == 1 && recv(stream, &byte, 1, 0) == 1);
    close(stream);
    printf("%d\n", came);
}

int main(int count, char **arguments)
{
    CHECK(count == 5);
    struct sockaddr_storage address;
    socklen_t size = read_address(arguments[1], arguments[3], &address);
    int listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, status;
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent);
        int stream = accept(listener, NULL, NULL);
        CHECK(stream >= 0);
        while (recv(stream, &byte, 1, 0) == 1) CHECK(send(stream, &byte, 1, 0) == 1);
        close(stream);
        exit(0);
    }
    ask(arguments[2], arguments[3], arguments[4]);
    CHECK(waitpid(child, &status, 0) == child);
    return status != 0;
}
