use super::*;
use proptest::prelude::*;

#[track_caller]
fn check_names(lines: &[&str], expect: Option<&[&str]>) {
    let fields: Vec<_> = lines.iter().map(|it| Field { name: "Vary", value: it.as_bytes() }).collect();
    let got = names(&fields);
    let got: Option<Vec<&str>> = got.as_ref().map(|it| it.iter().map(|it| &**it).collect());
    assert_eq!(expect.map(<[_]>::to_vec), got, "{lines:?}");
}

#[test]
fn names_of_vary() {
    check_names(&[], Some(&[]));
    check_names(&[""], Some(&[]));
    check_names(&["Foo"], Some(&["foo"]));
    check_names(&["Foo, Bar", " ,foo ,\tBAZ"], Some(&["bar", "baz", "foo"]));
    check_names(&["*"], None);
    check_names(&["Foo", "Bar, *"], None);
    check_names(&["Foo Bar"], None);
    check_names(&["\"Foo\""], None);
    check_names(&["F\u{f6}\u{f6}"], None);
    let many: Vec<_> = (0..=MAX_NAMES).map(|it| format!("x-{it:02}")).collect();
    assert_eq!(None, names(&[Field { name: "vary", value: many.join(",").as_bytes() }]));
    let most = many[..MAX_NAMES].join(",");
    assert!(names(&[Field { name: "vary", value: most.as_bytes() }]).is_some());
}

#[test]
fn the_fields_that_tell_a_request_from_all_variants_are_shown_without_the_values_of_cookies() {
    let names: Vec<Box<str>> = vec!["accept-language".into(), "cookie".into(), "x-a".into()];
    let stored =
        key(&["accept-language", "cookie", "x-a"], &[("cookie", "b=s3cret; c=s3cret"), ("x-a", "1")]);
    let request = [Field { name: "X-A", value: b"1" }, Field { name: "Cookie", value: b"b=other" }];
    let words = in_words(&[(&names, stored.as_bytes())], &request);
    assert_eq!(Some("the cookies b and c"), words.as_deref());
    let words = in_words(&[(&names, stored.as_bytes())], &[Field { name: "Accept-Language", value: b"de" }]);
    assert_eq!(Some("the cookies b and c and the fields accept-language and x-a"), words.as_deref());
}

fn key(names: &[&str], fields: &[(&str, &str)]) -> String {
    let names: Vec<Box<str>> = names.iter().map(|it| (*it).into()).collect();
    let fields: Vec<_> = fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
    let mut out = Vec::new();
    write_key(&names, &fields, &mut out);
    String::from_utf8(out).unwrap()
}

#[track_caller]
fn check(name: &str, lines: &[&str], expect: &str) {
    let fields: Vec<_> = lines.iter().map(|it| (name, *it)).collect();
    assert_eq!(format!("{name}{expect}\n"), key(&[name], &fields), "{lines:?}");
}

#[test]
fn without_names_there_is_nothing() {
    assert_eq!("", key(&[], &[("foo", "1")]));
}

