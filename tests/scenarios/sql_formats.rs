//! The formats of the result of a query, by `Accept`: `sql.format` is the default.

use super::coding::{decoded, until_coded};
use super::sql::{larder, query};
use super::sql_sqlite::Sqlite;
use crate::harness::Larder;
use crate::harness::http2::{END_STREAM, Http2, request};

const JSON: (&str, &str) = ("application/json", "[{\"id\":1,\"name\":\"a,b\"},{\"id\":2,\"name\":null}]");
const NDJSON: (&str, &str) =
    ("application/x-ndjson", "{\"id\":1,\"name\":\"a,b\"}\n{\"id\":2,\"name\":null}\n");
const CSV: (&str, &str) = ("text/csv; charset=utf-8; header=present", "id,name\r\n1,\"a,b\"\r\n2,\r\n");

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

/// Values of `Accept`, each with the format for it where JSON is the default.
const ACCEPTED: &[(&str, (&str, &str))] = &[
    ("text/csv", CSV),
    ("application/x-ndjson", NDJSON),
    ("application/json", JSON),
    (BROWSER, JSON),
    ("*/*", JSON),
    ("", JSON),
    ("text/*", CSV),
    ("application/*", JSON),
    ("application/json;q=0.5, text/csv;q=0.9", CSV),
    ("text/csv;q=0.1, application/x-ndjson;q=0.2, */*;q=0", NDJSON),
    ("application/json;q=0, */*", NDJSON),
    ("TEXT/CSV; charset=utf-8", CSV),
    // None of them: the default in place of a 406, which RFC 9110 permits (§12.5.1).
    ("application/xml", JSON),
    ("*/*;q=0", JSON),
];

const TABLE: &str = "create table t (id int, name text); insert into t values (1, 'a,b'), (2, null)";
const CACHED: &str = "cache = { default_ttl = \"60s\" }";

/// A larder whose queries are stored at `/stored` and not at `/fresh`.
fn stored_and_fresh(database: &Sqlite, more: &str) -> Larder {
    let all = query("select id, name from t order by id", more);
    larder(&database.table(""), &[("/stored", &format!("{all}\n{CACHED}")), ("/fresh", &all)])
}

#[track_caller]
fn check(larder: &Larder, target: &str, accept: &str, expect: (&str, &str)) {
    let answer = larder.client().get_with(target, &format!("Accept: {accept}\r\n"));
    let found = (answer.field("content-type").unwrap_or("none").to_owned(), answer.text());
    assert_eq!((expect.0.to_owned(), expect.1.to_owned()), found, "{target}: {accept}");
    let head = larder.client().request("HEAD", target, &format!("Accept: {accept}\r\n"), "");
    assert_eq!(
        (200, Some(expect.0), ""),
        (head.status, head.field("content-type"), &*head.text()),
        "{accept}"
    );
    for answer in [answer, head] {
        let vary = answer.members("vary");
        assert_eq!(
            1,
            vary.iter().filter(|it| it.eq_ignore_ascii_case("accept")).count(),
            "{target}: {vary:?}"
        );
    }
}

#[test]
fn a_result_has_the_format_that_accept_prefers() {
    let database = Sqlite::new(TABLE);
    let larder = stored_and_fresh(&database, "");
    for target in ["/fresh", "/stored", "/stored"] {
        for (accept, expect) in ACCEPTED {
            check(&larder, target, accept, *expect);
        }
        assert_eq!(JSON.1, larder.get(target).text(), "without the field");
    }
    let of = |accept: &str| larder.client().get_with("/stored", &format!("Accept: {accept}\r\n"));
    database.run("delete from t");
    for (accept, expect) in ACCEPTED {
        assert!(of(accept).is_hit(), "{accept}");
        check(&larder, "/stored", accept, *expect);
    }
    let tags: Vec<_> =
        ["text/csv", "application/json"].map(|it| of(it).field("etag").map(str::to_owned)).into();
    assert!(tags[0].is_none() || tags[0] != tags[1], "{tags:?}");
    let mut h2 = Http2::connect(&larder);
    for (accept, expect) in [("text/csv", CSV), (BROWSER, JSON)] {
        let id = h2.head(&request("GET", "/stored", &[("accept", accept)]), END_STREAM);
        assert_eq!(expect.1, h2.answer(id).text());
    }
    let receipt = larder.admin_post("/api/v1/purge", "{\"url\":\"http://h/stored\"}");
    assert!(receipt.status < 300, "{receipt:?}");
    for (accept, empty) in
        [("text/csv", "id,name\r\n"), ("application/x-ndjson", ""), ("*/*", "[]"), ("a/b", "[]")]
    {
        assert_eq!(empty, of(accept).text(), "a purge removes all formats: {accept}");
    }
}

#[test]
fn the_configured_format_is_the_default() {
    let database = Sqlite::new(TABLE);
    let larder = stored_and_fresh(&database, ", format = \"csv\"");
    for target in ["/fresh", "/stored", "/stored"] {
        for (accept, expect) in [
            ("*/*", CSV),
            ("", CSV),
            (BROWSER, CSV),
            ("application/xml", CSV),
            ("application/json", JSON),
            ("application/*", JSON),
            ("application/x-ndjson, */*;q=0.1", NDJSON),
        ] {
            check(&larder, target, accept, expect);
        }
    }
}

/// One row is an object, which no other format has.
#[test]
fn one_row_is_json_for_every_client() {
    let database = Sqlite::new(TABLE);
    let one = format!("{}\n{CACHED}", query("select id from t where id = 1", ", one_row = true"));
    let larder = larder(&database.table(""), &[("/one", &one)]);
    for (count, accept) in ["text/csv", "application/json", "a/b"].into_iter().enumerate() {
        let answer = larder.client().get_with("/one", &format!("Accept: {accept}\r\n"));
        assert_eq!((Some("application/json"), None), (answer.field("content-type"), answer.field("vary")));
        assert_eq!(("{\"id\":1}".to_owned(), count > 0), (answer.text(), answer.is_hit()), "{accept}");
    }
}

/// Each format is compressed, stored and fresh, and decoded for a client without codings.
#[test]
fn results_are_compressed() {
    let database = Sqlite::new(
        "create table t (id int, name text); \
         with recursive c(n) as (select 1 union all select n + 1 from c where n < 500) \
         insert into t select n, 'the same name' from c",
    );
    let all = query("select id, name from t order by id", "");
    let compress = "compress.enabled = true";
    let stored = format!("{all}\ncache = {{ default_ttl = \"60s\", {compress} }}");
    let fresh = format!("{all}\ncache = {{ {compress} }}");
    let larder = larder(&database.table(""), &[("/stored", &stored), ("/fresh", &fresh)]);
    for target in ["/stored", "/fresh"] {
        for accept in ["application/json", "application/x-ndjson", "text/csv"] {
            let lines = |coding: &str| format!("Accept: {accept}\r\nAccept-Encoding: {coding}\r\n");
            let plain = larder.client().get_with(target, &lines("identity"));
            assert_eq!((200, None), (plain.status, plain.field("content-encoding")), "{target}: {accept}");
            let mut client = larder.client();
            let gzip = until_coded(&mut client, target, &lines("gzip"), "gzip");
            assert!(
                gzip.body.len() < plain.body.len() / 2 && decoded(&gzip) == plain.body,
                "{target}: {accept}"
            );
            assert_eq!(plain.field("content-type"), gzip.field("content-type"));
            let vary = gzip.members("vary").join(", ").to_ascii_lowercase();
            assert!(vary.contains("accept-encoding") && vary.split(", ").any(|it| it == "accept"), "{vary}");
        }
    }
}
