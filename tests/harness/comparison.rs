//! The same requests to another server and to larder: the parts of both responses that differ, and the table of differences with
//! their reasons in `tests/golden`.
//!
//! `LARDER_BLESS=1` writes the rows of a table again and keeps their reasons; a row without a reason fails.

use super::{Client, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A row of a table: case, request, part, the other server, larder.
type Row = [String; 5];

/// The differences that were found.
#[derive(Default)]
pub struct Comparison {
    rows: Vec<Row>,
    /// The number of requests.
    pub count: usize,
}

/// What is compared of a response, by name. Bodies only where both are the resource, or a page of the site: other texts of errors are
/// each server's own.
fn parts(host: &str, response: &Response) -> BTreeMap<String, String> {
    const COMPARED: &[&str] = &[
        "location",
        "cache-control",
        "content-encoding",
        "content-range",
        "vary",
        "allow",
        "link",
        "set-cookie",
        "refresh",
        "x-frame-options",
        "x-powered-by",
        "x-app",
        "referrer-policy",
        "www-authenticate",
        "retry-after",
        "x-content-type-options",
        "x-robots-tag",
    ];
    let mut parts = BTreeMap::from([("status".to_owned(), response.status.to_string())]);
    for (name, value) in &response.fields {
        let name = name.to_ascii_lowercase();
        if !COMPARED.contains(&&*name) {
            continue;
        }
        let value = match (name.as_str(), value.split_once('='), value.split_once(';')) {
            // The values of cookies are each server's own.
            ("set-cookie", Some((cookie, _)), Some((_, attributes))) => {
                format!("{cookie}=VALUE;{attributes}")
            }
            _ => value.replace(&format!("http://{host}"), ""),
        };
        let all = parts.entry(name).or_default();
        *all = if all.is_empty() { value } else { format!("{all}, {value}") };
    }
    let is_page = response.status >= 400 && response.text().starts_with("<p>");
    if matches!(response.status, 200 | 206) || is_page {
        let essence = response.field("content-type").unwrap_or("").split(';').next().unwrap_or("");
        let essence = essence.replace("application/javascript", "text/javascript");
        parts.insert("content-type".to_owned(), essence);
        parts.insert("body".to_owned(), response.text());
        // A relay of a stored response may frame it differently; that of a file is its size.
        parts.insert("length".to_owned(), response.field("content-length").unwrap_or("").to_owned());
    }
    parts
}

impl Comparison {
    /// Sends a request, `METHOD target` and ` | Name: value` for each field, to the other server and to larder. A `Host` among the fields
    /// takes the place of `host`.
    pub fn ask(&mut self, case: &str, host: &str, request: &str, mut other: Client, mut larder: Client) {
        self.count += 1;
        let mut words = request.split(" | ");
        let (method, target) = words.next().unwrap().split_once(' ').unwrap();
        let own = format!("Host: {host}");
        let (hosts, fields): (Vec<&str>, Vec<&str>) = words.partition(|it| it.starts_with("Host: "));
        let host_line = hosts.first().copied().unwrap_or(&own);
        let fields: String = fields.iter().map(|it| format!("{it}\r\n")).collect();
        let length = if method == "POST" { "Content-Length: 1\r\n\r\nx" } else { "\r\n" };
        let bytes = format!("{method} {target} HTTP/1.1\r\n{host_line}\r\n{fields}{length}");
        other.send(&bytes);
        larder.send(&bytes);
        let (one, two) = (parts(host, &other.read_for(method)), parts(host, &larder.read_for(method)));
        // Where the status differs, the rest follows from it.
        let names: BTreeSet<&str> = if one["status"] == two["status"] {
            one.keys().chain(two.keys()).map(String::as_str).collect()
        } else {
            ["status"].into()
        };
        for name in names {
            let follows = name == "length" && one.get("body") != two.get("body");
            let (one, two) = (one.get(name), two.get(name));
            if one != two && !follows {
                let value = |it: Option<&String>| {
                    it.map_or("none".to_owned(), |it| {
                        format!("`{}`", it.replace('|', "\\|").replace('\n', " "))
                    })
                };
                let [case, request, name] = [case, request, name].map(|it| it.replace('|', "\\|"));
                self.rows.push([case, request, name, value(one), value(two)]);
            }
        }
    }

    /// Compares the differences with those of a file in `tests/golden`. `other` is the name of the server, `intro` the text above the
    /// table.
    pub fn check(&self, file: &str, other: &str, intro: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let known: BTreeMap<Vec<String>, String> = golden(&text).into_iter().collect();
        if std::env::var_os("LARDER_BLESS").is_some() {
            let head = format!("| case | request | part | {other} | larder | reason |");
            let mut out = format!("{intro}\n\n{head}\n|---|---|---|---|---|---|\n");
            for row in &self.rows {
                let reason = known.get(row.as_slice()).map_or("?", String::as_str);
                out.push_str(&format!("| {} | {reason} |\n", row.join(" | ")));
            }
            std::fs::write(&path, out).unwrap();
            return;
        }
        let found: Vec<Vec<String>> = self.rows.iter().map(|it| it.to_vec()).collect();
        let listed: Vec<Vec<String>> = golden(&text).into_iter().map(|it| it.0).collect();
        assert_eq!(listed, found, "tests/golden/{file}: left is listed, right was found");
        for (row, reason) in &known {
            assert!(reason.len() > 10, "no reason: {row:?}");
        }
    }
}

/// The rows of a table, with their reasons.
fn golden(text: &str) -> Vec<(Vec<String>, String)> {
    let rows = text.lines().filter(|it| it.starts_with("| ") && !it.starts_with("| case "));
    rows.map(|line| {
        let line = line.trim_start_matches("| ").trim_end_matches(" |");
        let mut cells: Vec<String> = line.split(" | ").map(str::to_owned).collect();
        let reason = cells.pop().unwrap_or_default();
        (cells, reason)
    })
    .collect()
}
