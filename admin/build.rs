//! Puts the page into the binary: every file of `ui/dist`, with its compressed forms, becomes a row of a table. Without a
//! built page the table is empty. Nothing is built or compressed here.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../ui/dist");
    // The folder is always there, so that this looks again only when something of it changed.
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for folder in [dist.clone(), dist.join("assets")] {
        files.extend(fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()));
    }
    files.retain(|it| it.is_file() && content_type(it).is_some());
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let (Some(content_type), Ok(bytes)) = (content_type(file), fs::read(file)) else { continue };
        let name = file.strip_prefix(&dist).unwrap().display().to_string();
        let plain = file.canonicalize().unwrap();
        let _ = writeln!(
            table,
            "    PageFile {{ name: {name:?}, content_type: {content_type:?}, etag: \"{:016x}\", plain: include_bytes!({plain:?}), br: {}, gzip: {} }},",
            hash(&bytes),
            form(file, "br"),
            form(file, "gz"),
        );
    }
    table.push(']');
    let out = Path::new(&env::var("OUT_DIR").unwrap()).join("page.rs");
    fs::write(out, table).unwrap();
}

/// The media type of a file that is served; what is none, as the compressed forms, is no row of its own.
fn content_type(file: &Path) -> Option<&'static str> {
    Some(match file.extension()?.to_str()? {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

/// The bytes of a compressed form as Rust writes them; empty where there is none.
fn form(file: &Path, extension: &str) -> String {
    let name = format!("{}.{extension}", file.file_name().unwrap().to_str().unwrap());
    match PathBuf::from(file).with_file_name(name).canonicalize() {
        Ok(it) => format!("include_bytes!({it:?})"),
        Err(_) => "&[]".to_owned(),
    }
}

/// FNV-1a of 64 bits: tells two builds apart, and nothing more is asked of it.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, it| (hash ^ u64::from(*it)).wrapping_mul(0x0100_0000_01b3))
}
