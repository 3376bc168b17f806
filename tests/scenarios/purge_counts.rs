//! How many responses a purge matched, as its receipts say, and would match, as its preview says.

use super::purge::purge;
use crate::harness::command::run;
use crate::harness::{Client, Larder, Origin, until};
use serde_json::{Value, json};

/// A purge that met nothing answered as one that removed a thousand.
#[test]
fn a_purge_reports_the_number_of_matched_responses() {
    let origin = Origin::new(|it| {
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\nVary: X-Kind\nSurrogate-Key: all\n\n{}",
            it.target()
        )
    });
    let larder = Larder::before(&origin, "purge = { method = true }");
    let fill = || {
        for target in ["/a", "/a/b", "/c"] {
            larder.get(target);
            larder.client().get_with(target, "X-Kind: other\r\n");
        }
    };
    let count = |body: Value| purge(&larder, body)["receipts"][0]["count"].clone();
    assert_eq!(json!(0), count(json!({ "url": "http://h/a" })), "nothing is stored yet");
    fill();
    assert_eq!(json!(2), count(json!({ "url": "http://h/a" })), "both variants");
    assert_eq!(json!(0), count(json!({ "url": "http://h/a" })), "they are gone");
    assert_eq!(json!(0), count(json!({ "tag": "none" })));
    assert_eq!(json!(2), count(json!({ "prefix": "http://h/a" })));
    fill();
    assert_eq!(json!(6), count(json!({ "tag": "all", "soft": true })));
    assert_eq!(json!(2), count(json!({ "where": "path == \"/c\"" })));
    assert_eq!(json!(4), count(json!({ "all": true })));
    larder.get("/a");
    for expect in [1, 0] {
        let report: Value =
            serde_json::from_str(&larder.client().request("PURGE", "/a", "", "").text()).unwrap();
        assert_eq!(json!(expect), report["receipts"][0]["count"], "{report}");
    }
    let admin = larder.admin.to_string();
    let ended = run(larder.folder.path(), &["purge", "http://h/c", "--admin", &admin]);
    assert!(ended.out.contains("  ram: 0 responses removed\n"), "{ended:?}");
}

/// A receipt counts the responses on the disk by any scope, and not those of an earlier purge.
#[test]
fn the_receipt_of_the_disk_excludes_responses_purged_before() {
    let disk = tempfile::tempdir().unwrap();
    let origin = Origin::new(|it| {
        let fields = "Cache-Control: max-age=600\nVary: X-Kind\nSurrogate-Key: all";
        format!("HTTP/1.1 200 OK\n{fields}\n\n{}", it.target())
    });
    let top = format!("[cache.disk]\npath = \"{}\"\nmin_ttl = \"0s\"\n", disk.path().display());
    let larder = Larder::before_with(&origin, "", &top);
    let count = |body: Value| {
        let report = purge(&larder, body)["receipts"][1].clone();
        assert_eq!(
            (&json!("disk"), &json!("applied"), &json!("exact"), &json!(true)),
            (&report["of"], &report["state"], &report["count_is"], &report["count_is_exact"]),
            "{report}"
        );
        report["count"].as_u64().unwrap()
    };
    let fill = |writes: u64| {
        larder.get("/a");
        larder.client().get_with("/a", "X-Kind: other\r\n");
        larder.get("/b");
        until("all are on disk", || larder.counter("disk_writes") == writes);
    };
    let (url, prefix) = (json!({ "url": "http://h/a" }), json!({ "prefix": "http://h/a" }));
    assert_eq!(0, count(url.clone()), "nothing is stored yet");
    fill(3);
    for none in
        [json!({ "prefix": "http://h/none" }), json!({ "tag": "none" }), json!({ "where": "status == 404" })]
    {
        assert_eq!(0, count(none));
    }
    assert_eq!([2, 0], [count(prefix.clone()), count(prefix.clone())], "both variants, once");
    assert_eq!(0, count(url.clone()), "the prefix has purged them");
    let page = json!({ "where": "path == \"/b\"" });
    assert_eq!([1, 0], [count(page.clone()), count(page)]);
    assert_eq!(0, count(json!({ "all": true })), "their records are on the disk still");
    fill(6);
    assert_eq!([2, 0], [count(url.clone()), count(url)]);
    assert_eq!([1, 0], [count(json!({ "tag": "all" })), count(json!({ "tag": "all" }))]);
    fill(9);
    assert_eq!([3, 0], [count(json!({ "all": true })), count(json!({ "all": true }))]);
    let report = run(larder.folder.path(), &["purge", "--tag", "none", "--admin", &larder.admin.to_string()]);
    assert!(report.out.contains("  disk: 0 responses removed\n"), "{report:?}");
    assert!(report.out.contains("  nothing matched; "), "{report:?}");
}

