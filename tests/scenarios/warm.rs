//! `larder warm`: a running larder is asked for what visitors will ask for.

use crate::harness::command::{Ended, run};
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin, server, until};
use larder_gateway::coding::codec::{self, CodecLevels};
use larder_semantics::coding::Coding;
use serde_json::Value;
use std::process::{Command, Stdio};

/// An origin of pages that may be kept, but for `/private`.
fn pages() -> Origin {
    Origin::new(|it: &Received| match it.target() {
        "/private" => "HTTP/1.1 200 OK\nCache-Control: private\n\nmine".to_owned(),
        "/missing" => "HTTP/1.1 404 Not Found\n\n".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage".to_owned(),
    })
}

/// Runs `larder warm` against `larder` with a file of `text`.
fn warm(larder: &Larder, text: &str, arguments: &[&str]) -> Ended {
    std::fs::write(larder.folder.path().join("urls"), text).unwrap();
    let admin = larder.admin.to_string();
    let mut all = vec!["warm", "--admin", &admin];
    all.extend(arguments);
    run(larder.folder.path(), &all)
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|it| panic!("{it}: {ended:?}"))
}

fn list(count: usize) -> String {
    (0..count).map(|it| format!("http://h/{it}\n")).collect()
}

#[test]
fn a_list_is_asked_for_once() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    let first = warm(&larder, &format!("# pages\n{}\nhttp://h/3\n", list(40)), &["--list", "urls", "--json"]);
    let report = json(&first);
    assert_eq!((0, 40), (first.code, origin.requests()), "{first:?}");
    assert_eq!(
        [40, 40, 0, 40, 40, 0],
        ["urls", "done", "hits", "misses", "stored", "errors"].map(|it| report[it].as_u64().unwrap())
    );
    assert_eq!((40, "done"), (report["by_status"]["200"].as_u64().unwrap(), report["end"].as_str().unwrap()));
    let second = json(&warm(&larder, &list(40), &["--list", "urls", "--json"]));
    assert_eq!((40, 0), (second["hits"].as_u64().unwrap(), second["misses"].as_u64().unwrap()));
    assert!(larder.get("/7").is_hit(), "visitors of this host have it");
    assert_eq!(40, origin.requests());
}

#[test]
fn the_summary_for_people() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    let ended =
        warm(&larder, "/1\n/private\n/missing\n", &["--list", "urls", "-H", "Host: h", "--concurrency", "1"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(ended.out.starts_with("requested 3 of 3 URLs in "), "{}", ended.out);
    assert!(
        ended.out.contains("0 from the cache, 3 from the origin (1 stored now), 0 failed"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("  status 200  2\n  status 404  1\n"), "{}", ended.out);
    assert!(!ended.err.contains('\r'), "no bar where there is no terminal: {}", ended.err);
    assert!(larder.get("/1").is_hit(), "the Host that was given");
}

#[test]
fn a_log_by_how_often() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    let line = |target: &str| {
        format!("::1 - - [21/Nov/2026:12:00:00 +0000] \"GET {target} HTTP/1.1\" 200 5 \"-\" \"-\"\n")
    };
    let log: String = ["/a", "/b", "/b", "/c", "/b", "/c"].map(line).concat();
    let ended = warm(&larder, &log, &["--log", "urls", "--concurrency", "1"]);
    assert_eq!(0, ended.code, "{ended:?}");
    let asked: Vec<String> = origin.received().iter().map(|it| it.target().to_owned()).collect();
    assert_eq!(["/b", "/c", "/a"], asked.as_slice());
}

#[test]
fn an_index_of_sitemaps_one_of_them_compressed() {
    let inner = "<urlset><url><loc>https://h/a</loc></url><url><loc>https://h/b?x=1&amp;y=2</loc></url>\
                 <url><loc>https://elsewhere.example/c</loc></url></urlset>";
    let levels = CodecLevels { gzip: 6, brotli: 5, zstd: 3 };
    let packed = codec::encode(Coding::Gzip, levels, inner.as_bytes()).unwrap().unwrap();
    let origin = Origin::scripted(move |it: &Received| {
        let whole = |kind: &str, body: &[u8]| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            vec![Script::Send([head.as_bytes(), body].concat())]
        };
        match it.target() {
            "/sitemap.xml" => whole(
                "text/xml",
                b"<sitemapindex><sitemap><loc>https://h/1.xml.gz</loc></sitemap>\
                  <sitemap><loc>https://h/gone.xml</loc></sitemap></sitemapindex>",
            ),
            "/1.xml.gz" => whole("application/gzip", &packed),
            "/gone.xml" => vec![Script::Send(response("HTTP/1.1 404 Not Found\n\n"))],
            _ => whole("text/html", b"page"),
        }
    });
    let larder = Larder::before(&origin, "");
    let ended = warm(&larder, "", &["--sitemap", "http://h/sitemap.xml", "--as", "http", "--json"]);
    let json = json(&ended);
    assert_eq!(
        (1, 2, 1),
        (ended.code, json["done"].as_u64().unwrap(), json["elsewhere"].as_u64().unwrap()),
        "one is gone: {ended:?}"
    );
    assert!(larder.get("/a").is_hit() && larder.get("/b?x=1&y=2").is_hit());
    let ended = warm(&larder, "", &["--sitemap", "http://h/gone.xml"]);
    assert_eq!(
        (1, "larder: The sitemap http://h/gone.xml cannot be read: status 404.\n"),
        (ended.code, ended.err.as_str())
    );
}

