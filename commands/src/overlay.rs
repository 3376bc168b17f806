//! `larder overlay`: adds, removes or lists overlays of a running larder.

use crate::admin_client;
use crate::cli::{OverlayCommand, OverlayWhat};
use larder_files::media_type;
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use larder_stdx::error::plain;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a page, as in the admin.
const LARGEST: u64 = 32 << 20;

/// The response: the overlays concerned, as in the API.
///
/// # Errors
/// One sentence: the file cannot be read, no larder responds, or the overlay is rejected.
pub fn request(order: &OverlayCommand) -> Result<Value, String> {
    const PATH: &str = "/api/v1/overlays";
    let query = |uri: &str| format!("{PATH}?uri={}", admin_client::encoded(uri));
    let page = match &order.what {
        OverlayWhat::Add { file, .. } => read(file)?,
        _ => Vec::new(),
    };
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    match &order.what {
        OverlayWhat::List => admin_client::get(&admin, PATH, TIMEOUT),
        OverlayWhat::Remove(uri) => {
            let gone =
                admin_client::send(&admin, ("DELETE", &query(uri)), admin_client::NO_TYPE, b"", TIMEOUT)?;
            Ok(json!({ "removed": gone }))
        }
        OverlayWhat::Add { uri, file, ttl, status, media } => {
            let mut path = query(uri);
            ttl.map(|it| write!(path, "&ttl={it}"));
            status.map(|it| write!(path, "&status={it}"));
            let media =
                media.clone().or_else(|| by_name(file)).unwrap_or_else(|| admin_client::NO_TYPE.to_owned());
            let set = admin_client::send(&admin, ("PUT", &path), &media, &page, TIMEOUT)?;
            Ok(json!({ "added": set }))
        }
    }
}

/// The media type by the extension of a file's name, if known.
fn by_name(file: &Path) -> Option<String> {
    let name = file.file_name()?.as_encoded_bytes();
    Some(media_type(name, &[])).filter(|it| it != "application/octet-stream")
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut page = Vec::new();
    let most = LARGEST + 1;
    let read = match file.to_str() {
        Some("-") => std::io::stdin().take(most).read_to_end(&mut page),
        _ => std::fs::File::open(file).and_then(|it| it.take(most).read_to_end(&mut page)),
    };
    read.map_err(|it| format!("{} cannot be read: {}.", file.display(), plain(&it)))?;
    match page.len() as u64 > LARGEST {
        true => Err(format!("{} exceeds the maximum overlay size of 32MiB.", file.display())),
        false => Ok(page),
    }
}

/// The response as text.
#[must_use]
pub fn render(answer: &Value) -> String {
    let one = |it: &Value| {
        let text = |name: &str| it[name].as_str().unwrap_or("").to_owned();
        let until = it["expires"]
            .as_u64()
            .map_or(String::new(), |it| format!(", until {}", date::format(WallTime(it))));
        format!("{} ({}, {}, {} bytes{until})", text("uri"), it["status"], text("content_type"), it["bytes"])
    };
    if let Some(it) = answer.get("added") {
        return format!("overlay set: {}\n", one(it));
    }
    if let Some(it) = answer.get("removed") {
        return format!("overlay removed: {}\n", one(it));
    }
    let none = Vec::new();
    let all = answer["overlays"].as_array().unwrap_or(&none);
    let mut out = String::new();
    for it in all {
        let _ = writeln!(out, "{:>8} hits  {}", it["hits"].as_u64().unwrap_or(0), one(it));
    }
    let _ = writeln!(out, "{} overlays, {} of {} bytes", all.len(), answer["bytes"], answer["limit_bytes"]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_follows_the_file_extension() {
        let check =
            |file: &str, expect: Option<&str>| assert_eq!(expect, by_name(Path::new(file)).as_deref());
        check("pages/soon.html", Some("text/html; charset=utf-8"));
        check("logo.PNG", Some("image/png"));
        check("a.json", Some("application/json"));
        check("soon", None);
        check("-", None);
    }
}
