/* The least that a server can do for a hit by TLS: one epoll loop that opens what came, finds the ends of request heads,
 * and seals the same prepared answer for each. OpenSSL does the TLS, as it does for the peers.
 *
 *     canned-tls tls PEM PORT FILE
 *
 * PEM has the certificate and its key. It trusts its client as `canned` does, and more: a client that reads nothing is
 * left. It is run on loopback by the benchmark only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 65536, EVENTS = 512, READ = 16384 };

static SSL *sessions[CONNECTIONS];
static char input[READ + 1], *answer;
static int answer_len, poller, listener;

static void die(const char *what) { perror(what); exit(1); }

static void forget(int fd) {
    SSL_free(sessions[fd]);
    sessions[fd] = NULL;
    close(fd);
}

static void watch(int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

/* Answers each head that is whole; one that comes in two reads is not for this program. */
static void receive(int fd) {
    SSL *tls = sessions[fd];
    for (;;) {
        int n = SSL_read(tls, input, READ);
        if (n <= 0) {
            if (SSL_get_error(tls, n) != SSL_ERROR_WANT_READ) forget(fd);
            return;
        }
        input[n] = 0;
        for (char *at = input; (at = memmem(at, input + n - at, "\r\n\r\n", 4)); at += 4) {
            if (SSL_write(tls, answer, answer_len) <= 0) { forget(fd); return; }
        }
        if (!SSL_has_pending(tls)) return;
    }
}

static void accept_one(SSL_CTX *context) {
    int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) return;
    if (fd >= CONNECTIONS) { close(fd); return; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sessions[fd] = SSL_new(context);
    SSL_set_fd(sessions[fd], fd);
    SSL_set_accept_state(sessions[fd]);
    watch(fd);
}

static void prepare(const char *file) {
    FILE *from = fopen(file, "rb");
    if (!from) die(file);
    char *body = malloc(1 << 20);
    size_t len = fread(body, 1, 1 << 20, from);
    fclose(from);
    answer = malloc(len + 512);
    answer_len = sprintf(answer, "HTTP/1.1 200 OK\r\nServer: canned\r\nContent-Type: text/html\r\nContent-Length: %zu\r\n\r\n", len);
    memcpy(answer + answer_len, body, len);
    answer_len += len;
    free(body);
}

int main(int argc, char **argv) {
    if (argc < 5) { fprintf(stderr, "usage: canned-tls tls PEM PORT FILE\n"); return 2; }
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate_chain_file(context, argv[2]) != 1) die(argv[2]);
    if (SSL_CTX_use_PrivateKey_file(context, argv[2], SSL_FILETYPE_PEM) != 1) die(argv[2]);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    prepare(argv[4]);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3])),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0) die("bind");
    if (listen(listener, 4096) < 0) die("listen");
    poller = epoll_create1(0);
    watch(listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener) accept_one(context);
            else receive(events[i].data.fd);
        }
    }
}
