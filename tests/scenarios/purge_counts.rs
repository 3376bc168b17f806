//! How many responses a purge matched, as its receipts say.

use super::purge::purge;
use crate::harness::command::run;
use crate::harness::{Larder, Origin, until};
use serde_json::{Value, json};

/// A purge that met nothing answered as one that removed a thousand.
#[test]
fn a_purge_says_how_many_responses_it_matched() {
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
        let told: Value =
            serde_json::from_str(&larder.client().request("PURGE", "/a", "", "").text()).unwrap();
        assert_eq!(json!(expect), told["receipts"][0]["count"], "{told}");
    }
    let admin = larder.admin.to_string();
    let ended = run(larder.folder.path(), &["purge", "http://h/c", "--admin", &admin]);
    assert!(ended.out.contains("  ram: 0 responses removed\n"), "{ended:?}");
}

/// A receipt says how many responses went, or why they were not counted.
#[test]
fn the_receipt_of_the_disk_counts_what_its_index_knows() {
    let disk = tempfile::tempdir().unwrap();
    let origin = Origin::new(|it| {
        let fields = "Cache-Control: max-age=600\nVary: X-Kind\nSurrogate-Key: all";
        format!("HTTP/1.1 200 OK\n{fields}\n\n{}", it.target())
    });
    let top = format!("[cache.disk]\npath = \"{}\"\nmin_ttl = \"0s\"\n", disk.path().display());
    let larder = Larder::before_with(&origin, "", &top);
    let receipt = |body: Value| purge(&larder, body)["receipts"][1].clone();
    let known = |count: u64| json!({ "of": "disk", "state": "applied", "count": count });
    let url = json!({ "url": "http://h/a" });
    assert_eq!(known(0), receipt(url.clone()));
    larder.get("/a");
    larder.client().get_with("/a", "X-Kind: other\r\n");
    larder.get("/b");
    until("all are on disk", || larder.counter("disk_writes") == 3);
    let uncounted = json!({
        "of": "disk", "state": "applied",
        "detail": "responses not counted: the index of the disk tier has no URLs, tags or fields",
    });
    for body in
        [json!({ "prefix": "http://h/none" }), json!({ "tag": "none" }), json!({ "where": "status == 404" })]
    {
        assert_eq!(uncounted, receipt(body));
    }
    assert_eq!(known(2), receipt(url.clone()), "both variants");
    assert_eq!(known(0), receipt(url), "they are gone");
    assert_eq!("applied", receipt(json!({ "all": true }))["state"]);
    let told = run(larder.folder.path(), &["purge", "--tag", "none", "--admin", &larder.admin.to_string()]);
    let line =
        "  disk: applied; responses not counted: the index of the disk tier has no URLs, tags or fields\n";
    assert!(told.out.contains(line), "{told:?}");
}
