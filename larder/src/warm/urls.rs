//! Which URLs are asked for: from a list, from an access log, from sitemaps. Each once; what was asked for most comes
//! first where that is known.

use super::Larder;
use super::sitemap;
use crate::cli::{From, Warm};
use crate::config::plain;
use larder_gateway::coding::codec;
use larder_semantics::coding::Coding;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// URLs at most; a hundred bytes each are a hundred megabytes.
pub const MOST: usize = 1_000_000;
/// Sitemaps at most.
const MOST_SITEMAPS: usize = 1_000;
/// Bytes of a sitemap at most, decoded: the protocol's own bound.
const LARGEST_SITEMAP: usize = 50 << 20;
/// Bytes of a line at most; the rest of a longer one is skipped with it.
const LONGEST_LINE: u64 = 64 << 10;

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Host and port; `None` where only a path was named.
    pub authority: Option<String>,
    /// Path and query.
    pub target: String,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Urls {
    /// The pages, in the order in which they are asked for; no two alike.
    pub pages: Vec<Page>,
    /// How many were left out because they are of another host than the sitemap.
    pub elsewhere: usize,
    /// Whether there were more than [`MOST`].
    pub cut: bool,
}

/// Finds the URLs.
///
/// # Errors
/// One sentence: what cannot be read.
pub(super) async fn find(order: &Warm, larder: &Larder) -> Result<Urls, String> {
    match &order.from {
        From::List(path) => lines(path, list),
        From::Log(path) => lines(path, log),
        From::Sitemap(authority, target) => sitemaps(larder, authority, target).await,
    }
}

/// Reads a file line by line.
fn lines(path: &Path, read: fn(&str) -> Option<Page>) -> Result<Urls, String> {
    let wrong = |it: std::io::Error| format!("{} cannot be read: {}.", path.display(), plain(&it));
    let file: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(wrong)?),
    };
    let mut file = BufReader::new(file);
    let mut seen: HashMap<Page, (u64, usize)> = HashMap::new();
    let mut cut = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(wrong)?;
        if count == 0 {
            break;
        }
        if count as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            file.skip_until(b'\n').map_err(wrong)?;
            continue;
        }
        let Some(page) = read(String::from_utf8_lossy(&line).trim()) else { continue };
        let first = seen.len();
        match seen.get_mut(&page) {
            Some((times, _)) => *times += 1,
            None if first < MOST => drop(seen.insert(page, (1, first))),
            None => cut = true,
        }
    }
    let mut pages: Vec<_> = seen.into_iter().collect();
    // What was asked for as often as another comes in the order of the file.
    pages.sort_by_key(|(_, (times, first))| (std::cmp::Reverse(*times), *first));
    Ok(Urls { pages: pages.into_iter().map(|it| it.0).collect(), elsewhere: 0, cut })
}

/// One line of a list: a URL or a path; `#` begins a comment.
fn list(line: &str) -> Option<Page> {
    if line.is_empty() || line.starts_with('#') { None } else { page(line) }
}

/// One line of a log in the common or combined form: what somebody got with GET and without an error.
fn log(line: &str) -> Option<Page> {
    let (_, rest) = line.split_once('"')?;
    let (request, rest) = rest.split_once("\" ")?;
    let mut words = request.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let status: u16 = rest.split(' ').next()?.parse().ok()?;
    if method != "GET" || !matches!(status, 200..400) { None } else { page(target) }
}

/// A URL or a path. What a browser would encode is encoded; a fragment is not sent.
fn page(text: &str) -> Option<Page> {
    let rest = ["http://", "https://"].into_iter().find_map(|it| text.strip_prefix(it));
    let (authority, target) = match rest {
        Some(rest) => {
            let cut = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            (Some(rest[..cut].to_ascii_lowercase()), &rest[cut..])
        }
        None => (None, text),
    };
    let is_host = |it: &String| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic() && it != b'@');
    if authority.as_ref().is_some_and(|it| !is_host(it)) || authority.is_none() && !target.starts_with('/') {
        return None;
    }
    let target = target.split('#').next().unwrap_or(target);
    let mut encoded = if target.starts_with('/') { String::new() } else { "/".to_owned() };
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(Page { authority, target: encoded })
}

