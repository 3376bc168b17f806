//! Signed URLs that were changed in any way are refused.

use super::*;
use proptest::prelude::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const OTHER: &[u8] = b"another secret, which is as long";
const NOW: u64 = 1_800_000_000;

fn names() -> SignedNames {
    SignedNames::after("")
}

fn signed(target: &str, options: &SignOptions<'_>) -> String {
    sign("www.example.com", target, &names(), SECRET, options).unwrap()
}

/// An hour from now.
fn hour() -> SignOptions<'static> {
    SignOptions { expires: NOW + 3600, ..SignOptions::default() }
}

fn request(target: &str) -> SignedRequest<'_> {
    let client = Some("192.0.2.7".parse().unwrap());
    SignedRequest { method: "GET", host: "WWW.example.com", target, client }
}

fn check(target: &str) -> Result<(), SignedFault> {
    verify(&request(target), &names(), &[OTHER, SECRET], NOW)
}

#[test]
fn a_page() {
    for target in ["/a", "/", "/a/b.mp4", "/a?b=c", "/a?b=c&d", "/h%C3%A4/%20%3F", "/a;b", "/a?x=/../&y=%2e"]
    {
        let signed = signed(target, &hour());
        assert_eq!(Ok(()), check(&signed), "{signed}");
        let expect = target.to_owned();
        assert_eq!(Some(expect), stripped(&signed, &names()));
        let at = |now| verify(&request(&signed), &names(), &[SECRET], now);
        assert_eq!([Ok(()), Err(SignedFault::Expired)], [NOW + 3599, NOW + 3600].map(at));
        let host = SignedRequest { host: "example.com", ..request(&signed) };
        assert_eq!(Err(SignedFault::Signature), verify(&host, &names(), &[SECRET], NOW));
        assert_eq!(Err(SignedFault::Signature), verify(&request(&signed), &names(), &[OTHER], NOW));
        for (method, expect) in
            [("HEAD", Ok(())), ("POST", Err(SignedFault::Method)), ("get", Err(SignedFault::Method))]
        {
            let by = SignedRequest { method, ..request(&signed) };
            assert_eq!(expect, verify(&by, &names(), &[SECRET], NOW), "{method}");
        }
    }
    // The escapes of a character that needs one have two spellings, and one meaning.
    let lower = signed("/h%C3%A4", &hour()).replace("%C3%A4", "%c3%a4");
    assert_eq!(Ok(()), check(&lower));
}

#[test]
fn changes_of_a_page() {
    let it = signed("/a/b?c=d", &hour());
    let (signature, expires) = (it.rsplit_once('=').unwrap().1, NOW + 3600);
    assert_eq!(format!("/a/b?c=d&expires={expires}&signature={signature}"), it);
    let of =
        |path: &str, query: &str| check(&format!("{path}?{query}&expires={expires}&signature={signature}"));
    assert_eq!(Ok(()), of("/a/b", "c=d"));
    for path in ["/a/c", "/A/b", "/a/b/", "/a", "/", "/a/b%20"] {
        assert_eq!(Err(SignedFault::Signature), of(path, "c=d"), "{path}");
    }
    for path in [
        "/a/./b",
        "/x/../a/b",
        "//a/b",
        "/a//b",
        "/a/%62",
        "/a%2fb",
        "/%61/b",
        "/a\\b",
        "/a/b/.",
        "/a/%2e/b",
        "/a/b%00",
        "/a/b%",
    ] {
        assert_eq!(Err(SignedFault::Path), of(path, "c=d"), "{path}");
    }
    for query in ["", "c=e", "c=d&e", "C=d", "c=%64", "d=c", "c=d&c=d"] {
        assert_eq!(Err(SignedFault::Signature), of("/a/b", query), "{query}");
    }
    for more in [
        "expires=1",
        "signature=",
        "signature",
        "%65xpires=1",
        "signatur%65=x",
        "prefix=",
        "ip=",
        "ip",
        "prefix=/a",
    ] {
        assert_eq!(Err(SignedFault::Parameter), of("/a/b", &format!("c=d&{more}")), "{more}");
    }
    assert_eq!(Err(SignedFault::Signature), of("/a/b", "c=d&prefix=/a/"));
    assert_eq!(Err(SignedFault::Signature), of("/a/b", "c=d&ip=192.0.2.7"));
    assert_eq!(Err(SignedFault::Unsigned), check("/a/b?c=d&expires=1800003600"));
    assert_eq!(Err(SignedFault::Unsigned), check("/a/b"));
    let with =
        |expires: &str, signature: &str| check(&format!("/a/b?c=d&expires={expires}&signature={signature}"));
    assert_eq!(Err(SignedFault::Signature), with("1800003601", signature));
    for expires in
        ["", "+1800003600", "01800003600", "1800003600 ", "0x6b49d200", "-1", "99999999999999999999", "1e9"]
    {
        assert_eq!(Err(SignedFault::Parameter), with(expires, signature), "{expires}");
    }
    let changed: Vec<String> = vec![
        format!("{signature}="),
        signature[1..].to_owned(),
        format!("{}%41", &signature[..40]),
        format!("+{}", &signature[1..]),
        String::new(),
    ];
    for it in changed {
        assert_eq!(Err(SignedFault::Parameter), with("1800003600", &it), "{it}");
    }
}

