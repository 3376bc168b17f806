//! The URLs to request: from a list, an access log, or sitemaps. Each once; the most requested first if their number is
//! known.

use super::WarmTarget;
use super::sitemap;
use super::warm_page::WarmPage;
use crate::cli::{UrlSource, Warm};
use larder_gateway::coding::codec::{self, Undecodable};
use larder_semantics::coding::Coding;
use larder_semantics::scheme::Scheme;
use larder_stdx::error::plain;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The most URLs; at a hundred bytes each they are a hundred megabytes.
pub const MOST: usize = 1_000_000;
/// The most sitemaps.
const MOST_SITEMAPS: usize = 1_000;
/// The most bytes of a decoded sitemap: the protocol's own limit.
const LARGEST_SITEMAP: usize = 50 << 20;
/// The most bytes of a line; the rest of a longer one is skipped.
const LONGEST_LINE: u64 = 64 << 10;

/// The URLs that were found.
#[derive(Debug, Default)]
pub struct Urls {
    /// The pages, in the order of requests; without duplicates.
    pub pages: Vec<WarmPage>,
    /// The number of pages that were omitted because their host is not that of the sitemap.
    pub elsewhere: usize,
    /// The number of lines, or entries of sitemaps, without a valid page; and the number of the first line.
    pub unread: usize,
    /// See `unread`.
    pub first_unread: usize,
    /// Whether there were more than [`MOST`].
    pub cut: bool,
    /// Sitemaps that could not be read, or were truncated: their entries before that are among the pages.
    pub incomplete: usize,
    /// The first of them, and the reason.
    pub first_incomplete: String,
}

/// The meaning of a line of a file.
#[derive(Debug, PartialEq, Eq)]
enum ListedLine {
    /// A page to request.
    Page(WarmPage),
    /// Not to be requested: a comment, or a request that cannot be repeated.
    Other,
    /// Invalid.
    Wrong,
}

impl ListedLine {
    fn of(page: Option<WarmPage>) -> Self {
        page.map_or(ListedLine::Wrong, ListedLine::Page)
    }
}

/// Finds the URLs.
///
/// # Errors
/// One sentence: the file that cannot be read.
pub(super) async fn find(order: &Warm, larder: &WarmTarget) -> Result<Urls, String> {
    match &order.from {
        UrlSource::List(path) => lines(path, list),
        UrlSource::Log(path) => lines(path, log),
        UrlSource::Sitemap(page) => sitemaps(larder, page).await,
    }
}

/// Reads a file line by line.
fn lines(path: &Path, read: fn(&str) -> ListedLine) -> Result<Urls, String> {
    let wrong = |it: std::io::Error| format!("{} cannot be read: {}.", path.display(), plain(&it));
    let file: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(wrong)?),
    };
    let mut file = BufReader::new(file);
    let mut seen: HashMap<WarmPage, (u64, usize)> = HashMap::new();
    let mut urls = Urls::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(wrong)?;
        if count == 0 {
            break;
        }
        if count as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            file.skip_until(b'\n').map_err(wrong)?;
            urls.leave_out(number);
            continue;
        }
        // Bytes that are not UTF-8 are percent-encoded.
        let text: String = match std::str::from_utf8(&line) {
            Ok(text) => text.to_owned(),
            Err(_) => encoded(line.trim_ascii()),
        };
        let page = match read(text.trim()) {
            ListedLine::Page(page) => page,
            ListedLine::Other => continue,
            ListedLine::Wrong => {
                urls.leave_out(number);
                continue;
            }
        };
        let first = seen.len();
        match seen.get_mut(&page) {
            Some((times, _)) => *times += 1,
            None if first < MOST => drop(seen.insert(page, (1, first))),
            None => urls.cut = true,
        }
    }
    let mut pages: Vec<_> = seen.into_iter().collect();
    // Pages with equal counts are in the order of the file.
    pages.sort_by_key(|(_, (times, first))| (std::cmp::Reverse(*times), *first));
    urls.pages = pages.into_iter().map(|it| it.0).collect();
    Ok(urls)
}

impl Urls {
    /// Records a sitemap that could not be read completely.
    fn miss(&mut self, sitemap: &WarmPage, why: &str) {
        self.incomplete += 1;
        if self.first_incomplete.is_empty() {
            self.first_incomplete = format!("{sitemap}: {why}");
        }
    }

    fn leave_out(&mut self, line: usize) {
        self.unread += 1;
        if self.first_unread == 0 {
            self.first_unread = line;
        }
    }
}

