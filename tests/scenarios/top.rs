//! The URLs that weigh most, over the API and in the terminal.

use crate::harness::command::{run, run_unread};
use crate::harness::{Larder, Origin};
use serde_json::Value;

/// Pages of different sizes, one of them never stored.
fn site() -> (Origin, Larder) {
    let origin = Origin::new(|it| match it.target() {
        "/never" => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nnever".to_owned(),
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", "x".repeat(50_000)),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nsmall".to_owned(),
    });
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"pages\"\n\
         proxy = {{ to = [\"{url}\"] }}\n"
    ));
    // Each on a connection of its own, so that both workers have a share.
    (0..12).for_each(|_| drop(larder.get("/often")));
    (0..4).for_each(|_| drop(larder.get("/never")));
    (0..2).for_each(|_| drop(larder.get("/large")));
    (origin, larder)
}

fn top(larder: &Larder, query: &str) -> Value {
    let response = larder.admin_get(&format!("/api/v1/top?{query}"));
    assert_eq!(200, response.status, "{}", response.text());
    serde_json::from_str(&response.text()).unwrap()
}

fn entries(top: &Value) -> Vec<(&str, u64)> {
    let all = top["entries"].as_array().unwrap().iter();
    all.map(|it| (it["url"].as_str().unwrap(), it["value"].as_u64().unwrap())).collect()
}

#[test]
fn the_top_urls_by_requests_misses_bytes_and_origin_time() {
    let (_origin, larder) = site();
    let requests = top(&larder, "");
    assert_eq!(
        [("http://h/often", 12), ("http://h/never", 4), ("http://h/large", 2)],
        entries(&requests)[..]
    );
    assert_eq!((18, "requests"), (requests["total"].as_u64().unwrap(), requests["by"].as_str().unwrap()));
    assert!(
        requests["entries"].as_array().unwrap().iter().all(|it| it["error"] == 0),
        "there was room for all"
    );
    assert_eq!(("http://h/large", 100_000), entries(&top(&larder, "by=bytes&limit=1"))[0]);
    let misses = top(&larder, "by=misses");
    assert_eq!(("http://h/never", 4), entries(&misses)[0]);
    assert_eq!(6, misses["total"].as_u64().unwrap(), "one for each of the others");
    let origin = top(&larder, "by=origin_time");
    assert_eq!(3, entries(&origin).len());
}

/// A robot whose requests were a sixth of all, and all misses, was in no list.
#[test]
fn the_top_clients_by_requests_misses_and_bytes() {
    let origin = Origin::new(|it| match it.target().starts_with("/new") {
        true => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nnew".to_owned(),
        false => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage".to_owned(),
    });
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[clients]\ntrusted = [\"127.0.0.1\"]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nname = \"pages\"\nproxy = {{ to = [\"{url}\"] }}\n"
    ));
    let fetch = |target: &str, client: &str| {
        let mut connection = larder.client();
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: {client}\r\n\r\n"));
        assert_eq!(200, connection.read().status);
    };
    fetch("/page", "10.0.0.1");
    (0..12).for_each(|_| fetch("/page", "10.0.0.2"));
    (0..6).for_each(|it| fetch(&format!("/new/{it}"), &format!("2001:db8::{it}")));
    let clients = |by: &str| -> Vec<(String, u64)> {
        let list = top(&larder, &format!("of=clients&by={by}"));
        assert_eq!("clients", list["of"]);
        let entries = list["entries"].as_array().unwrap().iter();
        entries.map(|it| (it["client"].as_str().unwrap().to_owned(), it["value"].as_u64().unwrap())).collect()
    };
    let expect =
        |of: &[(&str, u64)]| -> Vec<(String, u64)> { of.iter().map(|it| (it.0.to_owned(), it.1)).collect() };
    assert_eq!(expect(&[("10.0.0.2", 12), ("2001:db8::/64", 6), ("10.0.0.1", 1)]), clients("requests"));
    assert_eq!(expect(&[("2001:db8::/64", 6), ("10.0.0.1", 1)]), clients("misses"));
    assert_eq!(expect(&[("10.0.0.2", 48), ("2001:db8::/64", 18), ("10.0.0.1", 4)]), clients("bytes"));
    assert_eq!(2, clients("origin_time").len());
    assert_eq!(("http://h/page", 13), entries(&top(&larder, ""))[0], "the list of URLs stays");
    assert_eq!(200, larder.admin_post("/api/v1/top/reset", "").status);
    assert!(clients("requests").is_empty());
}

#[test]
fn a_reset_of_the_top_urls_restarts_the_counts() {
    let (_origin, larder) = site();
    assert_eq!(200, larder.admin_request("POST", "/api/v1/top/reset").status);
    larder.get("/often");
    for by in ["requests", "misses", "bytes", "origin_time"] {
        let top = top(&larder, &format!("by={by}"));
        assert!(entries(&top).iter().all(|it| it.0 == "http://h/often"), "{by}: {top}");
    }
    assert_eq!(1, top(&larder, "")["total"].as_u64().unwrap());
}

#[test]
fn nonsense_is_refused() {
    let (_origin, larder) = site();
    for query in ["by=colour", "limit=0", "limit=many", "limit=1001"] {
        assert_eq!(400, larder.admin_get(&format!("/api/v1/top?{query}")).status, "{query}");
    }
}

#[test]
fn top_prints_one_picture_into_a_pipe() {
    let (_origin, larder) = site();
    let admin = larder.admin.to_string();
    let ended = run(larder.folder.path(), &["top", "--once", "--by", "bytes", "--admin", &admin]);
    assert_eq!((0, ""), (ended.code, ended.err.as_str()), "{}", ended.out);
    for expect in ["totals since the start", "requests", "pages", "[bytes]", "http://h/large"] {
        assert!(ended.out.contains(expect), "{expect} is not in\n{}", ended.out);
    }
    assert!(!ended.out.contains('\x1b'), "no colours in a pipe: {:?}", ended.out);
    let stats = run(larder.folder.path(), &["stats", "--admin", &admin]);
    let ratio = |text: &str, name: &str| {
        let at = text.find(name).unwrap_or_else(|| panic!("{text}")) + name.len();
        text[at..].split_whitespace().next().unwrap_or_default().to_owned()
    };
    let expect = ratio(&stats.out, "hit ratio ");
    assert_eq!(expect, ratio(&ended.out, "\nhits "), "{}\n{}", stats.out, ended.out);
    assert_ne!("-", expect);
    let nobody = run(larder.folder.path(), &["top", "--once", "--admin", "127.0.0.1:1"]);
    assert_eq!(1, nobody.code);
}

/// `larder top --once | head -1`, where the reader has gone before the first line.
#[test]
fn a_closed_pipe_ends_a_command_quietly_with_its_status() {
    let (_origin, larder) = site();
    let admin = larder.admin.to_string();
    let commands: [&[&str]; 7] = [
        &["top", "--once"],
        &["stats"],
        &["advice"],
        &["worst"],
        &["objects"],
        &["explain", "http://h/often"],
        &["nodes", "--json"],
    ];
    for command in commands {
        let (code, err) = run_unread(larder.folder.path(), &[command, &["--admin", &admin]].concat());
        assert_eq!((0, ""), (code, err.as_str()), "{command:?}");
    }
    let (code, err) = run_unread(larder.folder.path(), &["help"]);
    assert_eq!((0, ""), (code, err.as_str()));
}
