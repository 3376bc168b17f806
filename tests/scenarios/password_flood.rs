//! Passwords that are tried faster than they can be verified: they wait in a bounded queue apart from the workers, whose hits go on.

use super::access::larder;
use super::access_basic::users;
use crate::harness::{Client, Origin, until};
use std::net::Ipv4Addr;

/// More requests than the queue and all threads take: 64, and at most 5.
const REQUESTS: u8 = 80;

#[test]
fn hits_are_answered_while_passwords_wait_for_their_verification() {
    let origin = Origin::fixed(super::access::PAGE);
    let [alice, _] = users();
    let (exponent, rest) = alice.split_once("$05$").expect("htpasswd takes the exponent 5");
    // One verification takes longer than this test: no place in the queue becomes free. 17 is the highest exponent that larder accepts.
    let site = format!(
        "[[site.route]]\npath = \"/guarded/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ basic = {{ users = [\"{exponent}$17${rest}\"] }} }}\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\n"
    );
    let larder = larder(&origin, &site);
    assert_eq!(200, larder.get("/open").status);
    // Each from a network of its own, as the wrong passwords of one network are limited.
    let mut clients: Vec<Client> =
        (1..=REQUESTS).map(|it| Client::connect_from(Ipv4Addr::new(127, 0, it, 1), larder.address)).collect();
    for client in &mut clients {
        client.send("GET /guarded/ HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YWxpY2U6d3Jvbmc=\r\n\r\n");
    }
    let is_answered = |it: &Client| {
        it.stream.set_nonblocking(true).unwrap();
        let is_answered = it.stream.peek(&mut [0]).is_ok();
        it.stream.set_nonblocking(false).unwrap();
        is_answered
    };
    let answered = |clients: &[Client]| clients.iter().filter(|it| is_answered(it)).count();
    until("the queue is full", || answered(&clients) > 0);
    for protocol in ["1.1", "1.0"] {
        let mut client = larder.client();
        let hit = client.send(format!("GET /open HTTP/{protocol}\r\nHost: h\r\n\r\n")).read();
        assert!(hit.status == 200 && hit.is_hit(), "{hit:?}");
    }
    until("the requests beyond the queue are refused", || {
        answered(&clients) >= usize::from(REQUESTS) - 64 - 5
    });
    let (mut refused, waiting): (Vec<_>, Vec<_>) = clients.into_iter().partition(is_answered);
    assert!(waiting.len() >= 64, "{} wait", waiting.len());
    for client in &mut refused {
        let it = client.read();
        assert_eq!((503, Some("1")), (it.status, it.field("retry-after")), "{it:?}");
        assert!(it.text().contains("Too many passwords are being verified."), "{it:?}");
    }
    let hit = larder.get("/open");
    assert!(hit.status == 200 && hit.is_hit(), "{hit:?}");
    let answered = waiting.iter().filter(|it| is_answered(it)).count();
    assert!(answered < waiting.len() / 2, "the hit waited for {answered} of {} passwords", waiting.len());
}
