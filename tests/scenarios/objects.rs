//! What is stored, as the admin and `larder objects` list it.

use crate::harness::command::run;
use crate::harness::origin::{Script, response};
use crate::harness::tiers::{on_disk, written};
use crate::harness::{Larder, Origin};
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
fn what_is_stored_is_listed_and_looked_into() {
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
fn what_cannot_be_listed_is_told() {
    let larder = Larder::before(&pages(), "");
    let check = |path: &str, status: u16, part: &str| {
        let answer = larder.admin_get(&format!("/api/v1/objects{path}"));
        assert!(answer.status == status && answer.text().contains(part), "{path}: {answer:?}");
    };
    check("?sort=colour", 400, "allowed: key, size, age, hits, expires");
    check("?cursor=zzz", 400, "leave it out");
    check("/xyz", 400, "32 hexadecimal digits");
    check("/00000000000000000000000000000001", 404, "no such object");
}

#[test]
fn what_lies_on_disk_as_well_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let larder = on_disk(&pages(), folder.path(), "");
    larder.get("/a/300");
    written(&larder, 1);
    let tiers = asked(&larder, "objects")["objects"][0]["tiers"].to_string();
    assert_eq!(r#"["ram","disk"]"#, tiers);
}

#[test]
fn the_command_shows_a_table() {
    let larder = Larder::before(&pages(), "");
    larder.get("/a/2048");
    larder.get("/b/10");
    let admin = larder.admin.to_string();
    let told = run(larder.folder.path(), &["objects", "/a/*", "--sort", "size", "--admin", &admin]);
    assert!(told.code == 0 && told.out.contains("2KiB") && told.out.contains("/a/2048"), "{told:?}");
    assert!(
        !told.out.contains("/b/10") && told.out.contains("1 of 1 that match, among 2 objects"),
        "{}",
        told.out
    );
    let json = run(larder.folder.path(), &["objects", "--json", "--limit", "1", "--admin", &admin]);
    let page: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((Some(2), 1), (page["total"].as_u64(), paths(&page).len()));
    let bad = run(larder.folder.path(), &["objects", "--sort", "colour", "--admin", &admin]);
    assert!(bad.code == 1 && bad.err.contains("allowed: key, size"), "{bad:?}");
}
