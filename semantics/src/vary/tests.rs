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
    check(name, &["br, gzip, dcb"], "=br,dcb,gzip");
    check(name, &["*"], "=*");
    check(name, &["gzip;q=1.0, gzip, x-gzip; Q=1"], "=gzip");
    check(name, &["X-Compress, x-other"], "=compress,x-other");
    check(name, &["gzip ; q=0.500 , *;q=0"], "=*;q=0,gzip;q=0.5");
    check(name, &["identity;q=0.000, br;q=0.05"], "=br;q=0.05,identity;q=0");
    check(name, &["br;q=0.001, gzip;q=0.123"], "=br,gzip");
    // What cannot be understood equals only itself.
    check(name, &["gzip;q=2 , br"], "=gzip;q=2,br");
    check(name, &["gzip, gzip;q=0.5"], "=gzip,gzip;q=0.5");
    check(name, &["gzip;level=9, br"], "=gzip;level=9,br");
    let many: Vec<_> = (0..=MAX_MEMBERS).rev().map(|it| format!("x{it:02}")).collect();
    check(name, &[&many.join(", ")], &format!("={}", many.join(",")));
}

#[test]
fn known_encodings_are_what_sorting_gives() {
    for (value, normal) in KNOWN_ENCODINGS {
        let read = Preferences::read([value].into_iter(), Alias::Codings).unwrap();
        assert_eq!(Some(normal), read.usual());
        let value = std::str::from_utf8(value).unwrap();
        check("accept-encoding", &[value], &format!("={}", normal.key()));
    }
    check("accept-encoding", &["gzip", "br"], "=br,gzip");
}

/// What the origin is sent has the variant of what was sent to larder.
#[test]
fn origins_are_sent_what_the_variant_says() {
    let sent = |value: &str| {
        let field = Field { name: "Accept-Encoding", value: value.as_bytes() };
        normal_encodings(&[field])
    };
    for value in
        ["gzip, deflate, br, zstd", "br;q=0.1,gzip", "deflate", "", "x-gzip", "zstd, br;q=0", "identity"]
    {
        let normal = sent(value).unwrap();
        assert_eq!(encoding_key(&[value.to_owned()]), encoding_key(&[normal.to_owned()]), "{value}");
    }
    assert_eq!(Some("gzip, br, zstd"), sent("zstd;q=0.9, br, deflate, gzip;q=0.001"));
    for value in ["*", "br, dcb", "identity;q=0, gzip", "gzip;q=9", "gzip, gzip;q=0.5"] {
        assert_eq!(None, sent(value), "{value}");
    }
    assert_eq!(None, normal_encodings(&[]));
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
            let mut list = list.to_vec();
            let refuses_plain = list.contains(&("identity", 0));
            if !refuses_plain && list.iter().all(|it| !["*", "x-a"].contains(&it.0)) {
                // In its normal form: what is accepted.
                list.retain(|it| it.1 > 0 && !["identity", "deflate"].contains(&it.0));
                list.iter_mut().for_each(|it| it.1 = 1000);
                list.push(("normal", 0));
            }
            list.sort_unstable();
            list
        };
        let same = set(&a) == set(&b);
        prop_assert_eq!(same, encoding_key(&spell(&a, style)) == encoding_key(&spell(&b, style)));
    }

    /// A normal form of what was understood is never the text of what was not.
    #[test]
    fn equal_keys_have_equal_meaning(
        a in "(gzip|br|x-gzip|,| |;q=0.5|;q=1|;q=9){0,5}", b in "(gzip|br|x-gzip|,| |;q=0.5|;q=1|;q=9){0,5}"
    ) {
        let read = |text: &str| {
            let mut parsed: Vec<_> = field::members(text.as_bytes())
                .map(|it| coding::weighted(it).map(|(name, quality)| {
                    (if name == b"x-gzip" { b"gzip".to_vec() } else { name.to_vec() }, quality)
                }))
                .collect();
            parsed.sort_unstable();
            parsed.dedup();
            // Of what has a normal form: which are accepted.
            let mut names: Vec<_> = parsed.iter().flatten().map(|it| it.0.clone()).collect();
            names.dedup();
            if parsed.iter().all(Option::is_some) && names.len() == parsed.len() {
                parsed.retain(|it| it.as_ref().is_some_and(|it| it.1 > 0));
                parsed.iter_mut().flatten().for_each(|it| it.1 = 1000);
            }
            parsed
        };
        if encoding_key(std::slice::from_ref(&a)) == encoding_key(std::slice::from_ref(&b)) {
            prop_assert_eq!(read(&a), read(&b));
        }
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