#[test]
fn any_field() {
    check("foo", &[], "");
    check("foo", &[""], "=");
    check("foo", &["1"], "=1");
    check("foo", &["1, 2"], "=1,2");
    check("foo", &["1\t ,  2"], "=1,2");
    check("foo", &["1", "2"], "=1,2");
    check("foo", &["2,1"], "=2,1");
    check("foo", &["A"], "=A");
    check("foo", &["a  b"], r"=a\20\20b");
    check("foo", &["a=\"1 , 2\" , b"], r#"=a="1\20,\202",b"#);
    check("foo", &["1,,2,"], "=1,,2,");
    check("foo", &["1\nbar=2"], r"=1\0abar=2");
    check("foo", &["\\0a"], r"=\5c0a");
    check("cookie", &["a=1, b", "c"], r"=a=1,\20b;\20c");
    assert_eq!("bar\nfoo=1\n", key(&["bar", "foo"], &[("Foo", "1"), ("baz", "3")]));
}

#[test]
fn accept_encoding() {
    let name = "accept-encoding";
    check(name, &[], "");
    check(name, &[""], "=identity");
    check(name, &["gzip"], "=gzip");
    check(name, &["gzip, deflate, br, zstd"], "=br,gzip,zstd");
    check(name, &["zstd", "BR,deflate , gzip"], "=br,gzip,zstd");
    check(name, &["deflate"], "=identity");
    check(name, &["gzip;q=0, br;q=0.1, identity;q=0.5"], "=br");
    check(name, &["gzip;q=1.0, gzip, x-gzip; Q=1"], "=gzip");
    // Other codings select nothing.
    check(name, &["br, gzip, dcb"], "=br,gzip");
    check(name, &["gzip, br, compress, sdch, foo, bar;q=0.3"], "=br,gzip");
    check(name, &["X-Compress, x-other"], "=identity");
    check(name, &["*"], "=br,gzip,zstd");
    check(name, &["br;q=0, *;q=0.1"], "=gzip,zstd");
    // The plain form is refused.
    check(name, &["*;q=0"], "=identity;q=0");
    check(name, &["gzip ; q=0.500 , *;q=0"], "=gzip,identity;q=0");
    check(name, &["*;q=0, identity"], "=identity");
    check(name, &["identity;q=0.000, br;q=0.05"], "=br,identity;q=0");
    // Malformed members select nothing.
    check(name, &["gzip;q=2 , br"], "=br");
    check(name, &["gzip, gzip;q=0.5"], "=gzip");
    check(name, &["gzip;level=9, br, a b, \"x, y\""], "=br");
}

#[test]
fn known_encodings_equal_the_parsed_ones() {
    for (value, normal) in KNOWN_ENCODINGS {
        assert_eq!(normal, Usual::of(&[Field { name: "accept-encoding", value }]));
    }
}

/// What the origin is sent has the variant of what was sent to larder, and there are no more than these.
#[test]
fn each_normal_form_is_its_own() {
    for (at, (asked, key)) in FORMS.into_iter().enumerate() {
        let field = Field { name: "Accept-Encoding", value: asked.as_bytes() };
        assert_eq!((Usual(at), Some(asked)), (Usual::of(&[field]), normal_encodings(&[field])));
        check("accept-encoding", &[asked], &format!("={key}"));
        check("accept-encoding", &[key], &format!("={key}"));
        let sorted = key.split(',').is_sorted();
        assert!(sorted && FORMS[..at].iter().all(|it| it.1 != key), "{key}");
    }
    assert_eq!(None, normal_encodings(&[]));
}

/// A client that names a coding of its own with each request neither fills a page's variants nor reaches the origin with it.
#[test]
fn invented_codings_make_no_variants() {
    let keys: std::collections::BTreeSet<_> =
        (0..60).map(|it| encoding_key(&[format!("gzip, x{it}, x{it};q=7")])).collect();
    assert_eq!(1, keys.len(), "{keys:?}");
    let sent = |value: &str| normal_encodings(&[Field { name: "Accept-Encoding", value: value.as_bytes() }]);
    assert_eq!(Some("gzip"), sent("gzip, x1"));
    assert_eq!(Some("gzip, br, zstd"), sent("zstd;q=0.9, br, deflate, gzip;q=0.001"));
}

#[test]
fn accept_language() {
    let name = "accept-language";
    check(name, &["en, de"], "=de,en");
    check(name, &["DE,EN"], "=de,en");
    check(name, &["en-GB;q=0.8, en-US, *;q=0.1"], "=*;q=0.1,en-gb;q=0.8,en-us");
    check(name, &["x-gzip"], "=x-gzip");
}

/// A list of different codings with qualities.
fn list() -> impl Strategy<Value = Vec<(&'static str, Quality)>> {
    let all = vec!["gzip", "br", "zstd", "deflate", "identity", "*", "x-a"];
    let quality = prop_oneof![Just(1000), Just(0), Just(500), 0..=1000u16];
    (proptest::sample::subsequence(all, 0..7), proptest::collection::vec(quality, 7))
        .prop_map(|(names, qualities)| names.into_iter().zip(qualities).collect())
}

/// One of the spellings of a list, spread over lines.
fn spell(list: &[(&str, Quality)], style: usize) -> Vec<String> {
    let member = |(at, (name, quality)): (usize, &(&str, Quality))| {
        let style = style / (at + 1);
        let name = if style.is_multiple_of(2) { name.to_uppercase() } else { (*name).to_owned() };
        match (quality, style % 3) {
            (1000, 0) => name,
            (1000, 1) => format!("{name};q=1"),
            (1000, _) => format!("{name} ; q=1.000"),
            (it, 0) => format!("{name};q=0.{it:03}"),
            (it, 1) => format!("{name}; Q={}", format!("0.{it:03}").trim_end_matches('0')),
            (it, _) => format!("\t{name} ;  q=0.{it:03} ,"),
        }
    };
    let members: Vec<_> = list.iter().enumerate().map(member).collect();
    if style.is_multiple_of(5) || members.is_empty() { vec![members.join(", ")] } else { members }
}

fn encoding_key(lines: &[String]) -> String {
    let fields: Vec<_> = lines.iter().map(|it| ("Accept-Encoding", it.as_str())).collect();
    key(&["accept-encoding"], &fields)
}

#[test]
fn two_variants_may_meet_if_the_fields_of_both_are_equal() {
    let of = |names: &[&str], fields: &[(&str, &str)]| {
        let key = key(names, fields).into_bytes();
        (names.iter().map(|it| Box::from(*it)).collect::<Vec<Box<str>>>(), key)
    };
    let request = [("a", "1"), ("b", "2")];
    let all = [of(&[], &request), of(&["a"], &request), of(&["b"], &request), of(&["a", "b"], &request)];
    let other = of(&["a"], &[("a", "2")]);
    for one in &all {
        for two in &all {
            assert!(may_meet((&one.0, &one.1), (&two.0, &two.1)), "{one:?} {two:?}");
        }
        let has_a = one.0.iter().any(|it| **it == *"a");
        assert_eq!(!has_a, may_meet((&one.0, &one.1), (&other.0, &other.1)), "{one:?}");
        assert_eq!(!has_a, may_meet((&other.0, &other.1), (&one.0, &one.1)), "{one:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn permutations_and_spellings_are_equal(
        (list, shuffled) in list().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        style in 0..200usize,
        other in 0..200usize,
    ) {
        prop_assert_eq!(encoding_key(&spell(&list, style)), encoding_key(&spell(&shuffled, other)));
    }

    #[test]
    fn different_sets_differ(a in list(), b in list(), style in 0..200usize) {
        let set = |list: &[(&'static str, Quality)]| {
            let of = |name: &str| list.iter().find(|it| it.0 == name).map(|it| it.1);
            let any = of("*");
            let mut accepted = ["gzip", "br", "zstd"].map(|it| of(it).or(any).unwrap_or(0) > 0).to_vec();
            accepted.push(of("identity").or(any).unwrap_or(1) > 0);
            accepted
        };
        let same = set(&a) == set(&b);
        prop_assert_eq!(same, encoding_key(&spell(&a, style)) == encoding_key(&spell(&b, style)));
    }

    /// Whatever is sent, a page has sixteen variants at most.
    #[test]
    fn variants_are_bounded(text in "(gzip|br|x-gzip|\\*|identity|sdch|,| |;q=0.5|;q=0|;q=9|\"){0,6}") {
        let key = encoding_key(std::slice::from_ref(&text));
        let key = key.strip_prefix("accept-encoding=").and_then(|it| it.strip_suffix('\n'));
        prop_assert!(FORMS.iter().any(|it| Some(it.1) == key), "{:?}", key);
    }

    #[test]
    fn no_value_reaches_into_another(a in "[ab=,\n\\\\ ]{0,4}", b in "[ab=,\n\\\\ ]{0,4}", c in "[ab=,\n\\\\ ]{0,4}") {
        let exact = |it: &str| it.split(',').map(|it| it.trim_matches(' ').to_owned()).collect::<Vec<_>>();
        let left = key(&["x", "y"], &[("x", &a), ("y", &b)]);
        let right = key(&["x", "y"], &[("x", &c), ("y", &b)]);
        prop_assert_eq!(exact(&a) == exact(&c), left == right);
        prop_assert_eq!(2, left.matches('\n').count());
    }

    #[test]
    fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..80)) {
        let field = |name| Field { name, value: &value[..] };
        let fields = [field("vary"), field("accept-encoding"), field("accept-language"), field("foo")];
        let _ = names(&fields);
        let all: Vec<Box<str>> = vec!["accept-encoding".into(), "accept-language".into(), "foo".into()];
        let mut out = Vec::new();
        write_key(&all, &fields, &mut out);
        prop_assert!(out.len() <= 3 * 3 * value.len() + 64);
        prop_assert_eq!(3, out.iter().filter(|it| **it == b'\n').count());
    }
}
