//! Tags and groups: their fields towards clients, and the purges by a response to an unsafe method (RFC 9875).

use crate::harness::origin::Script;
use crate::harness::pages::Second::{Hit, Miss, Validates};
use crate::harness::tiers::{killed, on_disk, written};
use crate::harness::{Origin, Pages};

const TAGGED: &str = "Cache-Control: max-age=600 | ETag: \"a\" | Surrogate-Key: one two | Cache-Tag: three | Cache-Groups: \"g\"";

#[test]
fn tags_are_kept_from_clients_and_groups_are_not() {
    let pages = Pages::new("");
    let check = |response: &str, requests: &[&str]| {
        let page = pages.page(&[response]);
        for lines in requests {
            let answer = page.get(lines);
            assert_eq!(None, answer.field("surrogate-key"), "{lines}: {answer:?}");
            assert_eq!(None, answer.field("cache-tag"), "{lines}: {answer:?}");
            assert_eq!(Some("\"g\""), answer.field("cache-groups"), "{lines}: {answer:?}");
        }
    };
    check(TAGGED, &["", "", "If-None-Match: \"a\"", "Range: bytes=0-1", "Cache-Control: no-cache"]);
    check(&TAGGED.replace("max-age=600", "no-store"), &["", ""]);
    check(&TAGGED.replace("max-age=600", "private"), &["", "Authorization: x"]);
}

#[test]
fn tags_are_kept_from_clients_of_the_disk_tier() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::scripted(|request| {
        let length: usize = request.target().trim_start_matches('/').parse().unwrap_or(0);
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nSurrogate-Key: one\r\nCache-Tag: two\r\n";
        vec![Script::Send(format!("{head}Content-Length: {length}\r\n\r\n{}", "x".repeat(length)).into())]
    });
    let targets = ["/10", "/50000"];
    let a = on_disk(&origin, folder.path(), "");
    targets.iter().for_each(|it| drop(a.get(it)));
    written(&a, 2);
    killed(a);
    let b = on_disk(&origin, folder.path(), "promote_after = 3\n");
    for target in targets {
        for turn in 0..5 {
            let answer = b.get(target);
            assert!(answer.is_hit(), "{target}, {turn}: {answer:?}");
            let report = (answer.field("surrogate-key"), answer.field("cache-tag"));
            assert_eq!((None, None), report, "{target}, {turn}");
        }
    }
}

#[test]
fn an_unsafe_method_purges_the_groups_that_its_response_names() {
    let pages = Pages::new("");
    let group = |name: &str| format!("Cache-Control: max-age=600 | ETag: \"a\" | Cache-Groups: \"{name}\"");
    let (one, other) = (group("one"), group("other"));
    let in_one = pages.page(&[&one, "304", &one]);
    let without = pages.page(&[&one.replace(" | ETag: \"a\"", "")]);
    let in_other = pages.page(&[&other]);
    let all = [&in_one, &without, &in_other];
    all.iter().for_each(|it| drop(it.get("")));
    let changes =
        pages.page(&["404 | Cache-Group-Invalidation: \"one\"", "Cache-Group-Invalidation: \"x\", \"one\""]);
    changes.request("POST", "", "x");
    assert_eq!([Hit; 3], all.map(|it| it.get_again("")), "an error changes nothing");
    changes.request("POST", "", "x");
    assert_eq!([Validates, Miss, Hit], all.map(|it| it.get_again("")));
    assert_eq!([Hit; 3], all.map(|it| it.get_again("")), "once");
    let reads = pages.page(&["Cache-Control: max-age=600 | Cache-Group-Invalidation: \"one\""]);
    reads.get("");
    assert_eq!([Hit; 3], all.map(|it| it.get_again("")), "GET is safe");
    let head = format!("POST {} HTTP/1.1\r\nHost: other\r\nContent-Length: 0\r\n\r\n", changes.target);
    assert_eq!(200, pages.larder.client().send(head).read().status);
    assert_eq!([Hit; 3], all.map(|it| it.get_again("")), "another origin's groups are others");
}
