//! The size of heads on a connection: a recurring field is sent once, from a table of the size that the client allows.

use crate::harness::http2::{END_STREAM, HEADER_TABLE_SIZE, Http2, request};
use crate::harness::{Larder, Origin};

/// Small files as a web server sends them.
fn assets() -> Origin {
    Origin::new(|it| {
        let number = it.target().trim_start_matches("/asset-").parse::<usize>().unwrap_or(0);
        let kind = ["text/css", "image/webp", "application/javascript"][number % 3];
        format!(
            "HTTP/1.1 200 OK\nServer: nginx\nContent-Type: {kind}\nLast-Modified: Sun, 22 Nov 2026 20:00:00 GMT\n\
             ETag: \"6742e5c0-{number}\"\nCache-Control: public, max-age=86400\nVary: Accept-Encoding\n\n{number:0600}"
        )
    })
}

#[test]
fn a_page_of_a_hundred_assets_has_short_heads() {
    let origin = assets();
    let larder = Larder::before(&origin, "");
    let names: Vec<String> = (0..100).map(|it| format!("/asset-{it}")).collect();
    let mut filling = Http2::connect(&larder);
    let missed: Vec<_> = names.iter().map(|it| filling.get(it)).collect();
    // A browser's connection: all are asked for at once.
    let mut client = Http2::connect(&larder);
    let ids: Vec<_> = names.iter().map(|it| client.send_get(it)).collect();
    let hits: Vec<_> = ids.into_iter().map(|it| client.answer(it)).collect();
    for (number, (hit, miss)) in hits.iter().zip(&missed).enumerate() {
        assert!(hit.complete && hit.field("cache-status").unwrap().contains("; hit"), "{hit:?}");
        for name in ["server", "content-type", "last-modified", "etag", "cache-control", "vary", "via"] {
            assert!(hit.field(name).is_some() && hit.field(name) == miss.field(name), "{name} of {hit:?}");
        }
        assert_eq!(format!("{number:0600}"), hit.text());
    }
    let bytes: usize = hits.iter().map(|it| it.block.len()).sum();
    assert!(bytes <= 100 * 60, "{} bytes each", bytes / 100);
    assert_eq!(100, origin.requests());
}

#[test]
fn the_table_is_of_the_size_that_the_client_allows() {
    let origin = assets();
    let larder = Larder::before(&origin, "");
    let names: Vec<String> = (0..20).map(|it| format!("/asset-{it}")).collect();
    for (first, then) in [(0, 4096), (4096, 0), (200, 100), (65_536, 300), (1 << 20, 0)] {
        let mut client = Http2::with_settings(&larder, &[(HEADER_TABLE_SIZE, first)]);
        for size in [None, Some(then), Some(first)] {
            if let Some(size) = size {
                client.set(&[(HEADER_TABLE_SIZE, size)]);
            }
            for (number, name) in names.iter().enumerate() {
                // From RAM, by way of the origin, and as a 304: the harness holds the server to what it allowed.
                let hit = client.get(name);
                assert_eq!(format!("{number:0600}"), hit.text());
                let validator = [("if-none-match", hit.field("etag").unwrap())];
                let asked = client.head(&request("GET", name, &validator), END_STREAM);
                assert_eq!(304, client.answer(asked).status);
                let other = client.head(&request("POST", name, &[]), END_STREAM);
                assert_eq!(hit.field("etag"), client.answer(other).field("etag"));
            }
        }
    }
}
