//! Clients of CGI programs that leave, or read slowly.

use super::{Programs, children, is_running};
use crate::harness::http2::{self, Http2};
use crate::harness::until;

const SLOW: (&str, &str) = ("slow", "cat > /dev/null; echo $$ > \"$FOLDER/pid\"; exec sleep 1000");
const BEGINS: (&str, &str) =
    ("begins", "echo $$ > \"$FOLDER/pid\"; printf 'X: 1\\n\\npart'; exec sleep 1000");

/// A program whose client has left is stopped: no response of it is stored for others.
#[test]
fn a_program_ends_with_its_client() {
    for (name, text) in [SLOW, BEGINS] {
        for (method, keys) in [("POST", ""), ("GET", "cache = { enabled = false }"), ("DELETE", "")] {
            let it = Programs::with(keys, "", &[(name, text)]);
            let mut client = it.larder.client();
            let request =
                format!("{method} /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b");
            client.send(request);
            let pid = it.note("pid");
            drop(client);
            until("its program is ended", || !is_running(&pid));
            until("it is reaped", || children(it.larder.child.id()) == 0);
        }
    }
}

#[test]
fn a_program_ends_with_its_http2_stream() {
    for (name, text) in [SLOW, BEGINS] {
        let it = Programs::new("", &[(name, text), ("fast", "printf 'X: 1\\n\\nfast'")]);
        let mut client = Http2::connect(&it.larder);
        let path = format!("/cgi-bin/{name}");
        let id = client.head(&http2::request("POST", &path, &[]), http2::END_HEADERS);
        client.data(id, b"a=b", http2::END_STREAM);
        let pid = it.note("pid");
        client.send(http2::frame(http2::RST_STREAM, 0, id, &8u32.to_be_bytes()));
        until("its program is ended", || !is_running(&pid));
        assert_eq!("fast", client.get("/cgi-bin/fast").text(), "the connection goes on");
    }
}

/// A page that may be stored is made for others, too.
#[test]
fn a_cgi_page_that_may_be_stored_is_completed_without_its_client() {
    let it = Programs::new(
        "",
        &[(
            "page",
            "echo $$ > \"$FOLDER/pid\"; while ! [ -e \"$FOLDER/go\" ]; do sleep 0.02; done; printf 'Cache-Control: max-age=60\\n\\npage'",
        )],
    );
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/page HTTP/1.1\r\nHost: h\r\n\r\n");
    it.note("pid");
    drop(client);
    std::fs::write(it.folder.path().join("go"), "").unwrap();
    until("it is stored", || it.larder.counter("cache_stores") == 1);
    assert!(it.get("/cgi-bin/page").is_hit());
}

/// A slow reader does not occupy the only process: the rest of its page is in the spool.
#[test]
fn a_slow_reader_occupies_no_process() {
    let it = Programs::with(
        "cache = { enabled = false }",
        ", max_processes = 1",
        &[
            ("large", "printf 'X: 1\\n\\n'; exec head -c 12000000 /dev/zero"),
            ("fast", "printf 'X: 1\\n\\nfast'"),
        ],
    );
    let mut client = it.larder.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(64 * 1024).unwrap();
    client.send("GET /cgi-bin/large HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stalled = Http2::connect(&it.larder);
    let id = stalled.send_get("/cgi-bin/large");
    until("no program is left", || {
        it.larder.counter("origin_requests") == 2 && children(it.larder.child.id()) == 0
    });
    assert_eq!("fast", it.get("/cgi-bin/fast").text());
    assert_eq!(12_000_000, client.read().body.len());
    stalled.allow(0, 20_000_000);
    stalled.allow(id, 20_000_000);
    assert_eq!(12_000_000, stalled.answer(id).body.len());
}
