//! A name that moves: a resolver for `moving.test`, put before the system's in a process by `LD_PRELOAD`.

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found) {
    resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    char address[64] = "";
    if (name && strcmp(name, "moving.test") == 0) {
        FILE *file = fopen(getenv("MOVING_TEST"), "r");
        if (!file || !fgets(address, sizeof address, file)) return EAI_NONAME;
        fclose(file);
        name = address;
    }
    return real(name, service, hints, found);
}
"#;

/// Where `moving.test` is.
pub struct Moving {
    folder: tempfile::TempDir,
}

impl Moving {
    /// At this address to begin with.
    pub fn at(address: &str) -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(it.path("resolver.c"), SOURCE).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"])
            .arg(it.path("resolver.so"))
            .arg(it.path("resolver.c"))
            .arg("-ldl");
        let made = cc.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        it.moves(address);
        it
    }

    /// It is there from now on.
    pub fn moves(&self, address: &str) {
        std::fs::write(self.path("address"), address).unwrap();
    }

    /// The environment of a process that knows it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |name: &str| self.path(name).to_str().unwrap().to_owned();
        vec![("LD_PRELOAD".to_owned(), text("resolver.so")), ("MOVING_TEST".to_owned(), text("address"))]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
