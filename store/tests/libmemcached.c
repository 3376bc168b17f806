/* Which server libmemcached chooses: reads one setting a line from standard input, and writes for each one line with a
 * digit for every key of the file that is named first. A setting is: distribution, number of the hash, how many keys,
 * prefix or "-", whether the prefix is hashed, and servers as host, port (0 for a Unix socket) and weight. */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(memcached_return_t got, const char *what) {
    if (got != MEMCACHED_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, memcached_strerror(NULL, got));
        exit(1);
    }
}

int main(int argc, char **argv) {
    static char *keys[200000];
    static char line[65536];
    size_t count = 0;
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!file)
        return 2;
    while (count < 200000 && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        keys[count++] = strdup(line);
    }
    while (fgets(line, sizeof line, stdin)) {
        char *distribution = strtok(line, " \n");
        int hash = atoi(strtok(NULL, " \n"));
        size_t some = strtoul(strtok(NULL, " \n"), NULL, 10);
        char *prefix = strtok(NULL, " \n");
        int hashed = atoi(strtok(NULL, " \n"));
        memcached_st *client = memcached_create(NULL);
        if (!strcmp(distribution, "modula"))
            must(memcached_behavior_set(client, MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_MODULA), "modula");
        else if (!strcmp(distribution, "ketama"))
            must(memcached_behavior_set(client, MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_CONSISTENT), "ketama");
        else
            must(memcached_behavior_set(client, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1), "ketama_weighted");
        must(memcached_behavior_set(client, MEMCACHED_BEHAVIOR_HASH, hash), "hash");
        must(memcached_behavior_set(client, MEMCACHED_BEHAVIOR_HASH_WITH_PREFIX_KEY, hashed), "with prefix");
        if (strcmp(prefix, "-"))
            must(memcached_callback_set(client, MEMCACHED_CALLBACK_PREFIX_KEY, prefix), "prefix");
        char *host;
        while ((host = strtok(NULL, " \n"))) {
            int port = atoi(strtok(NULL, " \n"));
            int weight = atoi(strtok(NULL, " \n"));
            if (port)
                must(memcached_server_add_with_weight(client, host, port, weight), "server");
            else
                must(memcached_server_add_unix_socket_with_weight(client, host, weight), "socket");
        }
        for (size_t at = 0; at < some && at < count; at++)
            putchar('0' + memcached_generate_hash(client, keys[at], strlen(keys[at])));
        putchar('\n');
        memcached_free(client);
    }
    return 0;
}
