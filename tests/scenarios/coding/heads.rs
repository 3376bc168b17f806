//! HEAD asks the origin for what GET would, and has GET's fields (RFC 9110 section 9.3.2).

use super::*;

/// An origin that codes for whoever accepts that, or for everybody: `/honest/…`, `/CODING/…`; its answers to HEAD have no
/// body.
fn origin() -> Origin {
    Origin::scripted(|request: &Received| {
        let asked = request.field("accept-encoding").unwrap_or("gzip");
        let coding = match request.target().split('/').nth(1).unwrap() {
            "honest" => {
                ["br", "gzip", "deflate"].into_iter().find(|it| asked.contains(it)).unwrap_or("identity")
            }
            stubborn => stubborn,
        };
        let body = coded(coding, &page());
        let Some(Script::Send(mut bytes)) = framed(coding, "length", HTML, &body).into_iter().next() else {
            panic!("a response is sent");
        };
        if request.line().starts_with("HEAD") {
            bytes.truncate(bytes.len() - body.len());
        }
        vec![Script::Send(bytes)]
    })
}

fn about(it: &Response) -> (u16, Vec<(String, String)>) {
    let not = ["Date", "Age", "Cache-Status", "Transfer-Encoding"];
    let mut fields = it.fields.clone();
    fields.retain(|it| !not.contains(&&*it.0));
    fields.sort();
    (it.status, fields)
}

#[test]
fn a_head_request_of_an_unstored_response_has_the_fields_of_get() {
    let origin = origin();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for kind in ["honest", "identity", "gzip", "br", "zstd", "deflate"] {
        for (number, accepted) in CLIENTS.into_iter().enumerate() {
            let target = format!("/{kind}/{number}");
            let head = client.request("HEAD", &target, &accept(accepted), "");
            let get = client.get_with(&target, &accept(accepted));
            let asked: Vec<_> = origin
                .received()
                .iter()
                .filter(|it| it.target() == target)
                .map(|it| it.field("accept-encoding").map(str::to_owned))
                .collect();
            assert_eq!(2, asked.len(), "{kind} {accepted}: neither is answered by the other");
            assert_eq!(asked[0], asked[1], "{kind} {accepted}");
            assert_eq!(about(&get), about(&head), "{kind} {accepted}");
            assert!(head.body.is_empty() && head.complete);
        }
    }
}

#[test]
fn a_head_response_that_is_not_shared_is_passed_on_unchanged() {
    let origin = Origin::scripted(|_| {
        let fields = "Content-Type: text/html\r\nCache-Control: private\r\nContent-Encoding: gzip\r\n";
        vec![Script::Send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 77\r\n\r\n").into())]
    });
    let larder = Larder::before(&origin, COMPRESS);
    let head = larder.client().request("HEAD", "/", "Accept-Encoding: identity\r\n", "");
    let text = ["content-encoding", "content-length", "vary"].map(|it| head.field(it).map(str::to_owned));
    assert_eq!([Some("gzip".to_owned()), Some("77".to_owned()), None], text);
}

#[test]
fn an_encoded_response_is_encoded_again_for_a_client_that_accepts_no_other_form() {
    let origin = stubborn();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    for (coding, wanted) in [("br", "gzip"), ("zstd", "gzip"), ("gzip", "br"), ("gzip", "zstd")] {
        let target = format!("/{coding}/length/{wanted}");
        client.get_with(&target, &accept(coding));
        let lines = format!("Accept-Encoding: {wanted}, identity;q=0\r\n");
        let get = client.get_with(&target, &lines);
        check(coding, wanted, &get);
        assert_eq!(Some(wanted), get.field("content-encoding"), "{coding}");
        assert!(get.is_hit());
        let head = client.request("HEAD", &target, &lines, "");
        assert_eq!(about(&get), about(&head));
        let same = client.get_with(&target, &format!("{lines}If-None-Match: \"one\"\r\n"));
        assert_eq!(304, same.status);
        // Who accepts what the origin sent gets that, whatever else was made.
        let both = format!("Accept-Encoding: {wanted}, {coding}\r\n");
        assert_eq!(Some(coding), client.get_with(&target, &both).field("content-encoding"));
    }
    assert_eq!(4, larder.counter("coding_made"));
}
