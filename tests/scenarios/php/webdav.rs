//! WebDAV to PHP, and uploads in pieces of unknown length as Nextcloud's clients send them: every method, field and body reaches the script.

use super::PhpSite;
use crate::harness::php::PhpFpm;
use crate::harness::{Client, Larder, Response, http2, until};
use std::path::Path;

const SCRIPT: &str = include_str!("../../apps/webdav.php");

/// Stores files by WebDAV in the directory `store`.
fn site() -> PhpSite {
    let (folder, fpm) = (tempfile::tempdir().unwrap(), PhpFpm::start(2));
    std::fs::write(folder.path().join("remote.php"), SCRIPT).unwrap();
    std::fs::create_dir(folder.path().join("store")).unwrap();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/store/*\"\nrespond = {{ status = 404 }}\n\
         [[site.route]]\nphp = {{ root = {:?}, to = {:?}, env = {{ STORE = \"{}\" }} }}\n",
        folder.path(),
        fpm.name(),
        store(folder.path())
    ));
    PhpSite { folder, fpm, larder }
}

fn store(folder: &Path) -> String {
    folder.join("store").display().to_string()
}

fn target(name: &str) -> String {
    format!("/remote.php{name}")
}

/// A piece of an upload; no two are alike.
fn piece(number: usize) -> Vec<u8> {
    (0..200_000 + number).map(|at| u8::try_from((at * number) % 251).unwrap()).collect()
}

/// A PUT with a body of unknown length.
fn put_chunked(client: &mut Client, name: &str, body: &[u8]) -> Response {
    client.send(format!("PUT {} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", target(name)));
    for part in body.chunks(70_000) {
        client.send(format!("{:x}\r\n", part.len())).send(part).send("\r\n");
    }
    client.send("0\r\n\r\n").read_for("PUT")
}

/// The same by HTTP/2, whose frames give no length either.
fn put_http2(larder: &Larder, name: &str, body: &[u8]) -> String {
    let mut second = http2::Http2::connect(larder);
    let id = second.head(&http2::request("PUT", &target(name), &[]), 0);
    for part in body.chunks(16_000) {
        second.data(id, part, 0);
    }
    second.data(id, b"", http2::END_STREAM);
    second.answer(id).field(":status").unwrap().to_owned()
}

#[test]
fn an_upload_in_pieces_of_unknown_length_is_moved_to_its_destination() {
    let PhpSite { larder, folder, .. } = &site();
    let mut client = larder.client();
    let move_to = |lines: &str| format!("Destination: http://h/remote.php/movie\r\n{lines}");
    let all = [1, 2, 3].map(piece).concat();
    let length = format!("OC-Total-Length: {}\r\n", all.len());
    for status in [201, 204] {
        assert_eq!(201, client.request("MKCOL", &target("/upload"), &move_to(""), "").status);
        assert_eq!(405, client.request("MKCOL", &target("/upload"), "", "").status, "it exists");
        assert_eq!(201, put_chunked(&mut client, "/upload/1", &piece(1)).status);
        assert_eq!("201", put_http2(larder, "/upload/2", &piece(2)));
        assert_eq!(201, put_chunked(&mut client, "/upload/3", &piece(3)).status);
        let answer = client.request("MOVE", &target("/upload/.file"), &move_to(&length), "");
        assert_eq!(status, answer.status, "{answer:?}");
        assert!(std::fs::read(folder.path().join("store/movie")).unwrap() == all);
        assert!(!folder.path().join("store/upload").exists());
    }
    assert!(client.get(&target("/movie")).body == all);
}

#[test]
fn methods_and_fields_of_webdav_reach_php() {
    let PhpSite { larder, .. } = &site();
    let mut client = larder.client();
    assert_eq!(201, client.request("MKCOL", &target("/a%20b"), "", "").status);
    for (method, name, lines, status) in [
        ("PUT", "/a%20b/one", "", 201),
        ("PUT", "/a%20b/one", "", 204),
        ("COPY", "/a%20b/one", "Destination: /remote.php/a%20b/two\r\n", 201),
        ("COPY", "/a%20b/one", "", 400),
        ("MOVE", "/a%20b/one", "Destination: /remote.php/a%20b/two\r\nOverwrite: F\r\n", 412),
        ("MOVE", "/a%20b/one", "Destination: /remote.php/a%20b/three\r\nOverwrite: F\r\n", 201),
        ("LOCK", "/a%20b/two", "Timeout: Second-60\r\n", 200),
        ("UNLOCK", "/a%20b/two", "Lock-Token: <urn:Second-60>\r\n", 204),
        ("UNLOCK", "/a%20b/two", "Lock-Token: <urn:other>\r\n", 409),
    ] {
        let answer = client.request(method, &target(name), lines, "x");
        assert_eq!(status, answer.status, "{method} {name} {lines}: {answer:?}");
    }
    let token = client.request("LOCK", &target("/a%20b/two"), "Timeout: Second-60\r\n", "<lockinfo/>");
    assert_eq!(Some("<urn:Second-60>"), token.field("lock-token"));
    assert_eq!(Some("1, 2"), client.request("OPTIONS", &target("/a%20b/two"), "", "").field("dav"));
    let here = "<response><href>/a b</href><length></length></response>";
    let members = "<response><href>/a b/three</href><length>1</length></response><response><href>/a b/two</href><length>1</length></response>";
    for (method, lines, body, expect) in [
        ("PROPFIND", "Depth: 0\r\n", "<d:propfind xmlns:d='DAV:'/>", "request=\"propfind\" depth=\"0\""),
        ("PROPFIND", "Depth: 1\r\n", "<d:propfind xmlns:d='DAV:'/>", "request=\"propfind\" depth=\"1\""),
        ("REPORT", "", "<oc:filter-files xmlns:oc='o'/>", "request=\"filter-files\" depth=\"infinity\""),
    ] {
        for _ in 0..2 {
            let answer = client.request(method, &target("/a%20b"), lines, body);
            let members = if lines.starts_with("Depth: 0") { "" } else { members };
            let expect = format!("<multistatus {expect}>{here}{members}</multistatus>");
            assert_eq!((207, expect.as_str()), (answer.status, &*answer.text()), "{method} {lines}");
            assert!(!answer.is_hit());
        }
    }
}

/// A page that was stored is not served any more once its file was moved, replaced or deleted, and the page of the new state is stored.
#[test]
fn methods_of_webdav_invalidate_stored_pages() {
    let PhpSite { larder, .. } = &site();
    let mut client = larder.client();
    let put = |name: &str, body: &str| larder.client().request("PUT", &target(name), "", body).status;
    let mut has = |name: &str, status: u16, text: &str| {
        let mut is_hit = || {
            let answer = client.get(&target(name));
            assert_eq!((status, text), (answer.status, &*answer.text()), "{name}");
            answer.is_hit()
        };
        assert!(!is_hit(), "{name} comes from the script");
        until("the page is a hit", is_hit);
    };
    assert_eq!([201, 201], [put("/one", "1"), put("/two", "2")]);
    has("/one", 200, "1");
    has("/two", 200, "2");
    assert_eq!(204, put("/one", "new"));
    has("/one", 200, "new");
    let moved = |from: &str, to: &str, method: &str| {
        let lines = format!("Destination: http://h/remote.php{to}\r\n");
        larder.client().request(method, &target(from), &lines, "").status
    };
    assert_eq!(204, moved("/one", "/two", "MOVE"));
    has("/two", 200, "new");
    has("/one", 404, "");
    assert_eq!(201, put("/three", "3"));
    has("/three", 200, "3");
    assert_eq!(201, moved("/two", "/three", "COPY"));
    has("/three", 200, "new");
    assert_eq!(204, larder.client().request("DELETE", &target("/three"), "", "").status);
    has("/three", 404, "");
}
