//! The listing of a directory, as HTML or JSON: only names that a request could reach, and every name escaped.
//! Directories first, then by name.

use crate::answer::NotServed;
use crate::directory::DirectoryView;
use crate::load::join;
use crate::path;
use crate::resolve::{self, FileNode, Identity};
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use larder_stdx::html::escape;
use larder_transport::Synthetic;
use rustix::fs::{Dir, fstat};
use serde::Serialize;
use std::fmt::Write as _;

/// The most names of one listing; it states if there are more.
pub const MAX_LISTED: usize = 10_000;

/// The format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingFormat {
    /// A page.
    Html,
    /// An array of objects: `name`, `type`, `size` (files), `mtime`.
    Json,
}

/// One line of a listing.
#[derive(Serialize)]
struct ListingLine {
    /// Lossy if it is not UTF-8: `href` is exact.
    name: String,
    #[serde(rename = "type")]
    kind: ListedKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    mtime: String,
    href: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum ListedKind {
    Directory,
    File,
}

/// Lists `directory` (beneath the root) under the client's path `path`. Blocks.
///
/// # Errors
/// It cannot be read.
pub fn make(
    root: &DirectoryView<'_>,
    path: &[u8],
    directory: &[u8],
    format: ListingFormat,
) -> Result<Synthetic, NotServed> {
    let (lines, cut) = read(root, directory)?;
    let answer = match format {
        ListingFormat::Html => {
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            Synthetic::new(200, "text/html; charset=utf-8", html(path, &lines, cut))
                .with("Content-Security-Policy", policy)
        }
        ListingFormat::Json => {
            let text = serde_json::to_vec(&lines).map_err(|_| NotServed::Failed)?;
            Synthetic::new(200, "application/json", text)
        }
    };
    Ok(answer.with("Vary", "Accept").with("Cache-Control", "no-cache"))
}

/// Whether names were omitted because of the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListingCut {
    Whole,
    Short,
}

fn read(root: &DirectoryView<'_>, directory: &[u8]) -> Result<(Vec<ListingLine>, ListingCut), NotServed> {
    let fd = resolve::open_directory(root.fd(), directory, root.options.symlinks)?;
    let mut lines = Vec::new();
    let mut cut = ListingCut::Whole;
    for it in Dir::read_from(&fd).map_err(resolve::refusal)? {
        let it = it.map_err(resolve::refusal)?;
        if lines.len() == MAX_LISTED {
            cut = ListingCut::Short;
            break;
        }
        let name = it.file_name().to_bytes();
        if path::is_name(name, root.options.dotfiles) {
            lines.extend(line(root, directory, name));
        }
    }
    lines.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    Ok((lines, cut))
}

/// `None` for an entry that is not served: a FIFO, a link that leads outside, a script. A directory may have the name of a script.
fn line(root: &DirectoryView<'_>, directory: &[u8], name: &[u8]) -> Option<ListingLine> {
    let node = resolve::look(root.fd(), &join(directory, name), root.options.rules()).ok()?;
    let (kind, size, modified) = match node {
        FileNode::File(it) => (ListedKind::File, Some(it.size), it.modified.0),
        FileNode::Directory(fd) => (ListedKind::Directory, None, Identity::of(&fstat(fd).ok()?).modified.0),
    };
    let slash = if kind == ListedKind::Directory { "/" } else { "" };
    let mut href = String::new();
    path::encode(name, &mut href);
    Some(ListingLine {
        name: format!("{}{slash}", String::from_utf8_lossy(name)),
        kind,
        size,
        mtime: date::format(WallTime(u64::try_from(modified).unwrap_or(0))),
        href: format!("{href}{slash}"),
    })
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
table{width:100%;border-collapse:collapse}td{padding:.15rem .5rem;white-space:nowrap}\
td:first-child{width:100%;white-space:normal;overflow-wrap:anywhere}td+td{text-align:right;color:GrayText}\
:root{color-scheme:light dark}";

fn html(path: &[u8], lines: &[ListingLine], cut: ListingCut) -> String {
    let title = escape(&String::from_utf8_lossy(path));
    let mut page = String::with_capacity(1024 + lines.len() * 160);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n<table>\n"
    );
    if path != b"/" {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for it in lines {
        let size = it.size.map_or(String::new(), |it| it.to_string());
        let (href, name) = (escape(&it.href), escape(&it.name));
        let _ = writeln!(
            page,
            "<tr><td><a href=\"{href}\">{name}</a></td><td>{size}</td><td>{}</td></tr>",
            it.mtime
        );
    }
    page.push_str("</table>\n");
    if cut == ListingCut::Short {
        let _ = writeln!(page, "<p>The listing is limited to {MAX_LISTED} entries.</p>");
    }
    page.push_str("</body></html>\n");
    page
}