/// One line of a list: a URL or a path; `#` begins a comment.
fn list(line: &str) -> ListedLine {
    if line.is_empty() || line.starts_with('#') { ListedLine::Other } else { ListedLine::of(page(line)) }
}

/// One line of a log in the common or combined format: a successful GET.
fn log(line: &str) -> ListedLine {
    let parts = || {
        let (_, rest) = line.split_once('"')?;
        let (request, rest) = rest.split_once("\" ")?;
        let status: u16 = rest.split(' ').next()?.parse().ok()?;
        Some((request, status))
    };
    let Some((request, status)) = parts() else {
        return if line.is_empty() { ListedLine::Other } else { ListedLine::Wrong };
    };
    let mut words = request.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if matches!(status, 200..400) => ListedLine::of(page(target)),
        _ => ListedLine::Other,
    }
}

/// A URL or a path. Characters that a browser would encode are encoded; a fragment is dropped.
fn page(text: &str) -> Option<WarmPage> {
    let (scheme, authority, target) = match Scheme::split(text) {
        Some((scheme, rest)) => {
            let cut = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let authority = scheme.without_port(&rest[..cut]).to_ascii_lowercase();
            (Some(scheme), Some(authority), &rest[cut..])
        }
        None => (None, None, text),
    };
    let is_host = |it: &String| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic() && it != b'@');
    if authority.as_ref().is_some_and(|it| !is_host(it)) || authority.is_none() && !target.starts_with('/') {
        return None;
    }
    let target = target.split('#').next().unwrap_or(target);
    let slash = if target.starts_with('/') { "" } else { "/" };
    Some(WarmPage { scheme, authority, target: format!("{slash}{}", encoded(target.as_bytes())) })
}

/// Bytes encoded for a URL.
fn encoded(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' => encoded.push(char::from(*byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Reads a sitemap and those that it names, through larder itself.
async fn sitemaps(larder: &WarmTarget, sitemap: &str) -> Result<Urls, String> {
    let first = page(sitemap).ok_or_else(|| format!("{sitemap:?} is not a URL."))?;
    let host = first.authority.clone().unwrap_or_default();
    let is_ours = |it: &WarmPage| it.authority.as_deref().is_none_or(|it| same_host(it, &host));
    let mut todo = VecDeque::from([first.clone()]);
    let mut read: HashSet<WarmPage> = HashSet::new();
    let mut seen: HashSet<WarmPage> = HashSet::new();
    let mut urls = Urls::default();
    while let Some(next) = todo.pop_front() {
        if read.len() == MOST_SITEMAPS {
            urls.cut = true;
            break;
        }
        if !read.insert(next.clone()) {
            continue;
        }
        let found = match fetch(larder, &next).await {
            Ok((text, is_whole)) => {
                let found = sitemap::read(&text);
                sitemap::Sitemap { cut: found.cut || !is_whole, ..found }
            }
            Err(why) if read.len() == 1 => {
                return Err(format!("The sitemap {next} cannot be read: {why}."));
            }
            // One of many; the rest are read even so.
            Err(why) => {
                urls.miss(&next, &why.to_string());
                continue;
            }
        };
        if found.cut || found.is_another && read.len() > 1 {
            urls.miss(&next, if found.cut { "it is truncated" } else { "it is not a sitemap" });
        }
        for sitemap in &found.sitemaps {
            match page(sitemap) {
                Some(it) if is_ours(&it) => todo.push_back(it),
                Some(_) => urls.elsewhere += 1,
                None => urls.miss(&next, &format!("{sitemap:?} in it is not a URL")),
            }
        }
        for page in found.pages.iter().map(|it| page(it)) {
            let Some(page) = page else {
                urls.unread += 1;
                continue;
            };
            match (is_ours(&page), seen.len() < MOST) {
                (false, _) => urls.elsewhere += 1,
                (true, false) => urls.cut = true,
                (true, true) => {
                    // With the scheme of the sitemap: a public name represents larder's port.
                    let is_alike = page.scheme.is_none_or(|it| Some(it) == first.scheme);
                    let page = match is_alike {
                        true => WarmPage { target: page.target, ..first.clone() },
                        false => page,
                    };
                    if seen.insert(page.clone()) {
                        urls.pages.push(page);
                    }
                }
            }
        }
    }
    Ok(urls)
}

/// Whether two authorities have the same host, with any ports.
fn same_host(a: &str, b: &str) -> bool {
    let host = |it: &str| match it.rfind(':') {
        Some(at) if !it[at..].contains(']') => it[..at].to_owned(),
        _ => it.to_owned(),
    };
    host(a) == host(b)
}

/// The reason why a sitemap is not read.
enum UnreadSitemap {
    /// The response had this status.
    Status(u16),
    /// The sitemap, or the response, is incomplete.
    Broken(String),
}

impl std::convert::From<String> for UnreadSitemap {
    fn from(why: String) -> Self {
        UnreadSitemap::Broken(why)
    }
}

impl fmt::Display for UnreadSitemap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnreadSitemap::Status(status) => write!(f, "status {status}"),
            UnreadSitemap::Broken(why) => f.write_str(why),
        }
    }
}

