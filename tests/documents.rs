//! The generated documents (`docs/generated/`) agree with the tables. Other tests cover the tables themselves.
//! `LARDER_BLESS=1 cargo test -p larder --test documents` rewrites the documents.

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

/// The part of a document between two markers is what the code draws, or is rewritten.
#[track_caller]
fn is_drawn(document: &str, name: &str, drawing: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- drawn: {name} -->\n"), format!("<!-- drawn: end of {name} -->\n"));
    let (before, rest) = text.split_once(&begin).expect("the marker of the drawing");
    let (found, after) = rest.split_once(&end).expect("the marker behind the drawing");
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::write(&path, [before, &begin, drawing, &end, after].concat()).unwrap();
        return;
    }
    assert!(
        found == drawing,
        "the drawing of {name} in {document} is out of date: LARDER_BLESS=1 cargo test -p larder --test documents"
    );
}

/// One test: both write the same file.
#[test]
fn machines() {
    is_drawn("ARCHITECTURE.md", "the request machine", &larder_gateway::request::machine::drawing());
    is_drawn("ARCHITECTURE.md", "the fill machine", &larder_gateway::fill::machine::drawing());
}

#[test]
fn findings() {
    is_drawn("docs/guide/reading-the-page.md", "findings", &larder_semantics::health::manual());
}

#[test]
fn reasons() {
    is_drawn("docs/guide/why-is-my-hit-ratio-low.md", "reasons", &larder_semantics::miss_reason::manual());
}

#[test]
fn admin_api() {
    is_current("openapi.json", &format!("{:#}\n", larder_admin::openapi::describe()));
}
