//! The media type of a file, by the extension of its name (RFC 9110 §8.3). Contents are never examined.

/// The type of an unknown extension: bytes, which no browser executes.
const UNKNOWN: &str = "application/octet-stream";

/// `Content-Type` of a file of this name. `overrides` are pairs of extension (lower case, without dot) and type, and win.
/// Text gets `charset=utf-8`, overrides are unchanged.
#[must_use]
pub fn media_type(name: &[u8], overrides: &[(String, String)]) -> String {
    let Some(extension) = extension(name) else { return UNKNOWN.to_owned() };
    if let Some((_, chosen)) = overrides.iter().find(|it| it.0.eq_ignore_ascii_case(extension)) {
        return chosen.clone();
    }
    let guess = match extension.to_ascii_lowercase().as_str() {
        "ts" | "mts" => "video/mp2t", // The database has a vendor's type; players know this one.
        "mjs" | "cjs" => "text/javascript", // RFC 9239; the database has the obsolete one.
        _ => mime_guess::from_ext(extension).first_raw().unwrap_or(UNKNOWN),
    };
    match is_text(guess) {
        true => format!("{guess}; charset=utf-8"),
        false => guess.to_owned(),
    }
}

/// The extensions of formats of their own: pages, images, recordings, fonts, data. Not text as it is, no archive, and no name that
/// editors, shells and other languages use as well, such as `ts`, `dif` and `mod`: the database of types calls these recordings.
const FORMATS: &[&str] = &[
    "html",
    "htm",
    "xhtml",
    "css",
    "js",
    "mjs",
    "cjs",
    "json",
    "map",
    "geojson",
    "jsonld",
    "webmanifest",
    "xml",
    "rss",
    "atom",
    "csv",
    "md",
    "pdf",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "webp",
    "avif",
    "svg",
    "ico",
    "bmp",
    "tif",
    "tiff",
    "woff",
    "woff2",
    "ttf",
    "otf",
    "eot",
    "mp3",
    "m4a",
    "aac",
    "flac",
    "ogg",
    "oga",
    "opus",
    "wav",
    "mp4",
    "m4v",
    "webm",
    "ogv",
    "mov",
    "mpg",
    "mpeg",
    "avi",
    "mkv",
    "heic",
    "heif",
    "jxl",
];

/// Whether files of this extension are in a format of their own, which no program takes for text.
pub fn is_format(extension: &[u8]) -> bool {
    FORMATS.iter().any(|it| extension.eq_ignore_ascii_case(it.as_bytes()))
}

fn extension(name: &[u8]) -> Option<&str> {
    let dot = name.iter().rposition(|it| *it == b'.').filter(|it| *it > 0)?;
    std::str::from_utf8(&name[dot + 1..]).ok().filter(|it| !it.is_empty())
}

/// JSON has no charset parameter (RFC 8259 §11), XML declares its encoding inside.
fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expect: &str) {
        let overrides = [("foo".to_owned(), "application/x-foo".to_owned())];
        assert_eq!(expect, media_type(name.as_bytes(), &overrides), "{name}");
    }

    #[test]
    fn by_extension() {
        check("index.html", "text/html; charset=utf-8");
        check("INDEX.HTM", "text/html; charset=utf-8");
        check("a.css", "text/css; charset=utf-8");
        check("a.js", "text/javascript; charset=utf-8");
        check("a.mjs", "text/javascript; charset=utf-8");
        check("a.json", "application/json");
        check("a.svg", "image/svg+xml");
        check("a.png", "image/png");
        check("a.webp", "image/webp");
        check("a.avif", "image/avif");
        check("a.woff2", "font/woff2");
        check("a.wasm", "application/wasm");
        check("a.txt", "text/plain; charset=utf-8");
        check("a.tar.gz", "application/gzip");
        check("a.mp4", "video/mp4");
        check("a.pdf", "application/pdf");
        check("a.ts", "video/mp2t");
        check("a.foo", "application/x-foo");
        check("a.FOO", "application/x-foo");
        check("README", UNKNOWN);
        check("a.", UNKNOWN);
        check(".html", UNKNOWN);
        check("a.unheard-of", UNKNOWN);
    }

    #[test]
    fn formats_of_their_own() {
        for extension in [
            "html", "HTM", "xhtml", "css", "mjs", "json", "svg", "png", "mp4", "woff2", "pdf", "md", "xml",
            "rss",
        ] {
            assert!(is_format(extension.as_bytes()), "{extension}");
        }
        for extension in [
            "",
            "txt",
            "log",
            "bak",
            "gz",
            "tgz",
            "zip",
            "7z",
            "php",
            "config",
            "sql",
            "sh",
            "unheard-of",
            "ts",
            "dif",
            "mod",
            "m",
            "dv",
            "pic",
        ] {
            assert!(!is_format(extension.as_bytes()), "{extension}");
        }
        assert!(!is_format(b"\xff"));
    }
}