/// The text of a sitemap, and whether it is complete.
async fn fetch(larder: &WarmTarget, page: &WarmPage) -> Result<(String, bool), UnreadSitemap> {
    let (status, fields, exchange) =
        larder.get(page).await.map_err(|it| it.sentence().trim_end_matches('.').to_owned())?;
    if status != 200 {
        return Err(UnreadSitemap::Status(status));
    }
    let mut body = Vec::new();
    while let Some(piece) =
        exchange.next().await.map_err(|it| it.sentence().trim_end_matches('.').to_owned())?
    {
        if body.len() + piece.len() > LARGEST_SITEMAP {
            return Err("it is larger than 50 MiB".to_owned().into());
        }
        body.extend_from_slice(&piece);
    }
    // Coded in transit, or a compressed file: `sitemap.xml.gz`.
    let mut is_whole = true;
    for _ in 0..2 {
        if !body.starts_with(&[0x1f, 0x8b]) {
            break;
        }
        let (plain, all) = codec::decode_beginning(Coding::Gzip, &body, LARGEST_SITEMAP as u64);
        match all {
            Ok(()) => {}
            Err(Undecodable::Broken) if !plain.is_empty() => is_whole = false,
            Err(Undecodable::Broken) => {
                return Err("it is not a gzip file, or it is truncated".to_owned().into());
            }
            Err(Undecodable::TooLarge | Undecodable::Bomb) => {
                return Err("it exceeds 50 MiB, or expands to hundreds of times its file size"
                    .to_owned()
                    .into());
            }
        }
        body = plain;
    }
    let coding = fields.get("content-encoding").map(|it| String::from_utf8_lossy(it).into_owned());
    if coding.as_deref().is_some_and(|it| !matches!(it, "gzip" | "x-gzip" | "identity")) {
        return Err(format!("it has the content coding {}", coding.unwrap_or_default()).into());
    }
    Ok((String::from_utf8_lossy(&body).into_owned(), is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(read: fn(&str) -> ListedLine, line: &str, expect: &str) {
        let found = match read(line) {
            ListedLine::Page(it) => it.to_string(),
            it => format!("{it:?}"),
        };
        assert_eq!(expect, found, "{line}");
    }

    #[test]
    fn lines_of_a_list() {
        check(list, "http://H:8080/a?b#c", "http://h:8080/a?b");
        check(list, "https://h", "https://h/");
        check(list, "https://h:443/a", "https://h/a");
        check(list, "HTTP://h:80/a", "http://h/a");
        check(list, "http://h:443/a", "http://h:443/a");
        check(list, "/a b", "/a%20b");
        check(list, "http://h?q", "http://h/?q");
        check(list, "/\u{fc}", "/%C3%BC");
        for line in ["", "# /a"] {
            check(list, line, "Other");
        }
        for line in ["a", "ftp://h/a", "http:///a", "http://u@h/", "http://", "GET /a"] {
            check(list, line, "Wrong");
        }
    }

    #[test]
    fn lines_of_a_log() {
        let line = |request: &str, status: &str| {
            format!(
                "127.0.0.1 - - [21/Nov/2026:12:00:00 +0000] \"{request}\" {status} 5 \"http://r/\" \"agent\""
            )
        };
        check(log, &line("GET /a?b HTTP/1.1", "200"), "/a?b");
        check(log, &line("GET /a HTTP/1.1", "304"), "/a");
        check(log, &line("GET http://h/a HTTP/1.1", "200"), "http://h/a");
        check(log, &line("POST /a HTTP/1.1", "200"), "Other");
        check(log, &line("GET /a HTTP/1.1", "404"), "Other");
        check(log, &line("-", "400"), "Other");
        check(log, "nonsense", "Wrong");
    }

    #[test]
    fn lines_that_name_nothing_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list");
        std::fs::write(&file, b"/a\n# no page\n\nnonsense\nhttp://\n/\xfc\n").unwrap();
        let urls = lines(&file, list).unwrap();
        let targets: Vec<&str> = urls.pages.iter().map(|it| &*it.target).collect();
        assert_eq!((vec!["/a", "/%FC"], 2, 4), (targets, urls.unread, urls.first_unread));
    }
}