/// Keys of a URL with fields in them cannot be found by their hash, and a purge of a URL does not read a whole disk.
#[test]
fn a_url_on_a_large_disk_is_counted_by_its_own_keys() {
    let disk = tempfile::tempdir().unwrap();
    let origin = Origin::new(|it| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", it.target()));
    let top = format!("[cache.disk]\npath = \"{}\"\nmin_ttl = \"0s\"\n", disk.path().display());
    let larder = Larder::before_with(&origin, "", &top);
    let mut client = larder.client();
    (0..300).for_each(|it| drop(client.get(&format!("/{it}"))));
    until("all are on disk", || larder.counter("disk_writes") == 300);
    let receipt = || purge(&larder, json!({ "url": "http://h/7" }))["receipts"][1].clone();
    let detail = "of the URL itself; those with fields or cookies in their key are not counted";
    let more = |count: u64| {
        json!({
            "of": "disk", "state": "applied", "count": count, "count_is": "more", "count_is_exact": false, "detail": detail,
        })
    };
    assert_eq!([more(1), more(0)], [receipt(), receipt()]);
    let admin = larder.admin.to_string();
    let report = |url: &str| run(larder.folder.path(), &["purge", url, "--admin", &admin]).out;
    let (some, none) = (report("http://h/8"), report("http://h/8"));
    assert!(some.contains(&format!("  disk: at least 1 response removed; {detail}\n")), "{some}");
    assert!(none.contains(&format!("  disk: 0 responses removed; {detail}\n")), "{none}");
}

/// The status and the answer of a preview, with these lines in place of the token's if there are any.
fn preview_by(larder: &Larder, body: &Value, lines: Option<&str>) -> (u16, Value) {
    let (token, body) = (larder.admin_lines(), body.to_string());
    let lines = lines.map_or(token, |it| format!("Host: {}{it}", larder.admin));
    let head = format!(
        "POST /api/v1/purge/preview HTTP/1.1\r\n{lines}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = Client::connect(larder.admin).send(head).read();
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
}

fn preview(larder: &Larder, body: Value) -> Value {
    let (status, answer) = preview_by(larder, &body, None);
    assert_eq!(200, status, "{body}: {answer}");
    answer
}

#[test]
fn a_preview_counts_each_tier_and_purges_nothing() {
    let disk = tempfile::tempdir().unwrap();
    let origin = Origin::new(|it| {
        let fields = "Cache-Control: max-age=600\nVary: X-Kind\nSurrogate-Key: all";
        format!("HTTP/1.1 200 OK\n{fields}\n\n{:10}", it.target())
    });
    let top = format!("[cache.disk]\npath = \"{}\"\nmin_ttl = \"0s\"\n", disk.path().display());
    let larder = Larder::before_with(&origin, "", &top);
    larder.get("/a");
    larder.client().get_with("/a", "X-Kind: other\r\n");
    larder.get("/b");
    until("all are on disk", || larder.counter("disk_writes") == 3);
    let count = |body: Value| {
        let report = preview(&larder, body);
        let exact = json!("exact");
        assert!(
            report["tiers"].as_array().is_some_and(|it| it.iter().all(|it| it["count_is"] == exact)),
            "{report}"
        );
        let of = |at: usize| report["tiers"][at]["count"].as_u64().unwrap();
        assert_eq!(10 * of(0), report["tiers"][0]["bytes"].as_u64().unwrap(), "{report}");
        [of(0), of(1)]
    };
    for (body, expect) in [
        (json!({ "url": "http://h/a" }), 2),
        (json!({ "prefix": "http://h/" }), 3),
        (json!({ "tag": "all", "soft": true, "wait": true }), 3),
        (json!({ "where": "path == \"/b\"" }), 1),
        (json!({ "tag": "none" }), 0),
        (json!({ "all": true }), 3),
    ] {
        assert_eq!([expect; 2], count(body.clone()), "{body}");
    }
    assert_eq!(0, larder.counter("purges"));
    assert!(larder.get("/a").is_hit() && larder.get("/b").is_hit());
    // What is purged is not counted again, although the records are still on the disk.
    purge(&larder, json!({ "tag": "all" }));
    assert_eq!([0; 2], count(json!({ "all": true })));
}

#[test]
fn a_preview_of_nothing_names_a_possible_reason() {
    let origin = Origin::new(|_| "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nx".to_owned());
    let larder = Larder::before(&origin, "");
    let hint = |body: Value| preview(&larder, body)["hint"].as_str().unwrap_or("none").to_owned();
    assert_eq!("Nothing is stored.", hint(json!({ "all": true })));
    assert_eq!("Nothing is stored in RAM.", hint(json!({ "url": "http://h/a" })));
    larder.get("/news?page=2");
    assert_eq!("none", hint(json!({ "url": "http://h/news?page=2" })));
    let other = "The cache has http://h/news?page=2, which is another URL: compare host, path and query.";
    assert_eq!(other, hint(json!({ "url": "http://h/news" })), "the query is missing");
    assert_eq!(other, hint(json!({ "url": "http://www.h/news/" })), "the host is another");
    assert_eq!(other, hint(json!({ "prefix": "http://www.h/news/" })));
    assert_eq!(
        "The cache has other responses of host h, and none under this URL.",
        hint(json!({ "url": "http://h/old" }))
    );
    assert_eq!(
        "The cache has no response of host www.h; it has, for example, http://h/news?page=2.",
        hint(json!({ "url": "http://www.h/old" }))
    );
    assert!(hint(json!({ "tag": "News" })).starts_with("No stored response has this tag"));
    assert_eq!("No stored response matches the condition.", hint(json!({ "where": "status == 404" })));
}

#[test]
fn a_preview_obeys_the_rules_of_a_purge() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    let body = json!({ "all": true });
    assert_eq!(401, preview_by(&larder, &body, Some("")).0);
    assert_eq!(401, preview_by(&larder, &body, Some("\r\nAuthorization: Bearer wrong")).0);
    let elsewhere = format!("{}\r\nOrigin: http://evil.example", larder.admin_lines());
    let elsewhere = elsewhere.split_once("\r\n").unwrap().1;
    assert_eq!(403, preview_by(&larder, &body, Some(&format!("\r\n{elsewhere}"))).0);
    let (status, report) = preview_by(&larder, &json!({ "tga": "x" }), None);
    assert_eq!(
        (400, "\"tga\" is unknown; did you mean \"tag\"?"),
        (status, report["detail"].as_str().unwrap())
    );
    assert_eq!(400, preview_by(&larder, &json!({}), None).0);
}

#[test]
fn the_command_counts_with_dry_run() {
    let origin =
        Origin::new(|_| "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n".to_owned() + &"x".repeat(2048));
    let larder = Larder::before(&origin, "");
    ["/a", "/b"].iter().for_each(|it| drop(larder.get(it)));
    let admin = larder.admin.to_string();
    let command =
        |arguments: &[&str]| run(larder.folder.path(), &[&["purge", "--admin", &admin], arguments].concat());
    let ended = command(&["--all", "--dry-run"]);
    assert_eq!(
        (0, "would purge everything (hard)\n  ram: 2 responses, 4.0 KiB\n"),
        (ended.code, ended.out.as_str()),
        "{ended:?}"
    );
    let ended = command(&["http://h/c", "--soft", "--dry-run"]);
    let expect = "would purge url http://h/c (soft)\n  ram: 0 responses\n  The cache has other responses of host h, and none under this URL.\n";
    assert_eq!((0, expect), (ended.code, ended.out.as_str()), "{ended:?}");
    let ended = command(&["http://h/c"]);
    let line = "  ram: 0 responses removed\n  nothing matched; the same command with --dry-run names a possible reason\n";
    assert!(ended.out.ends_with(line), "{ended:?}");
    let report: Value = serde_json::from_str(&command(&["--all", "--dry-run", "--json"]).out).unwrap();
    assert_eq!(json!(2), report["previews"][0]["tiers"][0]["count"], "{report}");
    assert!(larder.get("/a").is_hit() && larder.get("/b").is_hit());
}