#[test]
fn the_origin_has_a_budget() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    for page in 0..10 {
        larder.get(&format!("/{page}"));
    }
    let ended =
        warm(&larder, &list(100), &["--list", "urls", "--misses", "25", "--concurrency", "8", "--json"]);
    let report = json(&ended);
    assert_eq!((0, 35), (ended.code, origin.requests()), "{ended:?}");
    assert_eq!((10, 25, "budget"), {
        (
            report["hits"].as_u64().unwrap(),
            report["misses"].as_u64().unwrap(),
            report["end"].as_str().unwrap(),
        )
    });
}

#[test]
fn warm_reports_an_unreachable_larder() {
    let larder = Larder::before(&pages(), "");
    let ended = warm(&larder, &list(100), &["--list", "urls", "--to", "127.0.0.1:1", "--json"]);
    let report = json(&ended);
    assert_eq!((1, "gone"), (ended.code, report["end"].as_str().unwrap()), "{ended:?}");
    assert!(report["errors"].as_u64().unwrap() < 50, "it gives up: {report}");
    let first = report["first_error"].as_str().unwrap();
    assert!(first.contains("larder cannot be reached") && !first.contains("origin"), "{first}");
    let ended = warm(&larder, "/a\nnonsense\n/b\n", &["--list", "urls", "--json"]);
    assert_eq!((2, 1), (json(&ended)["urls"].as_u64().unwrap(), json(&ended)["unread"].as_u64().unwrap()));
    let ended = warm(&larder, &list(1), &["--list", "nowhere"]);
    assert_eq!(1, ended.code);
    assert_eq!("larder: nowhere cannot be read: no such file or directory.\n", ended.err);
    assert_eq!("larder: It contains no URL.\n", warm(&larder, "", &["--list", "urls"]).err);
    let none = "larder: It contains no URL: 2 lines name none, first line 1.\n";
    assert_eq!(none, warm(&larder, "nonsense\nhttp://\n", &["--list", "urls"]).err);
    assert_eq!(2, warm(&larder, "", &[]).code);
}

#[test]
fn ctrl_c_ends_it_with_its_summary() {
    let gate = Gate::new();
    let door = gate.clone();
    let origin = Origin::scripted(move |it: &Received| {
        let page = Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage"));
        if it.target() == "/3" { vec![Script::Gate(door.clone()), page] } else { vec![page] }
    });
    let larder = Larder::before(&origin, "");
    std::fs::write(larder.folder.path().join("urls"), list(10)).unwrap();
    let child = Command::new(server::binary())
        .env("LARDER_ADMIN_TOKEN", server::TOKEN)
        .args(["warm", "--list", "urls", "--concurrency", "1", "--admin", &larder.admin.to_string()])
        .current_dir(larder.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the fourth is asked for", || gate.waiting() == 1);
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
    assert_eq!(0, unsafe { libc::kill(pid, libc::SIGINT) });
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("requested 3 of 10 URLs") && text.ends_with("stopped by Ctrl-C\n"), "{text}");
    assert_eq!(Some(1), output.status.code());
    gate.open();
}

