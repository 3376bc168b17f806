use super::*;
use proptest::prelude::*;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|it| (*it).to_owned()).collect()
}

fn write(recipe: &KeyRecipe, target: &str, fields: &[(&str, &str)]) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
    let mut out = Vec::new();
    recipe.write("https", "example.com", target, &fields, &mut out);
    String::from_utf8(out).unwrap()
}

/// `expect` is what follows `https://example.com`.
#[track_caller]
fn check(recipe: &KeyRecipe, target: &str, fields: &[(&str, &str)], expect: &str) {
    assert_eq!(format!("https://example.com{expect}"), write(recipe, target, fields));
}

#[test]
fn the_default_is_the_exact_target() {
    let it = KeyRecipe::default();
    check(&it, "/", &[("cookie", "a=b")], "/");
    check(&it, "/a/../b//?&&b=1&a=%7e#", &[], "/a/../b//?&&b=1&a=%7e#");
    check(&it, "/a b\\", &[], r"/a\20b\5c");
    check(&it, "*", &[], " *");
}

#[test]
fn authorities_cannot_reach_into_the_path() {
    let it = KeyRecipe::default();
    let key = |authority: &str, target: &str| {
        let mut out = Vec::new();
        it.write("http", authority, target, &[], &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(r"http://a\2fb/c", key("a/b", "/c"));
    assert_ne!(key("a", "/b/c"), key("a/b", "/c"));
    assert_ne!(key("a*", "/"), key("a", "*/"));
    let of_site = |site: &str, authority: &str| {
        let it = KeyRecipe { any_host_of: Some(site.to_owned()), ..KeyRecipe::default() };
        let mut out = Vec::new();
        it.write("http", authority, "/", &[], &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(("http://*/", "http://*b.c/"), (&*of_site("", "a"), &*of_site("b.c", "a")));
    assert_ne!("http://*/", key("*", "/"));
    assert_ne!("http://*b.c/", key("*b.c", "/"));
    assert_ne!(of_site("b/c", "a"), of_site("b", "c"));
}

#[test]
fn queries() {
    let none = KeyRecipe { query: QueryPolicy::None, ..KeyRecipe::default() };
    check(&none, "/p?a=1&b", &[], "/p");
    check(&none, "/p", &[], "/p");

    let drop = KeyRecipe { query: QueryPolicy::Drop(names(&["utm_*", "gclid"])), ..KeyRecipe::default() };
    check(&drop, "/p?utm_source=x&b=1&gclid=7&a=2&", &[], "/p?b=1&a=2");
    check(&drop, "/p?utm_source=x&utm_", &[], "/p");
    check(&drop, "/p?ut%6d_x=1&gcli%64&xgclid&gclid2&utm", &[], "/p?xgclid&gclid2&utm");
    check(&drop, "/p?", &[], "/p");
    check(&drop, "/p?a=1?gclid=1", &[], "/p?a=1?gclid=1");

    let keep = KeyRecipe { query: QueryPolicy::Keep(names(&["id", "p[*", "a b"])), ..KeyRecipe::default() };
    check(&keep, "/p?x=1&id=3&p[1]=2&ID=4", &[], "/p?id=3&p[1]=2");
    check(&keep, "/p?i%64=5&a+b=1&a%20b=2&%zz=1&id%", &[], "/p?i%64=5&a+b=1&a%20b=2");
    check(&keep, "/p?idx=5&", &[], "/p");
    check(
        &KeyRecipe { query: QueryPolicy::Keep(names(&["*"])), ..KeyRecipe::default() },
        "/p?a&b",
        &[],
        "/p?a&b",
    );

    let sort = KeyRecipe { sort_query: true, ..KeyRecipe::default() };
    check(&sort, "/p?b=1&a=2&a=1&c", &[], "/p?a=2&a=1&b=1&c");
    check(&sort, "/p?b&%61=2&a=1", &[], "/p?%61=2&a=1&b");
    check(&sort, "/p?%", &[], "/p?%");
}

#[test]
fn headers_and_cookies() {
    let it = KeyRecipe { headers: names(&["x-device", "accept-language"]), ..KeyRecipe::default() };
    check(&it, "/", &[], "/ h:x-device h:accept-language");
    check(&it, "/", &[("X-Device", "")], "/ h:x-device= h:accept-language");
    check(&it, "/", &[("x-device", "a b"), ("x-device", "c")], r"/ h:x-device=a\20b,c h:accept-language");
    check(
        &it,
        "/",
        &[("x-device", "p h:accept-language=de")],
        r"/ h:x-device=p\20h:accept-language=de h:accept-language",
    );
    check(&it, "/", &[("Accept-Language", "en;q=0.50, DE")], "/ h:x-device h:accept-language=de,en;q=0.5");

    let it = KeyRecipe { cookies: names(&["cur", "ab*", "abc"]), ..KeyRecipe::default() };
    check(&it, "/", &[], "/");
    check(&it, "/", &[("Cookie", "x=1;cur=EUR ; curry=2; ;Cur=3")], "/ c:cur=EUR");
    check(&it, "/", &[("Cookie", "abc=1; cur; ab=2"), ("cookie", "cur=")], "/ c:cur c:cur= c:abc=1 c:ab=2");
    check(&it, "/", &[("Cookie", "cur=E c:abc=1")], r"/ c:cur=E\20c:abc=1");
}

#[test]
fn authorities() {
    for (scheme, host, expect) in [
        ("http", "Example.COM", "example.com"),
        ("http", "a:80", "a"),
        ("https", "a:443", "a"),
        ("http", "a:443", "a:443"),
        ("https", "a:80", "a:80"),
        ("http", "a:", "a"),
        ("http", "a:0080", "a"),
        ("http", "a:08080", "a:8080"),
        ("http", "[::1]", "[::1]"),
        ("http", "[::FF]:80", "[::ff]"),
        ("http", "[::1]:81", "[::1]:81"),
        ("http", "a:0", "a:0"),
        ("http", "[::80]", "[::80]"),
        ("http", "a:b", "a:b"),
        ("http", "", ""),
    ] {
        let mut out = String::new();
        authority(scheme, host, &mut out);
        assert_eq!(expect, out, "{scheme} {host}");
    }
}

#[test]
fn a_recipe_is_a_sentence() {
    let mut it = KeyRecipe::default();
    assert_eq!("The key is the scheme, the host and the target with its whole query.", it.describe());
    it.query = QueryPolicy::Drop(names(&["utm_*", "gclid"]));
    it.sort_query = true;
    it.headers = names(&["x-device"]);
    it.cookies = names(&["currency", "lang"]);
    it.any_host_of = Some("s".to_owned());
    assert_eq!(
        "The key is the scheme, the site for any of its hosts and the target with its query except utm_*, gclid, the parameters \
         sorted by name; and the header x-device; and the cookies currency, lang.",
        it.describe()
    );
}

#[test]
fn the_default_recipe_does_not_allocate() {
    let fields = [Field { name: "accept", value: b"*/*" }];
    let mut out = Vec::with_capacity(64);
    let before = out.as_ptr();
    KeyRecipe::default().write("https", "example.com", "/a?b=c", &fields, &mut out);
    assert_eq!((before, 64), (out.as_ptr(), out.capacity()));
}

/// A request of few letters, so that equal and nearly equal ones are often drawn.
type Request = (String, String, Vec<(&'static str, String)>);

fn request() -> impl Strategy<Value = Request> {
    let field = prop_oneof![
        "[ab ,=\\\\:h\n]{0,4}".prop_map(|it| ("x", it)),
        "[ab ,=\\\\:h\n]{0,4}".prop_map(|it| ("y", it)),
        "([ac]b?=?[ab \\\\]?;? ?){0,3}".prop_map(|it| ("cookie", it)),
    ];
    ("[a/*:]{0,2}", "/?[a/ \\\\]?(\\?([ab%61+]{1,3}=?[a ]?&?){0,3})?", proptest::collection::vec(field, 0..3))
}

fn recipe() -> impl Strategy<Value = KeyRecipe> {
    let some = || proptest::sample::subsequence(vec!["a", "b*", "aa"], 0..=3);
    let query = prop_oneof![
        Just(QueryPolicy::All),
        Just(QueryPolicy::None),
        some().prop_map(|it| QueryPolicy::Drop(names(&it))),
        some().prop_map(|it| QueryPolicy::Keep(names(&it))),
    ];
    let headers = proptest::sample::subsequence(vec!["x", "y"], 0..=2);
    let cookies = proptest::sample::subsequence(vec!["a*", "ab", "c"], 0..=3);
    let site = proptest::option::of(prop_oneof![Just(String::new()), Just("s".to_owned())]);
    (query, any::<bool>(), headers, cookies, site).prop_map(
        |(query, sort_query, headers, cookies, any_host_of)| KeyRecipe {
            condition: None,
            query,
            sort_query,
            headers: names(&headers),
            cookies: names(&cookies),
            any_host_of,
            accept: crate::accept::MediaTypeOffers::default(),
            languages: crate::language::LanguageOffers::default(),
            bodies: false,
            strict: false,
        },
    )
}

/// The recipe's values of a request, not as text: the oracle of the law below.
fn projection(recipe: &KeyRecipe, (authority, target, fields): &Request) -> impl PartialEq + std::fmt::Debug {
    let decode = |it: &str| {
        let name = it.split('=').next().unwrap().replace('+', " ");
        name.replace("%61", "a").replace("%16", "\x16").replace("%11", "\x11").replace("%66", "f")
    };
    let is = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    let target = if recipe.query == QueryPolicy::All && !recipe.sort_query {
        vec![target.clone()]
    } else {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut kept: Vec<_> = query.split('&').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        match &recipe.query {
            QueryPolicy::All => {}
            QueryPolicy::None => kept.clear(),
            QueryPolicy::Drop(list) => kept.retain(|it| !list.iter().any(|name| is(name, &decode(it)))),
            QueryPolicy::Keep(list) => kept.retain(|it| list.iter().any(|name| is(name, &decode(it)))),
        }
        if recipe.sort_query {
            kept.sort_by_key(|it| decode(it));
        }
        kept.insert(0, path.to_owned());
        kept
    };
    let tidy = |it: &str| {
        let parts: Vec<_> = it.split(',').map(|it| it.trim_matches(' ')).collect();
        parts.join(",")
    };
    let headers: Vec<_> = recipe
        .headers
        .iter()
        .map(|name| {
            let lines: Vec<_> = fields.iter().filter(|it| it.0 == name).map(|it| it.1.as_str()).collect();
            (!lines.is_empty()).then(|| tidy(&lines.join(",")))
        })
        .collect();
    let mut sent: Vec<_> = fields
        .iter()
        .filter(|it| it.0 == "cookie")
        .flat_map(|it| it.1.split(';'))
        .map(|it| it.trim_matches(' '))
        .filter(|it| !it.is_empty())
        .map(|it| match it.split_once('=') {
            Some((name, value)) => (name.trim_matches(' '), Some(value.trim_matches(' '))),
            None => (it, None),
        })
        .collect();
    let cookies: Vec<Vec<_>> = recipe
        .cookies
        .iter()
        .map(|pattern| {
            let (own, rest) = sent.iter().partition(|it| is(pattern, it.0));
            sent = rest;
            let own: Vec<(&str, Option<&str>)> = own;
            own.into_iter().map(|it| (it.0.to_owned(), it.1.map(str::to_owned))).collect()
        })
        .collect();
    (recipe.any_host_of.is_none().then(|| authority.clone()), target, headers, cookies)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn two_requests_share_a_key_if_and_only_if_the_recipe_is_equal_for_both(
        recipe in recipe(), a in request(), b in request()
    ) {
        let key = |(authority, target, fields): &Request| {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
            let mut out = Vec::new();
            recipe.write("http", authority, target, &fields, &mut out);
            out
        };
        let same = projection(&recipe, &a) == projection(&recipe, &b);
        prop_assert_eq!(same, key(&a) == key(&b), "{:?} {:?}", projection(&recipe, &a), projection(&recipe, &b));
    }

    #[test]
    fn escaping_is_injective(a in "[a\\\\ 0-9]{0,5}", b in "[a\\\\ 0-9]{0,5}") {
        let escaped = |text: &str| {
            let mut out = Vec::new();
            escape(text.as_bytes(), |_| false, &mut out);
            out
        };
        prop_assert_eq!(a == b, escaped(&a) == escaped(&b));
        prop_assert!(!escaped(&a).contains(&b' '));
    }

    #[test]
    fn never_panics(target in ".{0,30}", value in proptest::collection::vec(any::<u8>(), 0..40)) {
        let recipe = KeyRecipe {
            condition: Some("0123456789abcdef".to_owned()),
            query: QueryPolicy::Drop(names(&["a*"])),
            sort_query: true,
            headers: names(&["accept-encoding", "x"]),
            cookies: names(&["*"]),
            any_host_of: None,
            accept: crate::accept::MediaTypeOffers::default(),
            languages: crate::language::LanguageOffers::default(),
            bodies: false,
            strict: false,
        };
        let field = |name| Field { name, value: &value[..] };
        let fields = [field("Accept-Encoding"), field("X"), field("Cookie")];
        recipe.write("http", &target, &target, &fields, &mut Vec::new());
        authority("http", &target, &mut String::new());
    }
}
