//! Forms of what lies in the tiers below RAM: on disk, or put into the fleet by another node.

use super::*;

/// Text that even coded is larger than what RAM takes up from the disk at once.
fn large() -> Vec<u8> {
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", seed >> 32)
    };
    (0..10_000).map(|_| next()).collect::<String>().into_bytes()
}

#[test]
fn a_response_on_disk_is_served_to_every_client() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::scripted(|request: &Received| {
        let coding = request.target().trim_start_matches('/');
        framed(coding, "length", HTML, &coded(coding, &large()))
    });
    let start = |more: &str| Larder::before_with(&origin, COMPRESS, &(tiers::disk(folder.path()) + more));
    let before = start("");
    let codings = ["identity", "gzip", "br", "zstd"];
    codings.iter().for_each(|it| drop(before.client().get_with(&format!("/{it}"), &accept(it))));
    tiers::written(&before, 4);
    tiers::killed(before);
    // Served from its segment each time, and then taken up into RAM.
    for more in ["promote_after = 1000\n", ""] {
        let larder = start(more);
        let mut client = larder.client();
        for coding in codings {
            for accepted in CLIENTS {
                let response = client.get_with(&format!("/{coding}"), &accept(accepted));
                assert!(response.is_hit() && response.complete, "{coding} {accepted} {more}");
                assert!(decoded(&response) == large(), "{coding} {accepted} {more}");
                assert_eq!(Some("Accept-Encoding"), response.field("vary"));
                let as_stored = response.field("content-encoding").unwrap_or("identity") == coding;
                assert_eq!(Some(if as_stored { "\"one\"" } else { "W/\"one\"" }), response.field("etag"));
            }
            assert_eq!(more.is_empty(), !client.get(&format!("/{coding}")).cache().contains("detail=disk"));
        }
        if more.is_empty() {
            until_coded(&mut client, "/identity", "Accept-Encoding: zstd\r\n", "zstd");
        }
        tiers::killed(larder);
    }
    assert_eq!(4, origin.requests());
}

#[test]
fn a_response_of_another_node_is_served_to_every_client() {
    let memcached = Memcached::start();
    let origin = stubborn();
    let node = || {
        let section = tiers::fleet(&[&memcached], "timeout = \"60s\"");
        Larder::before_with(&origin, COMPRESS, &section)
    };
    let (first, second) = (node(), node());
    for (puts, coding) in (1..).zip(["identity", "gzip", "br", "zstd"]) {
        let target = format!("/{coding}/length/0");
        first.client().get_with(&target, &accept(coding));
        tiers::settled(&first, puts);
        for accepted in CLIENTS {
            for _ in 0..2 {
                let response = second.client().get_with(&target, &accept(accepted));
                check(coding, accepted, &response);
                assert!(response.is_hit(), "{coding} {accepted}: {response:?}");
            }
        }
    }
    until_coded(&mut second.client(), "/identity/length/0", "Accept-Encoding: br\r\n", "br");
    assert_eq!(4, origin.requests());
}
