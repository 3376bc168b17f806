//! Stored responses, as the admin and `larder objects` list them.

use crate::harness::command::run;
use crate::harness::origin::{Script, response};
use crate::harness::tiers::{killed, on_disk, written};
use crate::harness::{Client, Larder, Origin};
use serde_json::Value;

/// An origin whose `/NAME/LENGTH` is a page of that length.
fn pages() -> Origin {
    Origin::scripted(|request| {
        let length = request.target().rsplit('/').next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let missing = request.target().starts_with("/missing");
        let status = if missing { "404 Not Found" } else { "200 OK" };
        let body = "x".repeat(length);
        let text = format!(
            "HTTP/1.1 {status}\nCache-Control: max-age=600\nETag: \"e\"\nContent-Type: text/plain\nSurrogate-Key: one two\n\n{body}"
        );
        vec![Script::Send(response(&text))]
    })
}

fn asked(larder: &Larder, path: &str) -> Value {
    let answer = larder.admin_get(&format!("/api/v1/{path}"));
    assert_eq!(200, answer.status, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).unwrap()
}

fn paths(page: &Value) -> Vec<String> {
    let of = |it: &Value| it["url"].as_str().unwrap().splitn(4, '/').nth(3).unwrap().to_owned();
    page["objects"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn stored_objects_are_listed_and_inspected() {
    let origin = pages();
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    for (target, times) in [("/a/300", 2), ("/b/20000", 4), ("/missing/10", 1)] {
        (0..times).for_each(|_| drop(client.get(target)));
    }
    let sorted = |by: &str| paths(&asked(&larder, &format!("objects?sort={by}")));
    assert_eq!(["a/300", "b/20000", "missing/10"][..], sorted("key"));
    assert_eq!(["b/20000", "a/300", "missing/10"][..], sorted("size"));
    assert_eq!(["b/20000", "a/300", "missing/10"][..], sorted("hits"));
    assert_eq!(["b/20000", "a/300"][..], paths(&asked(&larder, "objects?sort=size&search=00&status=2xx")));
    assert_eq!(["missing/10"][..], paths(&asked(&larder, "objects?search=/miss*&tag=two")));
    let first = asked(&larder, "objects?sort=hits&limit=1");
    assert_eq!((Some(3), Some(3)), (first["total"].as_u64(), first["matched"].as_u64()));
    let next = first["next"].as_str().unwrap();
    let second = asked(&larder, &format!("objects?sort=hits&cursor={next}"));
    assert_eq!(["a/300", "missing/10"][..], paths(&second));
    assert_eq!(None, second["next"].as_str());
    larder.advance(60);
    let listed = asked(&larder, "objects?search=/b/");
    let listed = &listed["objects"][0];
    let number = |name: &str| listed[name].as_i64().unwrap();
    assert_eq!(
        [200, 20000, 1, 600, 3, 2],
        ["status", "bytes", "variants", "lifetime", "hits", "tags"].map(number)
    );
    assert!((60..90).contains(&number("age")) && number("expires_in") == 600 - number("age"), "{listed}");
    assert_eq!(
        (Some("text/plain"), Some(true)),
        (listed["content_type"].as_str(), listed["fresh"].as_bool())
    );
    let object = asked(&larder, &format!("objects/{}", listed["id"].as_str().unwrap()));
    let variant = &object["variants"][0];
    assert_eq!(
        (Some("arena"), Some("max-age"), Some("\"e\"")),
        (variant["body"].as_str(), variant["source"].as_str(), variant["etag"].as_str())
    );
    let field = variant["fields"]
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it[0] == "Content-Type" && it[1] == "text/plain");
    assert!(field && object["url"] == listed["url"] && object["tiers"][0] == "ram", "{object}");
}

#[test]
fn a_wrong_listing_query_is_refused_with_the_allowed_values() {
    let larder = Larder::before(&pages(), "");
    let check = |path: &str, status: u16, part: &str| {
        let answer = larder.admin_get(&format!("/api/v1/objects{path}"));
        assert!(answer.status == status && answer.text().contains(part), "{path}: {answer:?}");
    };
    check("?sort=colour", 400, "allowed: key, size, age, hits, expires");
    check("?cursor=zzz", 400, "remove it");
    check("?tier=disk&sort=key", 400, "allowed with tier=disk: age, size, hits");
    check("?tier=disk&cursor=k.00.00000000000000000000000000000001", 400, "remove it");
    check("/xyz", 400, "32 hexadecimal digits");
    check("/0000000000000001", 404, "object does not exist");
    check("/00000000000000000000000000000001", 404, "object does not exist");
}

/// Whoever asks gets the list or is told to come again, in a moment: nobody waits for all that asked before.
#[test]
fn a_crowd_that_lists_is_answered() {
    let larder = Larder::before(&pages(), "");
    larder.get("/a/300");
    let mut crowd: Vec<_> = (0..100).map(|_| Client::connect(larder.admin)).collect();
    for client in &mut crowd {
        client.send(format!("GET /api/v1/objects HTTP/1.1\r\n{}\r\n\r\n", larder.admin_lines()));
    }
    for answer in crowd.iter_mut().map(Client::read) {
        let again = answer.status == 503 && answer.field("retry-after") == Some("1");
        assert!(answer.status == 200 || again, "{answer:?}");
    }
    assert_eq!(1, asked(&larder, "objects")["total"]);
}

#[test]
fn an_object_in_ram_and_on_disk_names_both_tiers() {
    let folder = tempfile::tempdir().unwrap();
    let larder = on_disk(&pages(), folder.path(), "");
    larder.get("/a/300");
    written(&larder, 1);
    let tiers = asked(&larder, "objects")["objects"][0]["tiers"].to_string();
    assert_eq!(r#"["ram","disk"]"#, tiers);
}

/// A larder that was started again: RAM is empty, and these are on disk.
fn started_again(origin: &Origin, folder: &std::path::Path, targets: &[&str]) -> Larder {
    let larder = on_disk(origin, folder, "");
    targets.iter().for_each(|it| drop(larder.get(it)));
    written(&larder, targets.len() as u64);
    killed(larder);
    on_disk(origin, folder, "")
}

#[test]
fn an_object_only_on_disk_is_listed_and_inspected_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let larder = started_again(&pages(), folder.path(), &["/a/300", "/b/20000", "/missing/10"]);
    let page = asked(&larder, "objects");
    assert_eq!(["missing/10", "b/20000", "a/300"][..], paths(&page), "the newest first");
    let count = |page: &Value, name: &str| page["disk"][name].as_u64();
    assert_eq!(
        (Some(0), Some(3), Some(0)),
        (page["total"].as_u64(), count(&page, "objects"), count(&page, "left"))
    );
    assert_eq!(None, page["next"].as_str());
    assert_eq!(["b/20000", "a/300", "missing/10"][..], paths(&asked(&larder, "objects?sort=size")));
    assert_eq!(["b/20000"][..], paths(&asked(&larder, "objects?search=/b/*&tag=two&status=2xx")));
    assert_eq!(["missing/10"][..], paths(&asked(&larder, "objects?status=404&tier=disk")));
    assert!(paths(&asked(&larder, "objects?tier=ram")).is_empty());
    let listed = &asked(&larder, "objects?search=/b/")["objects"][0];
    let number = |name: &str| listed[name].as_i64().unwrap();
    assert_eq!(
        [200, 20000, 1, 600, 0, 2],
        ["status", "bytes", "variants", "lifetime", "hits", "tags"].map(number)
    );
    assert_eq!(
        (Some("text/plain"), r#"["disk"]"#),
        (listed["content_type"].as_str(), &*listed["tiers"].to_string())
    );
    let object = asked(&larder, &format!("objects/{}", listed["id"].as_str().unwrap()));
    let variant = &object["variants"][0];
    assert_eq!(
        (Some("disk"), Some("max-age"), Some("\"e\"")),
        (variant["body"].as_str(), variant["source"].as_str(), variant["etag"].as_str())
    );
    assert!(object["url"] == listed["url"] && object["tiers"] == listed["tiers"], "{object}");
}

#[test]
fn pages_go_on_from_ram_to_the_disk_and_show_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let larder = started_again(&pages(), folder.path(), &["/a/1", "/b/2", "/c/3", "/d/4"]);
    larder.get("/c/3");
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for _ in 0..9 {
        let page = asked(&larder, &format!("objects?sort=size&limit=1{cursor}"));
        all.extend(paths(&page));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(["c/3", "d/4", "b/2", "a/1"][..], all);
    let on_disk = asked(&larder, "objects?tier=disk&sort=age&order=desc");
    assert_eq!(["a/1", "b/2", "c/3", "d/4"][..], paths(&on_disk), "the oldest first");
    assert_eq!(r#"["ram","disk"]"#, on_disk["objects"][2]["tiers"].to_string());
}

#[test]
fn a_purged_object_on_disk_is_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let larder = started_again(&pages(), folder.path(), &["/a/1", "/b/2", "/c/3"]);
    let page = asked(&larder, "objects");
    let id = page["objects"][1]["id"].as_str().unwrap();
    let url = page["objects"][1]["url"].as_str().unwrap();
    let done = run(larder.folder.path(), &["purge", url, "--admin", &larder.admin.to_string()]);
    assert_eq!(0, done.code, "{done:?}");
    assert_eq!(["c/3", "a/1"][..], paths(&asked(&larder, "objects")));
    assert_eq!(404, larder.admin_get(&format!("/api/v1/objects/{id}")).status);
}

#[test]
fn disk_hits_of_an_object_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let larder = started_again(&pages(), folder.path(), &["/a/300", "/b/20000"]);
    larder.get("/b/20000");
    let page = asked(&larder, "objects?tier=disk&sort=hits");
    assert_eq!(["b/20000", "a/300"][..], paths(&page));
    assert_eq!([Some(1), Some(0)], [0, 1].map(|at| page["objects"][at]["hits"].as_u64()));
}

#[test]
fn the_command_lists_objects_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let larder = started_again(&pages(), folder.path(), &["/a/2048", "/b/10"]);
    let admin = larder.admin.to_string();
    let output = run(larder.folder.path(), &["objects", "/a/*", "--admin", &admin]);
    assert!(
        output.code == 0 && output.out.contains("2.0 KiB") && output.out.contains("/a/2048"),
        "{output:?}"
    );
    assert!(
        output.out.contains("0 of 0 objects in RAM; 1 on disk only") && !output.out.contains("/b/10"),
        "{}",
        output.out
    );
}

#[test]
fn the_command_shows_a_table() {
    let larder = Larder::before(&pages(), "");
    larder.get("/a/2048");
    larder.get("/b/10");
    let admin = larder.admin.to_string();
    let output = run(larder.folder.path(), &["objects", "/a/*", "--sort", "size", "--admin", &admin]);
    assert!(
        output.code == 0 && output.out.contains("2.0 KiB") && output.out.contains("/a/2048"),
        "{output:?}"
    );
    assert!(
        !output.out.contains("/b/10") && output.out.contains("1 of 1 matches, 2 objects in RAM"),
        "{}",
        output.out
    );
    let json = run(larder.folder.path(), &["objects", "--json", "--limit", "1", "--admin", &admin]);
    let page: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((Some(2), 1), (page["total"].as_u64(), paths(&page).len()));
    let bad = run(larder.folder.path(), &["objects", "--sort", "colour", "--admin", &admin]);
    assert!(bad.code == 2 && bad.err.contains("allowed: key, size"), "{bad:?}");
}