/// Reads a sitemap and those that it names, through larder itself.
async fn sitemaps(larder: &Larder, authority: &str, target: &str) -> Result<Urls, String> {
    let host = authority.to_ascii_lowercase();
    let is_ours = |it: &Page| it.authority.as_deref().is_none_or(|it| same_host(it, &host));
    let mut todo = VecDeque::from([Page { authority: Some(host.clone()), target: target.to_owned() }]);
    let mut read: HashSet<Page> = HashSet::new();
    let mut seen: HashSet<Page> = HashSet::new();
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
            Ok(text) => sitemap::read(&text),
            Err(why) if read.len() == 1 => {
                return Err(format!("The sitemap {host}{} cannot be read: {why}.", next.target));
            }
            Err(_) => continue, // One of many; the others are read all the same.
        };
        todo.extend(found.sitemaps.iter().filter_map(|it| page(it)).filter(|it| is_ours(it)));
        for page in found.pages.iter().filter_map(|it| page(it)) {
            match (is_ours(&page), seen.len() < MOST) {
                (false, _) => urls.elsewhere += 1,
                (true, false) => urls.cut = true,
                (true, true) => {
                    // As the sitemap was asked for: a public name stands for the port where larder serves it.
                    let page = Page { authority: Some(host.clone()), ..page };
                    if seen.insert(page.clone()) {
                        urls.pages.push(page);
                    }
                }
            }
        }
    }
    Ok(urls)
}

/// Whether two authorities name one host, whatever their ports.
fn same_host(a: &str, b: &str) -> bool {
    let host = |it: &str| match it.rfind(':') {
        Some(at) if !it[at..].contains(']') => it[..at].to_owned(),
        _ => it.to_owned(),
    };
    host(a) == host(b)
}

async fn fetch(larder: &Larder, page: &Page) -> Result<String, String> {
    let (status, fields, exchange) =
        larder.get(page).await.map_err(|it| it.sentence().trim_end_matches('.').to_owned())?;
    if status != 200 {
        return Err(format!("status {status}"));
    }
    let mut body = Vec::new();
    while let Some(piece) =
        exchange.next().await.map_err(|it| it.sentence().trim_end_matches('.').to_owned())?
    {
        if body.len() + piece.len() > LARGEST_SITEMAP {
            return Err("it is larger than 50 MiB".to_owned());
        }
        body.extend_from_slice(&piece);
    }
    // Coded on the way, or a file that is compressed itself: `sitemap.xml.gz`.
    for _ in 0..2 {
        if !body.starts_with(&[0x1f, 0x8b]) {
            break;
        }
        body = codec::decode(Coding::Gzip, &body, LARGEST_SITEMAP as u64)
            .map_err(|_| "it is no whole gzip file, or larger than 50 MiB".to_owned())?;
    }
    let coding = fields.get("content-encoding").map(|it| String::from_utf8_lossy(it).into_owned());
    if coding.as_deref().is_some_and(|it| !matches!(it, "gzip" | "x-gzip" | "identity")) {
        return Err(format!("it is coded in {}", coding.unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(read: fn(&str) -> Option<Page>, line: &str, expect: Option<&str>) {
        let found = read(line).map(|it| format!("{}{}", it.authority.unwrap_or_default(), it.target));
        assert_eq!(expect, found.as_deref(), "{line}");
    }

    #[test]
    fn lines_of_a_list() {
        check(list, "http://H:8080/a?b#c", Some("h:8080/a?b"));
        check(list, "https://h", Some("h/"));
        check(list, "/a b", Some("/a%20b"));
        check(list, "http://h?q", Some("h/?q"));
        for line in ["", "# /a", "a", "ftp://h/a", "http:///a", "http://u@h/"] {
            check(list, line, None);
        }
    }

    #[test]
    fn lines_of_a_log() {
        let line = |request: &str, status: &str| {
            format!(
                "127.0.0.1 - - [21/Nov/2026:12:00:00 +0000] \"{request}\" {status} 5 \"http://r/\" \"agent\""
            )
        };
        check(log, &line("GET /a?b HTTP/1.1", "200"), Some("/a?b"));
        check(log, &line("GET /a HTTP/1.1", "304"), Some("/a"));
        check(log, &line("GET http://h/a HTTP/1.1", "200"), Some("h/a"));
        check(log, &line("POST /a HTTP/1.1", "200"), None);
        check(log, &line("GET /a HTTP/1.1", "404"), None);
        check(log, &line("-", "400"), None);
        check(log, "nonsense", None);
    }
}