#[test]
fn a_prefix() {
    let options = SignOptions { prefix: Some("/video/42/"), ..hour() };
    let it = signed("/video/42/index.m3u8", &options);
    let query = it.split_once('?').unwrap().1;
    let of = |path: &str| check(&format!("{path}?{query}"));
    for path in ["/video/42/index.m3u8", "/video/42/", "/video/42/a/b.ts", "/video/42/h%C3%A4"] {
        assert_eq!(Ok(()), of(path), "{path}");
    }
    assert_eq!(Ok(()), check(&format!("/video/42/a?t=1&{query}")));
    for path in [
        "/video/43/a",
        "/video/42",
        "/video/4",
        "/video/422/a",
        "/",
        "/VIDEO/42/a",
        "/video/42/..;/43/a",
        "/video/42/%252e%252e/43",
    ] {
        assert_eq!(Err(SignedFault::Outside), of(path), "{path}");
    }
    for path in [
        "/video/42/../43/a",
        "/video/42/%2e%2e/43/a",
        "/video/42/..%2f43/a",
        "/video/42//a",
        "/video/42/..\\43",
        "/video/42/%5c../43",
    ] {
        assert_eq!(Err(SignedFault::Path), of(path), "{path}");
    }
    for prefix in ["/video/", "/", "/video/42/a/"] {
        let wider = it.replace("prefix=/video/42/", &format!("prefix={prefix}"));
        let wider = wider.replace("index.m3u8", "a/index.m3u8");
        assert_eq!(Err(SignedFault::Signature), check(&wider), "{prefix}");
    }
    for prefix in ["", "/video/42", "video/42/", "/video/./42/", "/video/%34%32/", "/a/../video/42/"] {
        let other = it.replace("prefix=/video/42/", &format!("prefix={prefix}"));
        assert_eq!(Err(SignedFault::Parameter), check(&other), "{prefix}");
    }
    // A page is no prefix, and the other way about.
    let page = signed("/video/42/", &hour());
    assert_eq!(
        Err(SignedFault::Signature),
        check(&page.replace("&signature", "&prefix=/video/42/&signature"))
    );
    let prefix = signed("/video/42/", &options);
    assert_eq!(Err(SignedFault::Signature), check(&prefix.replace("&prefix=/video/42/", "")));
}

#[test]
fn a_client() {
    for (ip, inside, outside) in [
        ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("192.0.2.0/24", "::ffff:192.0.2.9", "192.0.3.1"),
        ("2001:db8::/32", "2001:db8:1::1", "192.0.2.7"),
    ] {
        let it = signed("/a", &SignOptions { ip: Some(ip), ..hour() });
        let from = |client: Option<&str>| {
            let client = client.map(|it| it.parse().unwrap());
            verify(&SignedRequest { client, ..request(&it) }, &names(), &[SECRET], NOW)
        };
        assert_eq!(Ok(()), from(Some(inside)), "{it}");
        assert_eq!([Err(SignedFault::Client); 2], [Some(outside), None].map(from), "{it}");
        let free = it.replace(&format!("&ip={ip}"), "");
        assert_eq!(Err(SignedFault::Signature), check(&free));
    }
    let it = signed("/a", &SignOptions { ip: Some("192.0.2.0/24"), ..hour() });
    assert_eq!(Err(SignedFault::Signature), check(&it.replace("/24", "/23")));
    for other in [
        "0.0.0.0/0",
        "192.0.2.0/8",
        "192.0.2.0/024",
        "192.0.2.7/24",
        "192.000.2.0/24",
        "192.0.2.0/24/24",
        "",
        "any",
    ] {
        let changed = check(&it.replace("192.0.2.0/24", other));
        assert!(matches!(changed, Err(SignedFault::Signature | SignedFault::Parameter)), "{other}");
    }
}

#[test]
fn names_have_a_beginning() {
    let names = SignedNames::after("x-");
    let it = sign("h", "/a?expires=7", &names, SECRET, &hour()).unwrap();
    assert!(it.starts_with("/a?expires=7&x-expires="), "{it}");
    let request = SignedRequest { host: "h", ..request(&it) };
    assert_eq!(Ok(()), verify(&request, &names, &[SECRET], NOW));
    assert_eq!(Some("/a?expires=7".to_owned()), stripped(&it, &names));
    assert_eq!(None, stripped("/a?expires=7", &names));
    assert_eq!(None, stripped("/a", &names));
}

#[test]
fn the_rest_of_a_target_stays_as_it_is() {
    for (target, expect) in [
        ("/a?expires=1", "/a"),
        ("/a?expires=1&b", "/a?b"),
        ("/a?&&b&signature=x&&", "/a?&&b&&"),
        ("/a?b=%20+&ip=1&c=?&prefix=/", "/a?b=%20+&c=?"),
    ] {
        assert_eq!(Some(expect.to_owned()), stripped(target, &names()), "{target}");
    }
}

