//! The generated documents (`docs/generated/`) are those of the tables. What the tables say is not here.
//! `LARDER_BLESS=1 cargo test -p larder --test documents` rewrites them.

use std::path::Path;

/// Compares a generated document with the one in the repository, or rewrites that.
#[track_caller]
fn is_current(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated").join(name);
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/generated/{name} is out of date: LARDER_BLESS=1 cargo test -p larder --test documents"
    );
}

#[test]
fn configuration() {
    is_current("config.md", &larder_config::generated::manual());
    is_current("config.schema.json", &larder_config::generated::schema());
}

#[test]
fn commands() {
    is_current("cli.md", &larder_commands::cli::help::manual());
}

#[test]
fn counters() {
    is_current("counters.md", &larder_counters::manual());
}

#[test]
fn log() {
    is_current("log.md", &larder_observe::log::fields::manual());
}

#[test]
fn admin_api() {
    is_current("openapi.json", &format!("{:#}\n", larder_admin::openapi::describe()));
}
