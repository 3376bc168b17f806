//! The laws that `fuzz/` feeds at length, run small: over its seeds, and over what they become when parts are cut,
//! moved and changed.

use larder_wire::memcached::MemcachedProtocol;
use proptest::prelude::*;
use std::path::Path;

#[path = "../../fuzz/laws/binlog.rs"]
mod binlog;
#[path = "../../fuzz/laws/cgi_head.rs"]
mod cgi_head;
#[path = "../../fuzz/laws/envelope.rs"]
mod envelope;
#[path = "../../fuzz/laws/event_line.rs"]
mod event_line;
#[path = "../../fuzz/laws/fastcgi.rs"]
mod fastcgi;
#[path = "../../fuzz/laws/history.rs"]
mod history;
#[path = "../../fuzz/laws/htpasswd.rs"]
mod htpasswd;
#[path = "../../fuzz/laws/http1_chunked.rs"]
mod http1_chunked;
#[path = "../../fuzz/laws/http1_request.rs"]
mod http1_request;
#[path = "../../fuzz/laws/http1_response.rs"]
mod http1_response;
#[path = "../../fuzz/laws/http2_frame.rs"]
mod http2_frame;
#[path = "../../fuzz/laws/http2_head.rs"]
mod http2_head;
#[path = "../../fuzz/laws/http3_frame.rs"]
mod http3_frame;
#[path = "../../fuzz/laws/http3_head.rs"]
mod http3_head;
#[path = "../../fuzz/laws/jwt.rs"]
mod jwt;
#[path = "../../fuzz/laws/memcached.rs"]
mod memcached;
#[path = "../../fuzz/laws/mysql.rs"]
mod mysql;
#[path = "../../fuzz/laws/node_status.rs"]
mod node_status;
#[path = "../../fuzz/laws/passed_packets.rs"]
mod passed_packets;
#[path = "../../fuzz/laws/pgoutput.rs"]
mod pgoutput;
#[path = "../../fuzz/laws/proxy.rs"]
mod proxy;
#[path = "../../fuzz/laws/purge_entry.rs"]
mod purge_entry;
#[path = "../../fuzz/laws/segment.rs"]
mod segment;
#[path = "../../fuzz/laws/signed_url.rs"]
mod signed_url;

/// Every seed of a target, in the order of their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.into_iter().map(|it| std::fs::read(it).unwrap()).collect()
}

/// Up to four pieces of seeds or of noise, one behind the other.
fn mixed(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let piece =
        (prop::sample::select(seeds(target)), any::<prop::sample::Index>(), any::<prop::sample::Index>())
            .prop_map(|(seed, a, b)| {
                let (a, b) = (a.index(seed.len() + 1), b.index(seed.len() + 1));
                seed[a.min(b)..a.max(b)].to_vec()
            });
    let noise = prop::collection::vec(any::<u8>(), 0..3);
    let part = prop_oneof![2 => prop::sample::select(seeds(target)), 6 => piece, 1 => noise];
    prop::collection::vec(part, 1..5).prop_map(|it| it.concat())
}

/// Every module of a format that reads a peer's bytes has a fuzz target of its name, and the other way about.
#[test]
fn every_codec_has_its_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = |folder: &Path| -> Vec<_> {
        let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        files.filter(|it| it.extension().is_some_and(|it| it == "rs")).collect()
    };
    let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut targets: Vec<_> = names(&root.join("fuzz/fuzz_targets")).iter().map(|it| stem(it)).collect();
    let mut codecs: Vec<_> = ["http1", "http2", "http3", "memcached"]
        .iter()
        .flat_map(|folder| names(&root.join("wire/src").join(folder)).into_iter().map(move |it| (folder, it)))
        .filter(|(_, it)| {
            let text = std::fs::read_to_string(it).unwrap();
            stem(it) != "mod" && (text.contains("pub fn parse") || text.contains("pub fn step"))
        })
        .map(|(folder, it)| format!("{folder}_{}", stem(&it)))
        .collect();
    codecs.extend(["envelope".to_owned(), "http3_frame".to_owned(), "segment".to_owned()]);
    codecs.extend(["event_line".to_owned(), "history".to_owned(), "node_status".to_owned()]);
    codecs.extend(["htpasswd".to_owned(), "proxy".to_owned(), "purge_entry".to_owned()]);
    codecs.extend(["cgi_head".to_owned(), "fastcgi".to_owned(), "pgoutput".to_owned()]);
    codecs.push("passed_packets".to_owned());
    codecs.extend(["binlog".to_owned(), "jwt".to_owned(), "mysql".to_owned(), "signed_url".to_owned()]);
    targets.sort();
    codecs.sort();
    assert_eq!(codecs, targets);
}