#[test]
fn an_answer_of_500_is_no_page() {
    let origin = Origin::new(|it| match it.target() {
        "/bad" => "HTTP/1.1 500 Internal Server Error\n\nno".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nyes".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    let text = warm(&larder, "http://h/good\nhttp://h/bad\n", &["--list", "urls"]);
    assert_eq!(1, text.code, "{}", text.out);
    assert!(text.out.contains("1 failed") && text.out.contains("/bad: status 500"), "{}", text.out);
}

/// A larder that listens so, with a certificate for `h`.
fn listening(origin: &Origin, authority: &Authority, listen: &str) -> Larder {
    let (url, certificate) = (format!("http://{}", origin.address), authority.sign("one", &["h"]));
    Larder::configured(format!(
        "listen = [{listen}]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n"
    ))
}

/// What a visitor of `https://h` gets.
fn is_secure_hit(larder: &Larder, authority: &Authority, target: &str) -> bool {
    let at = larder.printed();
    let at = at.lines().find_map(|it| it.strip_prefix("listening on https://")).unwrap();
    let mut visitor = authority.trusting().connect(at.parse().unwrap(), "h").unwrap();
    visitor.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    visitor.read().is_hit()
}

#[test]
fn each_url_is_asked_for_by_its_own_scheme() {
    let (origin, authority) = (pages(), Authority::new());
    let larder = listening(&origin, &authority, "\"127.0.0.1:0\", \"https://127.0.0.1:0\"");
    let list = "https://h/a\nhttps://h:443/b\nhttp://h/c\n/d\n";
    let ended = warm(&larder, list, &["--list", "urls", "-H", "Host: h", "--json"]);
    let report = json(&ended);
    assert_eq!((0, 4), (ended.code, report["stored"].as_u64().unwrap()), "{ended:?}");
    let secure = |it| is_secure_hit(&larder, &authority, it);
    let clear = |it| larder.get(it).is_hit();
    assert!(secure("/a") && secure("/b") && clear("/c") && clear("/d"));
    assert!(!clear("/a") && !secure("/c"), "the other scheme's are other pages");
}

#[test]
fn the_complete_part_of_a_truncated_sitemap_is_warmed_and_the_loss_reported() {
    let text = b"<urlset><url><loc>http://h/c</loc></url></urlset>";
    let levels = CodecLevels { gzip: 6, brotli: 1, zstd: 1 };
    let gz = codec::encode_within(Coding::Gzip, levels, text, 1 << 20).unwrap().unwrap();
    let origin = Origin::scripted(move |it: &Received| {
        let sitemap = |name: &str| format!("<sitemap><loc>http://h/{name}</loc></sitemap>");
        let all = ["cut.xml", "cut.gz", "none.gz", "fails.xml", "html", "whole.xml"].map(sitemap).concat();
        let (status, body) = match it.target() {
            "/index.xml" => (200, format!("<sitemapindex>{all}</sitemapindex>").into_bytes()),
            "/cut.xml" => (200, b"<urlset><url><loc>http://h/a</loc></url><url><loc>http://h/b".to_vec()),
            // All that it names is there, and its checksum is not.
            "/cut.gz" => (200, gz[..gz.len() - 4].to_vec()),
            "/none.gz" => (200, vec![0x1f, 0x8b]),
            "/fails.xml" => (500, Vec::new()),
            "/html" => (200, b"<html><body>We are sorry</body></html>".to_vec()),
            "/whole.xml" => (
                200,
                b"<urlset><url><loc>http://h/d</loc></url><url><loc>ftp://h/e</loc></url></urlset>".to_vec(),
            ),
            _ => (200, b"page".to_vec()),
        };
        let head = format!("HTTP/1.1 {status} It\r\nCache-Control: max-age=600\r\nConnection: close\r\n\r\n");
        vec![Script::Send([head.as_bytes(), &body].concat()), Script::Close]
    });
    let larder = Larder::before(&origin, "");
    let ended = warm(&larder, "", &["--sitemap", "http://h/cut.xml"]);
    let why = "1 sitemap could not be read completely, so URLs may be missing; first http://h/cut.xml: it is truncated";
    assert!(ended.code == 1 && ended.out.contains(why), "{ended:?}");
    assert!(larder.get("/a").is_hit());
    let ended = warm(&larder, "", &["--sitemap", "http://h/index.xml", "--json"]);
    let json = json(&ended);
    let counts = ["urls", "incomplete", "unread"].map(|it| json[it].as_u64().unwrap());
    assert_eq!((1, [3, 5, 1]), (ended.code, counts), "{ended:?}");
    assert!(larder.get("/c").is_hit() && larder.get("/d").is_hit());
    for (sitemap, why) in
        [("fails.xml", "status 500"), ("html", "it is not a sitemap"), ("none.xml", "status 404")]
    {
        let index = format!(
            "<sitemapindex><sitemap><loc>http://h/{sitemap}</loc></sitemap><sitemap><loc>http://h/whole.xml</loc></sitemap></sitemapindex>"
        );
        let pages = Origin::new(move |it: &Received| match it.target() {
            "/index.xml" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{index}"),
            "/fails.xml" => "HTTP/1.1 500 It\n\n".to_owned(),
            "/html" => "HTTP/1.1 200 OK\n\n<html></html>".to_owned(),
            "/none.xml" => "HTTP/1.1 404 No\n\n".to_owned(),
            _ => "HTTP/1.1 200 OK\n\n<urlset><url><loc>http://h/d</loc></url></urlset>".to_owned(),
        });
        let ended = warm(&Larder::before(&pages, ""), "", &["--sitemap", "http://h/index.xml"]);
        assert!(
            ended.code == 1 && ended.out.contains(&format!("first http://h/{sitemap}: {why}")),
            "{ended:?}"
        );
    }
}

#[test]
fn a_sitemap_that_names_pages_of_both_schemes() {
    let sitemap = "<urlset><url><loc>https://h/a</loc></url><url><loc>http://h/b</loc></url></urlset>";
    let origin = Origin::new(move |it: &Received| {
        let body = if it.target() == "/sitemap.xml" { sitemap } else { "page" };
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{body}")
    });
    let authority = Authority::new();
    let larder = listening(&origin, &authority, "\"127.0.0.1:0\", \"https://127.0.0.1:0\"");
    let ended = warm(&larder, "", &["--sitemap", "http://h/sitemap.xml"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(is_secure_hit(&larder, &authority, "/a"));
    assert!(larder.get("/b").is_hit());
}

#[test]
fn a_larder_that_listens_by_tls_alone() {
    let (origin, authority) = (pages(), Authority::new());
    let larder = listening(&origin, &authority, "\"https://127.0.0.1:0\"");
    let ended = warm(&larder, "https://h/a\n", &["--list", "urls"]);
    assert_eq!(0, ended.code, "{ended:?}");
    let to = format!("https://{}", larder.address);
    let ended = warm(&larder, "https://h/b\n", &["--list", "urls", "--to", &to]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(is_secure_hit(&larder, &authority, "/a") && is_secure_hit(&larder, &authority, "/b"));
    let ended = warm(&larder, "http://h/c\nhttps://h/c\n", &["--list", "urls"]);
    assert_eq!((1, true), (ended.code, ended.out.contains("1 stored now), 1 failed")), "{ended:?}");
    let why = "first failure: http://h/c: no listener uses http: set --to, or --as https.";
    assert!(ended.out.contains(why), "{}", ended.out);
    // In clear at that port larder says 400: no page.
    let ended = warm(&larder, "http://h/c\n", &["--list", "urls", "--to", &larder.address.to_string()]);
    assert_eq!((1, true), (ended.code, ended.out.contains("larder rejects it with 400")), "{ended:?}");
}

#[test]
fn behind_a_proxy_that_ends_tls() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    let list: String = (0..20).map(|it| format!("https://h/{it}\n")).collect();
    let ended = warm(&larder, &format!("{list}http://h/a\n"), &["--list", "urls", "--json"]);
    let report = json(&ended);
    assert_eq!((1, 20, 1), (ended.code, report["errors"].as_u64().unwrap(), origin.requests()), "{ended:?}");
    let why = "https://h/0: no listener uses https: set --to https://HOST:PORT, or --as http if a proxy in front of larder terminates TLS.";
    assert_eq!(why, report["first_error"].as_str().unwrap());
    let ended = warm(&larder, &list, &["--list", "urls", "--as", "http"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(larder.get("/3").is_hit());
}