#[test]
fn mistakes_of_a_signer() {
    let report = |target: &str, prefix, ip| {
        sign("h", target, &names(), SECRET, &SignOptions { prefix, ip, ..hour() }).unwrap_err()
    };
    assert_eq!("the URL has a parameter expires already; remove it", report("/a?b&expires=1", None, None));
    assert_eq!("the URL has a parameter signature already; remove it", report("/a?%73ignature", None, None));
    for path in ["/a/../b", "//", "/%61", "/a\\b"] {
        assert!(
            report(path, None, None).starts_with("the path of the URL is not in its only form"),
            "{path}"
        );
    }
    assert_eq!("the path of the URL is not beneath the prefix", report("/a", Some("/b/"), None));
    assert!(report("/a", Some("/a"), None).starts_with("the prefix is not a path"));
    assert!(report("/a", None, Some("192.0.2.7/24")).contains("in its usual form"));
}

/// The example of nginx's manual: `echo -n '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary | openssl base64`.
#[test]
fn the_form_of_nginx() {
    let names = SignedNames::of_nginx("");
    let text = SecureLinkText::parse("{expires}{path}{client} {secret}").unwrap();
    let it = "/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";
    let at = |target, client: &str, secret: &str, now| {
        let client = Some(client.parse().unwrap());
        text.verify(&SignedRequest { client, ..request(target) }, &names, &[OTHER, secret.as_bytes()], now)
    };
    assert_eq!(Ok(()), at(it, "127.0.0.1", "secret", NOW));
    assert_eq!(Ok(()), at(it, "127.0.0.1", "secret", 2_147_483_647));
    assert_eq!(Err(SignedFault::Expired), at(it, "127.0.0.1", "secret", 2_147_483_648));
    assert_eq!(Err(SignedFault::Signature), at(it, "127.0.0.2", "secret", NOW));
    assert_eq!(Err(SignedFault::Signature), at(it, "127.0.0.1", "Secret", NOW));
    for (target, expect) in [
        ("/s/link?expires=2147483647", SignedFault::Unsigned),
        ("/s/link?md5=_e4Nc3iduzkWRm01TBBNYw", SignedFault::Parameter),
        ("/s/link?md5=_e4Nc3iduzkWRm01TBBNYw==&expires=2147483647", SignedFault::Parameter),
        ("/s/link?md5=/e4Nc3iduzkWRm01TBBNYw&expires=2147483647", SignedFault::Parameter),
        ("/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647&expires=1", SignedFault::Parameter),
        ("/s/./link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647", SignedFault::Path),
        ("/s/other?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647", SignedFault::Signature),
    ] {
        assert_eq!(Err(expect), at(target, "127.0.0.1", "secret", NOW), "{target}");
    }
    assert_eq!(Some("/s/link".to_owned()), stripped(it, &names));
}

#[test]
fn texts_of_nginx() {
    for right in ["{expires}{path}{secret}", "{host}{secret}{path} {expires} {client}"] {
        assert!(SecureLinkText::parse(right).is_ok(), "{right}");
    }
    for (wrong, why) in [
        ("{expires}{path}", "{secret} is missing"),
        ("{path}{secret}", "{expires} is missing"),
        ("{expires}{secret}", "{path} is missing"),
        ("{uri}", "\"{uri}\" is not a variable of it"),
        ("{expires", "a \"{\" has no \"}\""),
        ("{expires}{path}{secret}}", "a \"}\" has no \"{\""),
    ] {
        assert_eq!(why, SecureLinkText::parse(wrong).unwrap_err(), "{wrong}");
    }
}

proptest! {
    /// Every change of a byte of a signed URL is refused, except the case of the digits of an escape.
    #[test]
    fn a_changed_url_is_refused(at in any::<prop::sample::Index>(), byte in b'!'..=b'~') {
        let it = signed("/a/b?c=d", &SignOptions { ip: Some("192.0.2.0/24"), prefix: None, ..hour() });
        let at = at.index(it.len());
        let mut changed = it.clone().into_bytes();
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        let changed = String::from_utf8(changed).unwrap();
        prop_assert!(check(&changed).is_err(), "{}", changed);
    }

    /// No path that is refused by none of the rules leaves the prefix in any reading.
    #[test]
    fn no_reading_leaves_a_prefix(rest in "[a.%2fFeE5cC;/\\\\]{0,12}") {
        let options = SignOptions { prefix: Some("/v/4/"), ..hour() };
        let query = signed("/v/4/", &options).split_once('?').unwrap().1.to_owned();
        let path = format!("/v/4/{rest}");
        if check(&format!("{path}?{query}")).is_ok() {
            prop_assert!(path::holds_for_all(path.as_bytes(), &mut Vec::new(), |it, _| it.starts_with(b"/v/4/")), "{}", path);
        }
    }
}
