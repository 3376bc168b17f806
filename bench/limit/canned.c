/* The least that a server can do for a hit: one epoll loop that finds the ends of request heads and
 * answers each with the same prepared bytes. No parsing, no routing, no cache. It is the limit that
 * larder is measured against, and the origin behind the caches that are measured.
 *
 *     canned copy|sendfile PORT FILE [HEADER-LINE]...
 *
 * `copy` writes head and body from memory, up to 16 answers in one write. `sendfile` keeps the body in
 * a memfd: the head goes with MSG_MORE, the body by sendfile(2). Answers keep the connection open unless
 * the request says `Connection: close`. It trusts its client: it is run on loopback by the benchmark only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 65536, BATCH = 16, EVENTS = 512, READ = 65536 };

/* What a connection remembers between two events; the index is its descriptor. */
struct connection {
    unsigned owed;         /* answers not yet wholly written */
    size_t written;        /* bytes of the first of them that are */
    unsigned char matched; /* bytes of "\r\n\r\n" at the end of what was read */
    unsigned char closing; /* the request asked for a close */
    unsigned char waiting; /* registered for EPOLLOUT */
};

static struct connection connections[CONNECTIONS];
static char input[READ + 1];
/* BATCH equal answers one after the other: [0] keeps the connection open, [1] says that it is closed. */
static struct { char *bytes; size_t len, head_len; } answers[2];
static size_t body_len;
static int poller, listener, body_fd = -1;

static void die(const char *what) { perror(what); exit(1); }

static void forget(int fd) {
    memset(&connections[fd], 0, sizeof connections[fd]);
    close(fd);
}

static void watch(int fd, unsigned events, int how) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(poller, how, fd, &event) < 0) die("epoll_ctl");
}

/* Ends of heads in what was read; a terminator may be split between two reads. */
static unsigned heads(struct connection *it, size_t len) {
    unsigned count = 0;
    if (it->matched == 0 && len >= 4 && memcmp(input + len - 4, "\r\n\r\n", 4) == 0) {
        for (char *at = input; (at = memmem(at, input + len - at, "\r\n\r\n", 4)); at += 4) count++;
        return count;
    }
    for (size_t i = 0; i < len; i++) {
        char wanted = it->matched % 2 ? '\n' : '\r';
        it->matched = input[i] == wanted ? it->matched + 1 : input[i] == '\r';
        if (it->matched == 4) { count++; it->matched = 0; }
    }
    return count;
}

/* One write towards the peer: bytes written, or -1. */
static ssize_t push(int fd, struct connection *it) {
    const char *bytes = answers[it->closing].bytes;
    size_t head_len = answers[it->closing].head_len;
    if (body_fd < 0) {
        unsigned batch = it->owed < BATCH ? it->owed : BATCH;
        return send(fd, bytes + it->written, batch * answers[it->closing].len - it->written, MSG_NOSIGNAL);
    }
    if (it->written < head_len) {
        return send(fd, bytes + it->written, head_len - it->written, MSG_NOSIGNAL | MSG_MORE);
    }
    off_t offset = it->written - head_len;
    return sendfile(fd, body_fd, &offset, body_len - offset);
}

static void answer_all(int fd) {
    struct connection *it = &connections[fd];
    while (it->owed > 0) {
        ssize_t n = push(fd, it);
        if (n < 0 && errno == EAGAIN) {
            if (!it->waiting) { it->waiting = 1; watch(fd, EPOLLOUT, EPOLL_CTL_MOD); }
            return;
        }
        if (n <= 0) { forget(fd); return; }
        it->written += n;
        it->owed -= it->written / answers[it->closing].len;
        it->written %= answers[it->closing].len;
    }
    if (it->closing) { forget(fd); return; }
    if (it->waiting) { it->waiting = 0; watch(fd, EPOLLIN, EPOLL_CTL_MOD); }
}

static void receive(int fd) {
    struct connection *it = &connections[fd];
    ssize_t n = recv(fd, input, READ, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) { forget(fd); return; }
    input[n] = 0;
    it->owed += heads(it, n);
    if (memmem(input, n, "Connection: close", 17)) it->closing = 1;
    answer_all(fd);
}

static void accept_one(void) {
    int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) return;
    if (fd >= CONNECTIONS) { close(fd); return; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    memset(&connections[fd], 0, sizeof connections[fd]);
    watch(fd, EPOLLIN, EPOLL_CTL_ADD);
}

/* Reads the body: into memory, and into a memfd for `sendfile`. */
static char *load(int by_sendfile, const char *file) {
    int from = open(file, O_RDONLY);
    struct stat found;
    if (from < 0 || fstat(from, &found) < 0) die(file);
    body_len = found.st_size;
    char *body = malloc(body_len);
    for (size_t got = 0; got < body_len;) {
        ssize_t n = read(from, body + got, body_len - got);
        if (n <= 0) die(file);
        got += n;
    }
    close(from);
    if (by_sendfile) {
        body_fd = memfd_create("body", 0);
        if (write(body_fd, body, body_len) != (ssize_t)body_len) die("memfd");
    }
    return body;
}

/* Prepares answers[closing]. */
static void prepare(int closing, const char *body, char **lines, int count) {
    char head[4096], date[64];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    int at = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nServer: canned\r\nDate: %s\r\n"
                      "Content-Type: text/html\r\nContent-Length: %zu\r\n%s", date, body_len,
                      closing ? "Connection: close\r\n" : "");
    for (int i = 0; i < count; i++) at += snprintf(head + at, sizeof head - at, "%s\r\n", lines[i]);
    at += snprintf(head + at, sizeof head - at, "\r\n");
    char *bytes = malloc(BATCH * (at + body_len));
    for (int i = 0; i < BATCH; i++) {
        memcpy(bytes + i * (at + body_len), head, at);
        memcpy(bytes + i * (at + body_len) + at, body, body_len);
    }
    answers[closing].bytes = bytes;
    answers[closing].head_len = at;
    answers[closing].len = at + body_len;
}

int main(int argc, char **argv) {
    if (argc < 4) { fprintf(stderr, "usage: canned copy|sendfile PORT FILE [HEADER-LINE]...\n"); return 2; }
    char *body = load(strcmp(argv[1], "sendfile") == 0, argv[3]);
    for (int closing = 0; closing < 2; closing++) prepare(closing, body, argv + 4, argc - 4);
    free(body);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2])),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0) die("bind");
    if (listen(listener, 4096) < 0) die("listen");
    poller = epoll_create1(0);
    watch(listener, EPOLLIN, EPOLL_CTL_ADD);
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_one();
            else if (connections[fd].waiting) answer_all(fd);
            else receive(fd);
        }
    }
}
