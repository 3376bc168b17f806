//! Sites as their users have them in Caddy, HAProxy, lighttpd and nginx, moved to larder: both servers get the same requests. Every difference
//! is a row of a table in `tests/golden`, with its reason.

mod caddy;
mod haproxy;
mod lighttpd;
mod nextcloud;

use crate::harness::comparison::Comparison;
use std::path::Path;

/// The host of each site.
const HOST: &str = "site.test";

/// A user `alice` with the password `wonder`.
const USER: &str = "alice:$2y$05$nqrEGNM0TuZLMwtLsDSZzOuOm9YEK9dvfU191yXxS52xO0Er0JBRy";

/// Writes files of a site.
fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        // A file that was written a moment ago has no reliable date, and larder then sends none.
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(past).unwrap();
    }
}

/// Checks the table of a site.
fn check(compared: &Comparison, file: &str, server: &str, module: &str) {
    let count = compared.count;
    assert!(count >= 15, "{count}");
    let intro = format!(
        "# A site of {server} that was moved\n\nOf {count} requests of `tests/scenarios/moved_sites/{module}.rs`, each sent to {server} and to larder. \
         Where the status differs, no other\npart is listed."
    );
    compared.check(file, server, &intro);
}