#[test]
fn seeds_obey() {
    seeds("http1_request").iter().for_each(|it| http1_request::check(it));
    seeds("http1_response").iter().for_each(|it| http1_response::check(it));
    seeds("http1_chunked").iter().for_each(|it| http1_chunked::check(it));
    seeds("http2_frame").iter().for_each(|it| http2_frame::check(it));
    seeds("http2_head").iter().for_each(|it| http2_head::check(it));
    seeds("http3_head").iter().for_each(|it| http3_head::check(it));
    seeds("http3_frame").iter().for_each(|it| http3_frame::check(it));
    seeds("envelope").iter().for_each(|it| envelope::check(it));
    seeds("memcached_meta").iter().for_each(|it| memcached::check(MemcachedProtocol::Meta, it));
    seeds("memcached_binary").iter().for_each(|it| memcached::check(MemcachedProtocol::Binary, it));
    seeds("segment").iter().for_each(|it| segment::check(it));
    seeds("passed_packets").iter().for_each(|it| passed_packets::check(it));
    seeds("proxy").iter().for_each(|it| proxy::check(it));
    seeds("htpasswd").iter().for_each(|it| htpasswd::check(it));
    seeds("jwt").iter().for_each(|it| jwt::check(it));
    seeds("signed_url").iter().for_each(|it| signed_url::check(it));
    seeds("cgi_head").iter().for_each(|it| cgi_head::check(it));
    seeds("fastcgi").iter().for_each(|it| fastcgi::check(it));
    seeds("mysql").iter().for_each(|it| mysql::check(it));
    seeds("binlog").iter().for_each(|it| binlog::check(it));
    seeds("pgoutput").iter().for_each(|it| pgoutput::check(it));
    seeds("event_line").iter().for_each(|it| event_line::check(it));
    seeds("history").iter().for_each(|it| history::check(it));
    seeds("node_status").iter().for_each(|it| node_status::check(it));
    seeds("purge_entry").iter().for_each(|it| purge_entry::check(it));
}

proptest! {
    #[test]
    fn requests_obey(raw in mixed("http1_request")) {
        http1_request::check(&raw);
    }

    #[test]
    fn responses_obey(raw in mixed("http1_response")) {
        http1_response::check(&raw);
    }

    #[test]
    fn chunked_bodies_obey(raw in mixed("http1_chunked")) {
        http1_chunked::check(&raw);
    }

    #[test]
    fn frames_obey(raw in mixed("http2_frame")) {
        http2_frame::check(&raw);
    }

    #[test]
    fn streams_of_http3_obey(raw in mixed("http3_frame")) {
        http3_frame::check(&raw);
    }

    #[test]
    fn field_sections_of_http3_obey(raw in mixed("http3_head")) {
        http3_head::check(&raw);
    }

    #[test]
    fn field_sections_obey(raw in mixed("http2_head")) {
        http2_head::check(&raw);
    }

    #[test]
    fn envelopes_obey(raw in mixed("envelope")) {
        envelope::check(&raw);
    }

    #[test]
    fn segments_obey(raw in mixed("segment")) {
        segment::check(&raw);
    }

    #[test]
    fn meta_replies_obey(raw in mixed("memcached_meta")) {
        memcached::check(MemcachedProtocol::Meta, &raw);
    }

    #[test]
    fn binary_replies_obey(raw in mixed("memcached_binary")) {
        memcached::check(MemcachedProtocol::Binary, &raw);
    }

    #[test]
    fn passed_packets_obey(raw in mixed("passed_packets")) {
        passed_packets::check(&raw);
    }

    #[test]
    fn headers_of_proxies_obey(raw in mixed("proxy")) {
        proxy::check(&raw);
    }

    #[test]
    fn password_files_obey(raw in mixed("htpasswd")) {
        htpasswd::check(&raw);
    }

    #[test]
    fn tokens_and_keys_obey(raw in mixed("jwt")) {
        jwt::check(&raw);
    }

    #[test]
    fn signed_urls_obey(raw in mixed("signed_url")) {
        signed_url::check(&raw);
    }

    #[test]
    fn event_lines_obey(raw in mixed("event_line")) {
        event_line::check(&raw);
    }

    #[test]
    fn history_records_obey(raw in mixed("history")) {
        history::check(&raw);
    }

    #[test]
    fn purge_entries_obey(raw in mixed("purge_entry")) {
        purge_entry::check(&raw);
    }

    #[test]
    fn node_statuses_obey(raw in mixed("node_status")) {
        node_status::check(&raw);
    }

    #[test]
    fn heads_of_applications_obey(raw in mixed("cgi_head")) {
        cgi_head::check(&raw);
    }

    #[test]
    fn packets_of_databases_obey(raw in mixed("mysql")) {
        mysql::check(&raw);
    }

    #[test]
    fn logged_events_obey(raw in mixed("binlog")) {
        binlog::check(&raw);
    }

    #[test]
    fn changes_obey(raw in mixed("pgoutput")) {
        pgoutput::check(&raw);
    }

    #[test]
    fn records_obey(raw in mixed("fastcgi")) {
        fastcgi::check(&raw);
    }
}
