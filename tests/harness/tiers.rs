//! Help for scenarios of the tiers below RAM: their sections of the configuration, waiting until a response has reached
//! them, and comparing the result.

use super::origin::Script;
use super::{Larder, Memcached, Origin, Response, until};

/// The section for these servers, with more lines.
pub fn fleet(servers: &[&Memcached], more: &str) -> String {
    let names: Vec<String> = servers.iter().map(|it| format!("{:?}", it.name())).collect();
    format!("[cache.fleet]\nservers = [{}]\npurge_log = false\n{more}\n", names.join(", "))
}

/// A larder with a fleet.
pub fn node(origin: &Origin, memcached: &Memcached) -> Larder {
    node_with(origin, memcached, "")
}

/// The same with cache settings of the route.
pub fn node_with(origin: &Origin, memcached: &Memcached, cache: &str) -> Larder {
    Larder::before_with(origin, cache, &fleet(&[memcached], "timeout = \"60s\""))
}

/// Waits until everything that a node has written to the fleet is there.
pub fn settled(node: &Larder, puts: u64) {
    until("it is in the fleet", || node.counter("fleet_puts") >= puts);
}

/// A hit for `target`: the last byte of the first response reaches its client a moment before the store has it.
pub fn stored(node: &Larder, target: &str) -> Response {
    let mut found = node.get(target);
    until("it is stored", || {
        found = node.get(target);
        found.is_hit()
    });
    found
}

/// Fields that are the same wherever a stored response is served from.
pub fn kept(response: &Response) -> Vec<(String, String)> {
    let own = ["age", "cache-status", "connection"];
    let mut fields = response.fields.clone();
    fields.retain(|it| !own.contains(&it.0.to_ascii_lowercase().as_str()));
    fields
}

#[track_caller]
pub fn same(expect: &Response, found: &Response) {
    assert_eq!(expect.status, found.status);
    assert_eq!(kept(expect), kept(found));
    assert!(expect.body == found.body, "{} bytes instead of {}", found.body.len(), expect.body.len());
    assert_eq!(expect.trailers, found.trailers);
    assert!(found.complete);
}

pub fn binary(length: usize) -> Vec<u8> {
    (0..length).map(|it| (it * 7 % 251) as u8).collect()
}

/// An origin whose page `/N` has N bytes that are no text.
pub fn of_size() -> Origin {
    Origin::scripted(|request| {
        let length = request.target().trim_start_matches('/').parse().unwrap_or(0);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: max-age=600\r\n\
             ETag: \"e\"\r\nX-Odd:  \u{e4} b\r\nContent-Length: {length}\r\n\r\n"
        );
        vec![Script::Send([head.into_bytes(), binary(length)].concat())]
    })
}

/// The section for a disk tier in `folder`.
pub fn disk(folder: &std::path::Path) -> String {
    format!("[cache.disk]\npath = {:?}\nsize = \"64MiB\"\nsegment_size = \"4MiB\"\n", folder.join("disk"))
}

/// A larder with a disk tier in `folder`, which outlives it.
pub fn on_disk(origin: &Origin, folder: &std::path::Path, more: &str) -> Larder {
    Larder::before_with(origin, "", &(disk(folder) + more))
}

pub fn written(node: &Larder, responses: u64) {
    until("it is on disk", || node.counter("disk_writes") >= responses);
}

/// As `kill -9` does it.
pub fn killed(mut node: Larder) {
    node.child.kill().unwrap();
    node.child.wait().unwrap();
}
