//! The site over a real socket, without its slowness.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends requests on one connection and returns all that comes until it closes.
fn talk(requests: &str) -> Vec<u8> {
    let site = start_with(Duration::ZERO).unwrap();
    let mut stream = TcpStream::connect(site).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n")
}

#[track_caller]
fn check(request: &str, status: u16, expect: &str) {
    let answer = String::from_utf8_lossy(&talk(request)).into_owned();
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}\n{answer}");
    assert!(answer.contains(expect), "{request}\n{answer}");
}

#[test]
fn pages_say_how_they_may_be_kept() {
    check(&get("/", ""), 200, "\r\nCache-Control: max-age=60\r\n");
    check(&get("/recipes/1", ""), 200, "\r\nETag: \"r1\"\r\n");
    check(&get("/recipes/320", ""), 200, "Made at ");
    check(&get("/recipes/321", ""), 404, "\r\nCache-Control: max-age=30\r\n");
    check(&get("/recipes/1", "If-None-Match: W/\"r1\"\r\n"), 304, "\r\nETag: \"r1\"\r\n");
    check(&get("/shelves/goat-cheese", ""), 200, "goat cheese");
    check(&get("/search?q=%3Cb%3E&page=1", ""), 200, "value=\"&lt;b&gt;\"");
    check(&get("/search?q=pear&page=2", ""), 200, "pear");
    check(&get("/hello", "Accept-Language: de-CH\r\n"), 200, "\r\nVary: Accept-Language\r\n");
    check(&get("/me", "Cookie: a=b; session=Ada\r\n"), 200, "Good day, Ada");
    check(&get("/me", ""), 200, "\r\nCache-Control: private, max-age=0\r\n");
    check(&get("/basket", ""), 200, "\r\nCache-Control: no-store\r\n");
    check(&get("/now", ""), 200, "stale-while-revalidate=30");
    check(&get("/photos/1.png", ""), 200, "\r\nContent-Type: image/png\r\n");
    check(&get("/drawings/1.svg", ""), 200, "<svg ");
    check(&get("/stream", ""), 200, "<p>Part 8 of 8.</p>\n\r\n0\r\n\r\n");
    check(&get("/sitemap.xml", ""), 200, "/recipes/320<");
}

#[test]
fn forms_change_things() {
    let post = |target: &str, form: &str| {
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{form}", form.len())
    };
    let answer = talk(&(post("/guestbook", "name=Ada&text=%3Ckind%3E+words") + &get("/guestbook", "")));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.contains("HTTP/1.1 303 ") && answer.contains("<b>Ada</b><br>&lt;kind&gt; words"),
        "{answer}"
    );
    let answer = talk(&(post("/kitchen", "is=shut") + &get("/special", "")));
    assert!(String::from_utf8_lossy(&answer).contains("HTTP/1.1 503 "));
    check(&(post("/login", "name=A%0d%0ab") + &get("/me", "")), 303, "\r\nSet-Cookie: session=Ab; ");
}

#[test]
fn odd_requests_are_refused() {
    check("nonsense\r\n\r\n", 400, "Connection: close");
    check("POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n", 413, "Connection: close");
    check("DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 405, "Allow: GET, HEAD");
}

#[test]
fn a_picture_is_whole() {
    let answer = talk(&get("/photos/7.png", ""));
    let start = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    assert!(answer[start..].starts_with(b"\x89PNG") && answer.ends_with(b"IEND\xae\x42\x60\x82"));
    assert!(answer.len() - start > 57_000);
}

#[test]
fn the_hints_of_the_demo_name_its_addresses() {
    let text = hints(
        "http://127.0.0.1:8080",
        ([127, 0, 0, 1], 4000).into(),
        Some("./larder explain"),
        Some(Path::new("/tmp/l.toml")),
    );
    assert!(text.contains("  $EDITOR /tmp/l.toml\n"));
    assert!(text.contains("curl -sD- -o /dev/null http://127.0.0.1:8080/recipes/1 "));
    assert!(text.contains("http://127.0.0.1:4000/") && !text.contains("LARDER") && !text.contains("SITE"));
    assert!(text.contains("  Why?  ./larder explain http://127.0.0.1:8080/recipes/1\n"));
    let text = hints("http://127.0.0.1:8080", ([127, 0, 0, 1], 4000).into(), None, None);
    assert!(!text.to_lowercase().contains("explain"), "nobody is there to be asked");
    assert!(!text.contains("EDITOR"), "there is no file");
}

/// The element that is closed wrongly, if any; scripts and styles are skipped.
fn unbalanced(html: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>')?;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        match name {
            "!doctype" | "meta" | "link" | "img" | "input" | "br" => {}
            _ if tag.starts_with('/') => {
                if open.pop() != Some(name) {
                    return Some(format!("</{name}> before {}", rest.get(..40).unwrap_or(rest)));
                }
            }
            "style" | "script" => rest = &rest[rest.find(&format!("</{name}>"))? + name.len() + 3..],
            _ => open.push(name),
        }
    }
    open.pop().map(str::to_owned)
}

#[test]
fn every_link_leads_somewhere_and_every_element_ends() {
    let mut site = pages::DemoSite::default();
    let (mut todo, mut seen) = (vec!["/".to_owned()], std::collections::BTreeSet::new());
    while let Some(target) = todo.pop() {
        if !seen.insert(target.clone()) {
            continue;
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let demo_request = pages::DemoRequest {
            method: "GET",
            path,
            query,
            session: "",
            language: "",
            form: "",
            now: 1_800_000_000,
        };
        let answer = site.answer(&demo_request);
        assert_eq!(200, answer.status, "{target}");
        let pages::DemoBody::Page(page) = answer.body else { continue };
        let making = shell::Making { at: 0, took: 1, count: 1, cache_control: answer.cache_control };
        let html = shell::document(&page, &making);
        assert_eq!(None, unbalanced(&html), "{target}");
        for name in ["href=\"/", "src=\"/"] {
            let links = html.split(name).skip(1).filter_map(|it| it.split('"').next());
            let links = links.filter(|it| !it.starts_with("photos/") || it.len() <= "photos/1.png".len()); // Slow to make.
            todo.extend(links.map(|it| format!("/{}", it.replace("&amp;", "&"))));
        }
    }
    assert!(seen.len() > 2 * words::RECIPES as usize, "recipes, images and more: {}", seen.len());
}
