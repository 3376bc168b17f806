use super::*;
use crate::compress::Compress;
use crate::conditional::tests::meta;
use crate::stored::Meta;
use proptest::prelude::*;
use std::sync::Arc;

fn policy() -> Policy {
    let types = ["text/*", "application/json", "font/ttf", "+xml"].map(str::to_owned).to_vec();
    let compress = Compress {
        codings: CodingPreference::DEFAULT,
        min_size: 1024,
        max_size: 8 << 20,
        types,
        uncached: true,
    };
    Policy { compress: Some(Arc::new(compress)), ..Policy::default() }
}

/// `head` is lines of `Name: value`, parted by ` | `.
fn with<T>(head: &str, run: impl FnOnce(&[Field<'_>]) -> T) -> T {
    let fields: Vec<_> = head
        .split(" | ")
        .filter_map(|it| it.split_once(": "))
        .map(|(name, value)| Field { name, value: value.as_bytes() })
        .collect();
    run(&fields)
}

fn codings(names: &str) -> Codings {
    names.split_whitespace().map(|it| Coding::of(it.as_bytes())).fold(Codings::NONE, Codings::with)
}

/// `expect`: the stored coding, then what may be made; empty where there are no forms.
#[track_caller]
fn check_plan(head: &str, length: u64, expect: &str) {
    let plan = with(head, |it| plan(200, it, Some(length), &policy()));
    let names = ["identity", "gzip", "br", "zstd", "deflate", "several"];
    let text = plan.map_or_else(String::new, |plan| {
        let is_own = |it: &&&str| match plan.own {
            Coding::Several(_) => **it == "several",
            own => Coding::of(it.as_bytes()) == own,
        };
        let own = names.iter().find(is_own).unwrap();
        let makes = names[..4].iter().filter(|it| plan.makes.has(Coding::of(it.as_bytes())));
        format!("{own}: {}", makes.copied().collect::<Vec<_>>().join(" "))
    });
    assert_eq!(expect, text, "{head}");
}

const ALL: &str = "identity: gzip br zstd";

#[test]
fn responses_that_are_compressed() {
    check_plan("Content-Type: text/html; charset=utf-8", 5000, ALL);
    check_plan("Content-Type: Application/JSON", 5000, ALL);
    check_plan("Content-Type: image/svg+xml", 5000, ALL);
    check_plan("Content-Type: font/ttf", 5000, ALL);
    check_plan("Content-Type: text/html | Content-Encoding: identity", 5000, ALL);
    check_plan("Content-Type: text/html", 1024, ALL);
    check_plan("Content-Type: text/html", 1023, "");
    check_plan("Content-Type: text/html", 8 << 20, ALL);
    check_plan("Content-Type: text/html", (8 << 20) + 1, "");
    for kind in ["image/png", "image/webp", "video/mp4", "font/woff2", "application/zip", "texthtml", "text/"]
    {
        check_plan(&format!("Content-Type: {kind}"), 5000, "");
    }
    check_plan("ETag: x", 5000, "");
}

#[test]
fn an_encoded_response_is_decoded_and_not_encoded_again() {
    check_plan("Content-Type: text/html | Content-Encoding: gzip", 100, "gzip: identity");
    check_plan("Content-Type: image/png | Content-Encoding: X-GZIP", 9 << 20, "gzip: identity");
    check_plan("Content-Encoding: br", 100, "br: identity");
    check_plan("Content-Encoding: identity, zstd", 100, "zstd: identity");
    check_plan("Content-Encoding: deflate", 100, "deflate: identity");
    check_plan("Content-Encoding: gzip, br", 100, "several: identity");
    check_plan("Content-Encoding: gzip | Content-Encoding: identity, deflate", 100, "several: identity");
    for unknown in ["compress", "gzip, compress", "gzip, gzip, gzip, gzip", "aes128gcm", "dcb"] {
        check_plan(&format!("Content-Type: text/html | Content-Encoding: {unknown}"), 5000, "");
    }
}

#[test]
fn a_no_transform_response_keeps_its_coding() {
    check_plan("Content-Type: text/html | Cache-Control: max-age=9, No-Transform", 5000, "");
    check_plan("Content-Encoding: gzip | Cache-Control: public | Cache-Control: no-transform", 5000, "");
    check_plan("Content-Type: text/html | CDN-Cache-Control: no-transform", 5000, "");
    check_plan("Content-Type: text/html | Cache-Control: x=\"no-transform\"", 5000, ALL);
    check_plan("Content-Type: text/html | Content-Range: bytes 0-5/10", 5000, "");
    let html = "Content-Type: text/html";
    for status in [204, 206, 304] {
        assert_eq!(None, with(html, |it| plan(status, it, Some(5000), &policy())), "{status}");
    }
    assert!(with(html, |it| plan(404, it, Some(5000), &policy())).is_some());
    assert_eq!(None, with(html, |it| plan(200, it, Some(5000), &Policy::default())));
}

#[test]
fn vary_selects_no_variant_where_codings_are_ours() {
    #[track_caller]
    fn check(head: &str, policy: &Policy, expect: &[&str]) {
        let now = larder_stdx::clock::WallTime(1000);
        let meta = with(head, |it| Meta::of(200, it, policy, now, now));
        assert_eq!(expect, meta.vary().iter().map(|it| &**it).collect::<Vec<_>>(), "{head}");
    }
    let vary = "Vary: Accept-Encoding, Cookie";
    check(vary, &Policy::default(), &["accept-encoding", "cookie"]);
    check(vary, &policy(), &["cookie"]);
    check(&format!("{vary} | Content-Encoding: gzip"), &policy(), &["cookie"]);
    check(&format!("{vary} | Content-Encoding: deflate"), &policy(), &["cookie"]);
    check(&format!("{vary} | Content-Encoding: compress"), &policy(), &["accept-encoding", "cookie"]);
    check(&format!("{vary} | Cache-Control: no-transform"), &policy(), &["accept-encoding", "cookie"]);
}

/// `stored`: the stored coding, then made forms, then after `!` refused ones. `expect`: what is served, `?` after what
/// is waited for, and after `+` what is to be made.
#[track_caller]
fn check(stored: &str, accept: &str, expect: &str) {
    let (there, refused) = stored.split_once('!').unwrap_or((stored, ""));
    let (own, made) = there.split_once(' ').unwrap_or((there, ""));
    let own = Coding::of(own.as_bytes());
    let head = match own {
        Coding::Identity => "Content-Type: text/html".to_owned(),
        _ => format!("Content-Encoding: {}", token(own).unwrap_or("deflate")),
    };
    let plan = with(&head, |it| plan(200, it, Some(5000), &policy())).unwrap();
    let choice = with(accept, |it| {
        choose(plan, codings(made), codings(refused), AcceptedCodings::read(it), is_exact(it, false))
    });
    let name = |it| token(it).unwrap_or("identity");
    let mut text = match choice.serve {
        Serve::Own => "own".to_owned(),
        Serve::Made(it) => name(it).to_owned(),
        Serve::Wait(it) => format!("{}?", name(it)),
        Serve::Unsuitable => "unsuitable".to_owned(),
    };
    if let Some(it) = choice.make {
        text.push_str(" +");
        text.push_str(name(it));
    }
    assert_eq!(expect, text, "{stored} | {accept}");
}

#[test]
fn the_best_that_is_there_is_served_and_the_best_that_could_be_is_made() {
    let browser = "Accept-Encoding: gzip, deflate, br, zstd";
    check("identity", browser, "own +zstd");
    check("identity gzip", browser, "gzip +zstd");
    check("identity gzip zstd", browser, "zstd");
    check("identity !zstd", browser, "own +br");
    check("identity !zstd br gzip", browser, "own");
    check("identity", "Accept-Encoding: gzip, br", "own +br");
    check("identity", "Accept-Encoding: br;q=0.5, gzip;q=0.8", "own +gzip");
    check("identity br", "Accept-Encoding: br;q=0.5, gzip;q=0.8", "br +gzip");
    check("identity", "Accept-Encoding: identity, gzip;q=0.5", "own");
    check("identity gzip", "Accept-Encoding: identity, gzip;q=0.5", "own");
    check("identity gzip", "Accept-Encoding: identity, gzip", "gzip");
    check("identity gzip", "Accept-Encoding: deflate", "own");
    check("identity gzip", "Accept-Encoding: ", "own");
    check("identity", "Accept-Encoding: gzip;q=0.001", "own +gzip");
}

#[test]
fn a_request_without_accept_encoding_gets_the_plain_form() {
    check("identity gzip", "", "own");
    check("identity gzip", "Accept-Encoding: *", "own");
    check("gzip", "", "identity? +identity");
    check("gzip identity", "", "identity");
    check("gzip !identity", "", "unsuitable");
}

#[test]
fn a_request_that_rejects_the_plain_form_waits_for_another() {
    check("identity", "Accept-Encoding: identity;q=0, gzip", "gzip? +gzip");
    check("identity br", "Accept-Encoding: gzip, br;q=0.5, *;q=0", "br +gzip");
    check("identity", "Accept-Encoding: *;q=0", "unsuitable");
    check("identity !gzip", "Accept-Encoding: identity;q=0, gzip", "unsuitable");
    check("identity", "Accept-Encoding: identity;q=0", "unsuitable");
}

#[test]
fn an_encoded_response_is_served_as_it_is_or_decoded() {
    check("gzip", "Accept-Encoding: gzip, br, zstd", "own");
    check("gzip", "Accept-Encoding: gzip;q=0.1, br", "own");
    check("gzip", "Accept-Encoding: br", "identity? +identity");
    check("gzip", "Accept-Encoding: gzip;q=0.5, identity", "own +identity");
    check("gzip identity", "Accept-Encoding: gzip;q=0.5, identity", "identity");
    check("gzip zstd", "Accept-Encoding: gzip, zstd, br", "own");
}

#[test]
fn an_encoded_response_is_encoded_again_only_if_no_other_form_is_acceptable() {
    check("br", "Accept-Encoding: gzip, *;q=0", "gzip? +gzip");
    check("br identity", "Accept-Encoding: gzip, identity;q=0", "gzip? +gzip");
    check("br gzip", "Accept-Encoding: gzip, identity;q=0", "gzip");
    check("gzip br", "Accept-Encoding: br, zstd, identity;q=0", "br +zstd");
    check("gzip br", "Accept-Encoding: br, identity;q=0.1", "identity? +identity");
    check("gzip", "Accept-Encoding: gzip, br, identity;q=0", "own");
    check("br !gzip", "Accept-Encoding: gzip, identity;q=0", "unsuitable");
    check("br", "Accept-Encoding: *;q=0", "unsuitable");
    check("br", "Accept-Encoding: deflate, identity;q=0", "unsuitable");
}

#[test]
fn exact_bytes_are_those_that_are_stored() {
    for line in ["Range: bytes=0-9", "If-Match: \"a\"", "If-Range: \"a\"", "If-Unmodified-Since: x"] {
        check("identity gzip", &format!("Accept-Encoding: gzip | {line}"), "own");
    }
    check("identity gzip", "Accept-Encoding: gzip | If-None-Match: \"a\"", "gzip");
    check("identity gzip", "Accept-Encoding: gzip, identity;q=0 | Range: bytes=0-9", "gzip");
    check("gzip", "Accept-Encoding: br | Range: bytes=0-9", "identity? +identity");
}

#[test]
fn the_origin_is_asked_in_one_spelling() {
    #[track_caller]
    fn check(request: &str, stored: Option<Coding>, expect: &str) {
        assert_eq!(expect, with(request, |it| accept_encoding(it, stored)), "{request}");
    }
    check("", None, "identity");
    check("Accept-Encoding: *", None, "identity");
    check("Accept-Encoding: deflate", None, "identity");
    check("Accept-Encoding: zstd, GZIP;q=0.3, br;q=0", None, "gzip, zstd");
    check("Accept-Encoding: gzip, deflate, br, zstd", None, "gzip, br, zstd");
    check("Accept-Encoding: br, gzip", Some(Coding::Gzip), "gzip");
    check("Accept-Encoding: br, gzip", Some(Coding::Identity), "identity");
    check("Accept-Encoding: br", Some(Coding::Gzip), "br");
    check("Accept-Encoding: br, identity;q=0", Some(Coding::Identity), "br");
}

#[test]
fn the_fields_of_a_form() {
    let stored =
        "Content-Type: text/html | ETag: \"a\" | Accept-Ranges: bytes | Repr-Digest: x | Vary: Cookie";
    let fields = with(stored, |it| form_fields(&FieldList::from_fields(it), Coding::Brotli));
    let lines: Vec<_> = fields.iter().map(|it| (it.name, std::str::from_utf8(it.value).unwrap())).collect();
    let expect =
        [("Content-Type", "text/html"), ("ETag", "W/\"a\""), ("Vary", "Cookie"), ("Content-Encoding", "br")];
    assert_eq!(expect, &lines[..]);
    let fields = with("ETag: W/\"a\" | Content-Encoding: gzip", |it| {
        form_fields(&FieldList::from_fields(it), Coding::Identity)
    });
    assert_eq!((1, Some(&b"W/\"a\""[..])), (fields.len(), fields.get("etag")));
    assert_eq!(Some(&b"W/\"a\""[..]), meta("e:\"a\"").of_form().etag.as_deref());
}

#[test]
fn vary_is_named_once() {
    #[track_caller]
    fn check(vary: &str, expect: &str) {
        let mut fields = with(vary, FieldList::from_fields);
        mark(&mut fields);
        let lines: Vec<_> = fields.get_all("vary").map(|it| std::str::from_utf8(it).unwrap()).collect();
        assert_eq!(expect, lines.join(" | "));
    }
    check("", "Accept-Encoding");
    check("Vary: Cookie", "Cookie | Accept-Encoding");
    check("Vary: Cookie, accept-encoding", "Cookie, accept-encoding");
    check("Vary: *", "*");
}

#[test]
fn responses_that_may_have_been_sent_in_several_codings() {
    #[track_caller]
    fn check(vary: &str, names: &[&str], expect: bool) {
        let mut meta = meta("e:\"a\"");
        meta.set_vary(names.iter().map(|it| (*it).into()).collect());
        let fields = with(vary, FieldList::from_fields);
        assert_eq!(expect, meta.is_negotiated(&fields), "{vary}, {names:?}");
    }
    check("", &[], false);
    check("Vary: Cookie", &["cookie"], false);
    check("Vary: Cookie, ACCEPT-Encoding", &["cookie"], true);
    check("Vary: Accept-Encoding", &[], true);
    check("Vary: Accept-Encoding", &["accept-encoding"], false);
}

#[test]
fn a_date_tells_no_forms_apart() {
    assert!(with("If-Range: \"a\"", ranges_by_tag_alone));
    assert!(with("Range: bytes=0-", ranges_by_tag_alone));
    assert!(!with("If-Range: Sun, 06 Nov 1994 08:49:37 GMT", ranges_by_tag_alone));
}

proptest! {
    /// Whatever is accepted, what is served is there, or is waited for and being made.
    #[test]
    fn every_served_coding_is_acceptable(
        accept in "[a-z*;=0-9., ]{0,40}|gzip, (br|zstd), identity;q=0",
        own in prop::sample::select(vec!["identity", "gzip", "br", "zstd"]),
        made in 0u8..16,
        refused in 0u8..16,
    ) {
        let head = format!("Content-Type: text/html | Content-Encoding: {own}");
        let plan = with(&head, |it| plan(200, it, None, &policy())).unwrap();
        let accepted = with(&format!("Accept-Encoding: {accept}"), AcceptedCodings::read);
        let made = Codings::from_bits(made);
        let choice = choose(plan, made, Codings::from_bits(refused), accepted, false);
        match choice.serve {
            Serve::Own => prop_assert!(accepted.quality(plan.own) > 0),
            Serve::Made(it) => prop_assert!(made.has(it) && accepted.quality(it) > 0),
            Serve::Wait(it) => prop_assert!(choice.make == Some(it) && accepted.quality(it) > 0),
            Serve::Unsuitable => prop_assert_eq!(None, choice.make),
        }
    }
}

/// `response` is lines of fields; `expect` is the coding, `plain` where other clients get one, or empty.
#[track_caller]
fn check_transit(status: u16, response: &str, length: Option<u64>, request: &str, expect: &str) {
    let policy = policy();
    let form = with(response, |outcome| {
        with(request, |asked| {
            in_transit(status, outcome, length, &RequestFacts::read("GET", asked), asked, &policy)
        })
    });
    let text = match form {
        TransitForm::Own => "",
        TransitForm::OwnOfSeveral => "plain",
        TransitForm::Coded(coding) => token(coding).unwrap(),
    };
    assert_eq!(expect, text, "{response} for {request}");
}

#[test]
fn responses_that_are_encoded_in_transit() {
    const HTML: &str = "Content-Type: text/html";
    const ANY: &str = "Accept-Encoding: gzip, br, zstd";
    let check = |response: &str, request: &str, expect: &str| {
        check_transit(200, response, Some(5000), request, expect);
    };
    check(HTML, ANY, "zstd");
    check(HTML, "Accept-Encoding: gzip", "gzip");
    check(HTML, "Accept-Encoding: gzip, br;q=0.9", "gzip");
    check(HTML, "Accept-Encoding: br, identity;q=0", "br");
    for request in [
        "",
        "Accept-Encoding: *",
        "Accept-Encoding: identity",
        "Accept-Encoding: gzip;q=0",
        "Accept-Encoding: dcb",
    ] {
        check(HTML, request, "plain");
    }
    for more in ["Range: bytes=0-1", "If-Match: \"a\"", "If-Range: \"a\"", "Cache-Control: no-transform"] {
        check(HTML, &format!("{ANY} | {more}"), "plain");
    }
    check(HTML, &format!("{ANY} | If-None-Match: \"a\""), "zstd");
    for response in [
        "Content-Type: image/png",
        "Content-Type: text/event-stream",
        "Content-Type: Text/Event-Stream; charset=utf-8",
        "Content-Type: text/html | Content-Encoding: gzip",
        "Content-Type: text/html | Content-Encoding: unknown",
        "Content-Type: text/html | Cache-Control: private, no-transform",
        "Content-Type: text/html | Content-Range: bytes 0-1/2",
        "",
    ] {
        check(response, ANY, "");
    }
    for (status, expect) in [(404, "zstd"), (500, "zstd"), (204, ""), (206, ""), (304, "plain")] {
        check_transit(status, HTML, Some(5000), ANY, expect);
    }
    for (length, expect) in [(None, "zstd"), (Some(1024), "zstd"), (Some(1023), ""), (Some(9 << 20), "")] {
        check_transit(200, HTML, length, ANY, expect);
    }
}

#[test]
fn no_response_is_encoded_in_transit_without_the_key() {
    let (mut policy, off) = (policy(), Policy::default());
    let compress = policy.compress.as_deref().cloned().unwrap();
    policy.compress = Some(Arc::new(Compress { uncached: false, ..compress }));
    for policy in [policy, off] {
        with("Content-Type: text/html", |text| {
            with("Accept-Encoding: gzip", |asked| {
                let facts = RequestFacts::read("GET", asked);
                assert_eq!(TransitForm::Own, in_transit(200, text, None, &facts, asked, &policy));
            });
        });
    }
}
