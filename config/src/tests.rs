//! Configuration files, and the errors and warnings about them.

mod access;
mod access_rules;
mod acme;
mod at_once;
mod blocks;
mod budget;
mod cgi;
mod conditions;
mod files;
mod foreign_words;
mod forward;
mod geo;
mod limits;
mod loops;
mod matching;
mod php;
mod privacy;
mod reading;
mod rewrite;
mod sites;
mod sql;
mod tiers;
mod unused;
mod vary;
mod words;

use super::*;
use larder_semantics::policy::StaleIfError;

/// Reads `text` as `t.toml` beneath this crate's directory.
fn read(text: &str) -> Result<Config, Rejected> {
    Config::from_text(text, "t.toml", Path::new(env!("CARGO_MANIFEST_DIR")), &[])
}

/// A sound site, to be put after what is tested.
const SITE: &str = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = { to = [\"http://127.0.0.1:8000\"] }\n";

#[track_caller]
fn refuse(text: &str, expect: &str) {
    let found = read(&format!("{text}\n{SITE}")).map(|_| ()).map_err(|it| it.to_string());
    assert_eq!(Err(expect.to_owned()), found, "{text}");
}

#[track_caller]
fn refuse_whole(text: &str, expect: &str) {
    let found = read(text).map(|_| ()).map_err(|it| it.to_string());
    assert_eq!(Err(expect.to_owned()), found, "{text}");
}

#[test]
fn the_example_of_the_design() {
    let text = r#"
listen = ["0.0.0.0:8080"]
workers = 2

[cache.ram]
size = "1GiB"

[cache]
stale_if_error = "1h"

[admin]
listen = "127.0.0.1:9180"

[[site]]
hosts = ["www.example.com"]

[[site.route]]
path = "/static/*"
files = { root = "src" }

[[site.route]]
path = "/*"
proxy = { to = ["http://127.0.0.1:8000"] }
cache = { default_ttl = "60s", stale_while_revalidate = "30s", private_cookies = ["session*"] }
"#;
    let config = read(text).unwrap();
    assert_eq!(1 << 30, config.ram.budget);
    assert_eq!(NonZeroUsize::new(2), config.workers);
    assert!(matches!(config.admin.listen, AdminListen::At(_)));
    let [site] = config.sites.as_slice() else { panic!("one site") };
    let [files, proxy] = site.routes.as_slice() else { panic!("two routes") };
    assert!(matches!(&files.service, Service::Files(it) if it.root.ends_with("config/src")));
    assert_eq!((Some(60), 30, StaleIfError::Set(3600)), {
        let it = &proxy.cache;
        (it.default_ttl, it.stale_while_revalidate, it.stale_if_error)
    });
    assert_eq!(vec!["session*".to_owned()], proxy.cache.private_cookies);
    assert_eq!("t.toml:24", proxy.decided.by("cache.default_ttl").to_string());
    assert_eq!("t.toml:9", proxy.decided.by("cache.stale_if_error").to_string());
    assert_eq!("default", files.decided.by("cache.default_ttl").to_string());
    assert_eq!("t.toml:6", config.decided.by("cache.ram.size").to_string());
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn defaults_are_the_policys() {
    let config = read(SITE).unwrap();
    assert_eq!(Policy::default(), config.sites[0].routes[0].cache);
    assert!(matches!(config.admin.listen, AdminListen::From(_)));
    assert_eq!(None, config.workers);
}

/// With the first form of both, `redirect_https` could not be tried.
#[test]
fn a_self_signed_certificate_is_for_every_address_unless_one_names_tls() {
    let listen = |addresses: &str| -> Vec<String> {
        let config = read(&format!("listen = {addresses}\ntls.self_signed = true\n{SITE}")).unwrap();
        config.listen.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        ["http://127.0.0.1:80", "https://127.0.0.1:443"],
        *listen("[\"127.0.0.1:80\", \"https://127.0.0.1:443\"]")
    );
    assert_eq!(["https://127.0.0.1:80"], *listen("\"127.0.0.1:80\""));
}

#[test]
fn routes_have_names() {
    let route = |rest: &str| format!("[[site.route]]\n{rest}\nproxy = {{ to = \":1\" }}\n");
    let text =
        |one: &str, two: &str| format!("[[site]]\nhosts = [\"a\", \"b\"]\n{}{}", route(one), route(two));
    let config = read(&text("path = \"/api/*\"\nname = \"api\"", "")).unwrap();
    let names: Vec<&str> = config.sites[0].routes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(["api", "a/*"], names[..]);
    let again = read(&text("when = 'method == \"GET\"'", "")).unwrap();
    let names: Vec<&str> = again.sites[0].routes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(["a/*", "a/*#2"], names[..], "statistics and logs tell them apart");
    let patterns =
        read(&text("path = \"*.php\"", "path = 'regex:/a.*'").replace("\"a\", ", "\"*.a\", ")).unwrap();
    let names: Vec<&str> = patterns.sites[0].routes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(["*.a *.php", "*.a regex:/a.*"], names[..], "host and pattern do not run together");
    let twice = text("path = \"/api/*\"\nname = \"api\"", "name = \"api\"");
    refuse_whole(
        &twice,
        "t.toml:8: site.route.name: duplicate route name \"api\"; first defined at t.toml:5",
    );
    let odd = text("name = \"a/b\"", "path = \"/x\"");
    refuse_whole(
        &odd,
        "t.toml:4: site.route.name: found \"a/b\"; allowed: a name of letters, digits, \"-\", \"_\" and \".\", 64 bytes at most",
    );
}

#[test]
fn unknown_keys_name_the_nearest() {
    refuse("lisen = 1", "t.toml:1: lisen: unknown key; did you mean `listen`?");
    refuse(
        "[cache]\ndefault_tll = \"1s\"",
        "t.toml:2: cache.default_tll: unknown key; did you mean `cache.default_ttl`?",
    );
    refuse("[limts]\nhead_size = 1", "t.toml:1: limts: unknown key; did you mean `limits`?");
    refuse("default_ttl = \"1s\"", "t.toml:1: default_ttl: unknown key here; move it to `cache.default_ttl`");
    refuse(
        "[admin]\ncolour = 1",
        "t.toml:2: admin.colour: unknown key; known here: enabled, listen, socket, token_file, tokens, audit, history, hosts, overlay_size, statistics",
    );
    refuse("[cache.disc]\npath = \"x\"", "t.toml:1: cache.disc: unknown key; did you mean `cache.disk`?");
    // A word of another server is explained, whatever key is similar to it.
    for (text, expect) in [
        (format!("{SITE}headers = [\"X-A\"]"), "t.toml:6: site.route.headers: unknown key; larder calls "),
        (
            "[cache]\ntimeout = \"1s\"".to_owned(),
            "t.toml:2: cache.timeout: unknown key; larder calls these `site.route.proxy.first_byte_timeout` (of a response of the origin) and `cache.collapse_wait` (for the request of another client for the page)",
        ),
        (
            format!("{SITE}root = \"src\""),
            "t.toml:6: site.route.root: unknown key; larder calls it `site.route.files.root`; for example files = { root = \"public\" }",
        ),
    ] {
        let found = read(&text).unwrap_err().to_string();
        assert!(found.starts_with(expect), "{found}");
        assert!(!found.contains("cache.key.headers"), "{found}");
    }
    let text = format!("{SITE}default_ttl = \"1s\"");
    refuse_whole(
        &text,
        "t.toml:6: site.route.default_ttl: unknown key here; move it to `site.route.cache.default_ttl`",
    );
}

#[test]
fn wrong_values_are_rejected_with_the_allowed_values() {
    refuse("workers = 0", "t.toml:1: workers: found 0; allowed: a whole number from 1 to 1024");
    refuse("workers = \"2\"", "t.toml:1: workers: found \"2\"; allowed: a whole number from 1 to 1024");
    refuse(
        "[limits]\nhead_timeout = 10",
        "t.toml:2: limits.head_timeout: found 10, which has no unit; write \"10s\"; allowed: a duration from \"100ms\" to \"1h\"",
    );
    refuse(
        "[cache.ram]\nsize = \"1 parsec\"",
        "t.toml:2: cache.ram.size: found \"1 parsec\"; allowed: a size from \"1MiB\" to \"64TiB\"",
    );
    refuse("[cache]\nenabled = \"yes\"", "t.toml:2: cache.enabled: found \"yes\"; allowed: true or false");
    refuse(
        "[log]\nformat = \"xml\"",
        "t.toml:2: log.format: found \"xml\"; allowed: \"combined\", \"common\", \"json\", or a template with fields in braces, such as \"{time} {status} {target} {header:X-Forwarded-For}\"",
    );
    refuse(
        "limits = 3",
        "t.toml:1: limits: expected a section, [limits]; found 3; write keys in it, such as limits.head_size = \"32KiB\"",
    );
    refuse(
        "listen = [80]",
        "t.toml:1: listen: found [80]; allowed: a list, each ADDR:PORT such as \"0.0.0.0:8080\", \"[::]:8080\" for every interface, \"https://ADDR:PORT\", or \"unix:/PATH\"; with a PROXY protocol header, \"http+proxy://ADDR:PORT\", \"https+proxy://ADDR:PORT\" or \"unix+proxy:/PATH\"",
    );
    refuse(
        "[cache]\nstatus_ttl = { 99 = \"1s\" }",
        "t.toml:2: cache.status_ttl.99: found 99 = \"1s\"; allowed: a status from 200 to 599, and a duration in whole seconds such as \"5m\", up to \"3650d\"",
    );
    // Every row is reported, at its place.
    refuse(
        "[[site]]\nhosts = \"rows.test\"\n[site.response_headers.set]\n\"X Y\" = \"a\"\n\"Y Z\" = \"b\"\n[[site.route]]\nproxy.to = \":1\"",
        "t.toml:4: site.response_headers.set.X Y: found the name \"X Y\"; allowed: the name of a header field\n\
         t.toml:5: site.response_headers.set.Y Z: found the name \"Y Z\"; allowed: the name of a header field",
    );
    refuse(
        "[cache]\nstatus_ttl = { 404 = 5 }",
        "t.toml:2: cache.status_ttl: found { 404 = 5 }; allowed: a table of statuses and durations up to \"3650d\", such as { 404 = \"10s\" }",
    );
    refuse(
        "[cache]\ndefault_ttl = \"1500ms\"",
        "t.toml:2: cache.default_ttl: found \"1500ms\"; allowed: a duration in whole seconds such as \"5m\", up to \"3650d\", or \"off\"",
    );
}

#[test]
fn all_errors_of_a_file_are_reported_together() {
    refuse(
        "lisen = 1\nworkers = 0",
        "t.toml:1: lisen: unknown key; did you mean `listen`?\n\
         t.toml:2: workers: found 0; allowed: a whole number from 1 to 1024",
    );
    refuse_whole("a = [", "t.toml:1: not TOML: unclosed array, expected `]`");
    let coming = |server: &str| {
        format!(
            "this is a configuration of {server}: the guide \"Coming from nginx, Caddy, HAProxy, lighttpd or Apache\" (coming-from.md) \
             has the keys of larder for its words"
        )
    };
    let not_toml = |text: &str, expect: &str| {
        let found = read(text).unwrap_err().to_string();
        assert!(found.contains(": not TOML: ") && found.ends_with(&format!("; {expect}")), "{found}");
    };
    not_toml("events {\n}\nserver {\n  listen 80;\n}\n", &coming("nginx"));
    not_toml("a.test {\n  bind 127.0.0.1\n  reverse_proxy 127.0.0.1:1\n}\n", &coming("Caddy"));
    not_toml("frontend f\n  bind :80\n", &coming("HAProxy"));
    not_toml("<VirtualHost *:80>\n", &coming("Apache"));
    not_toml("listen = [\":80\"];\n[[site]]\n", "remove the \";\" at the end of the line");
    not_toml(
        "[[site]]\n[[site.route]]\ncache = { enabled = true }\n[[site.route.cache.rule]]\npass = true\n",
        "a section in braces is complete: write the further keys within its braces",
    );
    not_toml(
        "path = \"regex:\\.php\"\n",
        "in double quotes a backslash begins an escape: write the value in single quotes",
    );
    refuse_whole("", "t.toml:1: no site is configured; add a [[site]] with hosts and a [[site.route]]");
}

#[test]
fn a_text_that_is_no_host_is_shown_as_one() {
    let hint = |host: &str| {
        let text = format!("[[site]]\nhosts = \"{host}\"\n[[site.route]]\nproxy.to = \":1\"\n");
        let found = read(&text).unwrap_err().to_string();
        found.split_once("or \"*\"").unwrap().1.to_owned()
    };
    assert_eq!("; write \"a.test\" in place of \"http://a.test\"", hint("http://a.test"));
    assert_eq!("; write \"a.test\" in place of \"a.test:80\"", hint("a.test:80"));
    let ascii = "; write a name with other letters in its ASCII form, which begins with \"xn--\"";
    assert_eq!(ascii, hint("m\u{fc}nchen.de"));
    assert_eq!("", hint("a_b?"));
}

#[test]
fn a_value_in_the_place_of_a_section_is_shown_within_it() {
    let text = |line: &str| format!("[[site]]\nhosts = \"a\"\n[[site.route]]\n{line}\n");
    let section = |name: &str, rest: &str| format!("t.toml:4: {name}: expected a section, [{name}]; {rest}");
    refuse_whole(
        &text("proxy = \"http://127.0.0.1:9000\""),
        &section("site.route.proxy", "found a value; write proxy = { to = \"http://127.0.0.1:9000\" }"),
    );
    refuse_whole(
        &text("respond = 404"),
        &section("site.route.respond", "found 404; write respond = { status = 404 }"),
    );
    let key = section("site.route.cache.key", "found \"$uri\"; write keys in it, such as cache.key.");
    let found = read(&text("cache.key = \"$uri\"\nproxy.to = \":1\"")).unwrap_err().to_string();
    assert!(found.starts_with(&key), "{found}");
}

#[test]
fn contradicting_and_incomplete_sections_are_rejected() {
    refuse_whole(
        "[[site]]\n[[site.route]]",
        "t.toml:1: site.hosts: the site has no hosts; add them, or set hosts = [\"*\"] for every host\nt.toml:2: site.route: the route has no service; add proxy = { to = [...] }, files = { root = \"...\" }, php = { root = \"...\", to = \"...\" }, cgi = { root = \"...\" }, redirect = { to = \"...\" }, respond = { body = \"...\" } or sql = { query = \"...\" }",
    );
    refuse_whole(
        &format!("{SITE}files = {{ root = \"src\" }}"),
        "t.toml:3: site.route: the route has both proxy and files; split it into two routes",
    );
    refuse_whole(
        &format!("{SITE}{SITE}"),
        "t.toml:7: site.hosts: duplicate host \"*\"; first defined at t.toml:2",
    );
    refuse_whole(
        "[[site]]\nhosts = \"a\"\n[[site.route]]\nfiles = { root = \"nowhere\" }",
        &format!(
            "t.toml:4: site.route.files.root: {}/nowhere: no such file or directory; use an existing directory",
            env!("CARGO_MANIFEST_DIR")
        ),
    );
    let route = |proxy: &str| format!("[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy = {{ {proxy} }}");
    refuse_whole(
        &route("to = [\"a:1\", \"http://a:1 weight=2\"]"),
        "t.toml:4: site.route.proxy.to: duplicate origin http://a:1; use weight=N for a larger share",
    );
    refuse_whole(
        &route("to = [\"a:1 weight=0\"]"),
        "t.toml:4: site.route.proxy.to: found [\"a:1 weight=0\"]; allowed: a weight from 1 to 1000, or \"drain\" for no requests",
    );
    refuse_whole(
        &route("to = [\"a:1 drain\", \"b:1 drain\"]"),
        "t.toml:4: site.route.proxy.to: every origin is drained; at least one must serve requests",
    );
    refuse_whole(
        &route("to = [\"a:1\"], balance = \"fair\""),
        "t.toml:4: site.route.proxy.balance: found \"fair\"; allowed: one of \"round_robin\", \"least_requests\", \
         \"power_of_two\", \"hash\", \"consistent_hash\"",
    );
    refuse_whole(
        &route("to = [\"a:1\"], tls = { verify = false }"),
        "t.toml:4: site.route.proxy.tls.verify: no origin of the route uses TLS; write \"https://HOST\" in proxy.to",
    );
    refuse_whole(
        &route("to = [\"https://a\"], tls = { ca = \"Cargo.toml\" }"),
        &format!(
            "t.toml:4: site.route.proxy.tls.ca: {}/Cargo.toml: not a certificate in PEM",
            env!("CARGO_MANIFEST_DIR")
        ),
    );
    refuse_whole(
        &route("to = [\"https://a\"], tls = { ca = \"none.pem\" }"),
        &format!(
            "t.toml:4: site.route.proxy.tls.ca: {}/none.pem: no such file or directory",
            env!("CARGO_MANIFEST_DIR")
        ),
    );
    refuse_whole(
        &route("to = [\"https://a\"], tls = { client_key = \"k\" }"),
        "t.toml:4: site.route.proxy.tls.client_key: no effect without client_cert; set that as well",
    );
    refuse_whole(
        &route("to = [\"a:1\"], hash_by = \"client\""),
        "t.toml:4: site.route.proxy.hash_by: balance does not use a hash; set balance = \"consistent_hash\" or \"hash\" as well",
    );
    refuse_whole(
        &format!("{SITE}cache.key = {{ keep = [\"a\"], drop = [\"b\"] }}"),
        "t.toml:6: cache.key: both keep and drop are set; keep alone already removes all other parameters",
    );
}

#[test]
fn a_route_never_reached_is_a_warning() {
    let text = format!("{SITE}[[site.route]]\npath = \"/a\"\nproxy = {{ to = \"a:1\" }}\n");
    let warnings = read(&text).unwrap().warnings;
    assert_eq!(
        "t.toml:6: site.route.path: \"/a\" never matches: \"/*\" at t.toml:3 matches first; move that route after this one",
        warnings[0].to_string()
    );
    let twin = "[[site.route]]\npath = \"/*\"\nproxy = { to = \"a:1\" }\n";
    assert_eq!(
        "t.toml:6: site.route.path: \"/*\" never matches: \"/*\" at t.toml:3 has the same requests; remove one of them",
        read(&format!("{SITE}{twin}")).unwrap().warnings[0].to_string()
    );
}

#[test]
fn flags_go_over_the_file() {
    let flag = |path: &str, text: &str, flag: &str| Setting {
        path: path.into(),
        text: text.into(),
        flag: flag.into(),
    };
    let base = Path::new(".");
    let config = Config::from_text(
        &format!("[cache.ram]\nsize = \"2MiB\"\n{SITE}"),
        "t.toml",
        base,
        &[flag("cache.ram.size", "8MiB", "--ram")],
    );
    let config = config.unwrap();
    assert_eq!(
        (8 << 20, "--ram".to_owned()),
        (config.ram.budget, config.decided.by("cache.ram.size").to_string())
    );
    let rejected = Config::from_flags(&[flag("cache.ram.size", "8", "--ram")]).unwrap_err();
    assert_eq!(
        "--ram: found \"8\", which is in bytes; add a unit (KiB, MiB or GiB); allowed: a size from \"1MiB\" to \"64TiB\"",
        rejected.0[0].to_string()
    );
}

#[test]
fn array_spelling_is_the_same() {
    let config = read("site = [{ hosts = \"a\", route = [{ proxy = { to = \"unix:/run/a\" } }] }]").unwrap();
    assert_eq!(1, config.sites[0].routes.len());
    assert_eq!("t.toml:1", config.sites[0].routes[0].source.to_string());
}

/// A set of one public key (RFC 8037, appendix A.2).
const JWKS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// The keys of `access` without which `access.NAME` means nothing.
fn beside_access(name: &str) -> &'static str {
    match name {
        "limit.burst" | "limit.by" => "access.limit.rate = \"5/s\"\n",
        "jwt.secret" | "jwt.public_key" | "jwt.jwks_file" | "jwt.jwks_url" | "signed.secret" => "",
        "jwt.ca" => "access.jwt.jwks_url = \"https://id.example.com/keys\"\n",
        "signed.expression" => {
            "access.signed.secret = \"0123456789abcdef0123456789abcdef\"\naccess.signed.style = \"nginx-md5\"\n"
        }
        _ if name.starts_with("signed.") => "access.signed.secret = \"0123456789abcdef0123456789abcdef\"\n",
        _ if name.starts_with("jwt.") => "access.jwt.public_key = \"jwt.pem\"\n",
        "forward.to" => "",
        "forward.key" => "access.forward.to = \"http://127.0.0.1:4180\"\naccess.forward.ttl = \"10s\"\n",
        "forward.ca" => "access.forward.to = \"https://127.0.0.1:4180\"\n",
        _ if name.starts_with("forward.") => "access.forward.to = \"http://127.0.0.1:4180\"\n",
        "budget.burst" | "budget.by" => "access.budget.misses = \"30/m\"\n",
        "satisfy" | "key" | "shared" | "pass_authorization" | "basic.realm" => {
            "access.basic.users = \"a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\"\n"
        }
        _ => "",
    }
}

/// The keys of a section without which its other keys mean nothing.
fn beside(name: &str) -> &'static str {
    match name {
        "hsts.subdomains" | "hsts.preload" => "hsts.max_age = \"365d\"\n",
        "cors.methods" | "cors.headers" | "cors.expose" | "cors.credentials" | "cors.max_age" => {
            "cors.origins = \"https://a.test\"\n"
        }
        "cache.purge.path" => "cache.purge.method = true\n",
        "sendfile.prefix" => "sendfile.root = \"private\"\n",
        _ => "",
    }
}

/// The same for a key outside of sites, before the text of a site.
fn outside_of_sites(path: &str, value: &str, site: &str) -> String {
    // A key of a tier means something only where the tier is.
    let tier = match path {
        "cache.disk.path" | "cache.fleet.servers" => "",
        _ if path.starts_with("cache.disk.") => "cache.disk.path = \"spool\"\n",
        _ if path.starts_with("cache.fleet.") => "cache.fleet.servers = \"a\"\n",
        _ => "",
    };
    let tier = if path == "cache.purge.path" { "cache.purge.method = true\n" } else { tier };
    let tier = if path == "tls.client_auth" { "tls.client_ca = \"ca.pem\"\n" } else { tier };
    if let Some(name) = path.strip_prefix("database[].") {
        let url = match path {
            "database[].follow.interval" => "\"sqlite:/a\"",
            "database[].follow.binlog" => "\"mysql://a@b/c\"",
            _ if path.starts_with("database[].tls.") => "\"postgres+tls://a@b/c\"",
            _ => "\"postgres://a@b/c\"",
        };
        let others = [("name", "\"a\""), ("url", url)];
        let others =
            others.iter().filter(|it| it.0 != name).map(|(name, value)| format!("{name} = {value}\n"));
        let follow = match name {
            "follow.columns" => "follow.publication = \"larder\"\n",
            "tls.client_cert" => "tls.client_key = \"client.key\"\n",
            "tls.client_key" => "tls.client_cert = \"client.pem\"\n",
            _ => "",
        };
        return format!("[[database]]\n{name} = {value}\n{follow}{}{site}", others.collect::<String>());
    }
    if let Some(name) = path.strip_prefix("tls.acme.ca[].") {
        return format!("[[tls.acme.ca]]\n{name} = {value}\n{site}");
    }
    match path.strip_prefix("tls.certificates[].") {
        Some(name) => {
            let others = ["cert", "key"].into_iter().filter(|it| *it != name);
            let others: String = others.map(|it| format!("{it} = \"a\"\n")).collect();
            format!("[[tls.certificates]]\n{name} = {value}\n{others}{site}")
        }
        None => format!("{tier}{path} = {value}\n{site}"),
    }
}

/// The same for a key of a query, behind the beginning of its route.
fn file_with_query(rest: &str, value: &str, site: &str) -> String {
    let query = if rest == "sql.parameters" { "select :id, :limit, :q" } else { "select :id" };
    let others = [("query", format!("{query:?}")), ("parameters", "{ id = \"path int\" }".to_owned())];
    let others = others.iter().filter(|it| rest[4..] != *it.0);
    let lines: String = others.map(|(name, value)| format!("sql.{name} = {value}\n")).collect();
    let database = "[[database]]\nname = \"shop\"\nurl = \"postgres://a@b/c\"\n";
    if rest == "sql.raw" {
        return format!("{database}{site}path = \"/db\"\n{rest} = {value}\naccess.allow = \"10.0.0.0/8\"\n");
    }
    format!("{database}{site}path = \"/t/{{id}}\"\n{lines}{rest} = {value}\n")
}

/// A key of PHP with the keys that it needs.
fn beside_php(key: &str, value: &str) -> String {
    let needed = [("php.root", "\"public\""), ("php.to", "\"a:1\"")];
    let others = needed.iter().filter(|it| it.0 != key).map(|(name, value)| format!("{name} = {value}\n"));
    format!("{}{key} = {value}\n", others.collect::<String>())
}

/// A key of a named token, with the others.
fn file_with_token(rest: &str, value: &str) -> String {
    let all = [("name", "\"a\""), ("role", "\"viewer\""), ("token", "\"0123456789abcdef0123456789abcdef\"")];
    let lines = all.map(|(name, own)| format!("{name} = {}\n", if name == rest { value } else { own }));
    format!(
        "[[admin.tokens]]\n{}[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy.to = \":1\"\n",
        lines.concat()
    )
}

/// A key of a further limit, with its rate.
fn file_with_limit(before: &str, name: &str, value: &str) -> String {
    let rate = if name == "rate" { "" } else { "rate = \"5/s\", " };
    let line = format!("access.limits = [{{ {rate}{name} = {value} }}]\n");
    let (of_site, of_route) = if before == "site[]." { (&*line, "") } else { ("", &*line) };
    format!("[[site]]\nhosts = \"a\"\n{of_site}[[site.route]]\nproxy.to = \":1\"\n{of_route}")
}

/// A key with its value where it would stand, in a file that is sound otherwise.
fn file_with(path: &str, value: &str) -> String {
    if let Some((before, name)) = path.split_once("access.limits[].") {
        return file_with_limit(before, name, value);
    }
    if let Some(rest) = path.strip_prefix("site[].access.") {
        let beside = beside_access(rest);
        return format!(
            "[[site]]\nhosts = \"a\"\n{beside}access.{rest} = {value}\n[[site.route]]\nproxy.to = \":1\"\n"
        );
    }
    if let Some(rest) = path.strip_prefix("admin.tokens[].") {
        return file_with_token(rest, value);
    }
    let origin = match path {
        _ if path.contains(".files.") => "files = { root = \"public\" }",
        _ if path.contains(".cgi.") => "cgi = { root = \"cgi-bin\" }",
        _ => "proxy = { to = \":1\" }",
    };
    let mut site = "[[site]]\nhosts = \"a\"\n[[site.route]]\n".to_owned();
    match path.strip_prefix("site[].route[].") {
        Some("use") => site = format!("[block.shared]\n{site}{origin}\nuse = {value}\n"),
        Some("files.root" | "proxy.to" | "cgi.root" | "cgi.program") => {
            site.push_str(&format!("{} = {value}\n", &path["site[].route[].".len()..]))
        }
        Some(rest) if rest.starts_with("access.") => {
            let beside = beside_access(&rest["access.".len()..]);
            site.push_str(
                &format!("{origin}\n{beside}{rest} = {value}\n")
                    .replace("proxy = { to = \":1\" }", "proxy.to = \":1\""),
            );
        }
        // A hash is of something only where it decides.
        Some("proxy.hash_by") => {
            site.push_str(&format!("proxy = {{ to = \":1\", balance = \"hash\", hash_by = {value} }}\n"));
        }
        Some(rest) if rest.starts_with("proxy.health.") && rest != "proxy.health.path" => {
            site.push_str(&format!("proxy.to = \":1\"\nproxy.health.path = \"/\"\n{rest} = {value}\n"));
        }
        Some(rest) if rest.starts_with("proxy.sticky.") && rest != "proxy.sticky.cookie" => {
            site.push_str(&format!("proxy.to = \":1\"\nproxy.sticky.cookie = \"at\"\n{rest} = {value}\n"));
        }
        // So is what is said of TLS, where an origin speaks it; a certificate goes with its key.
        Some(rest) if rest.starts_with("proxy.tls.") || rest == "proxy.http2" => {
            let beside = match rest {
                "proxy.tls.client_cert" => "proxy.tls.client_key = \"client.key\"\n",
                "proxy.tls.client_key" => "proxy.tls.client_cert = \"client.pem\"\n",
                _ => "",
            };
            site.push_str(&format!("proxy.to = \"https://a\"\n{beside}{rest} = {value}\n"));
        }
        Some(rest) if rest.starts_with("php.") => site.push_str(&beside_php(rest, value)),
        Some(rest) if rest.starts_with("redirect.") || rest.starts_with("respond.") => {
            let to = if rest == "redirect.status" { "redirect.to = \"/\"\n" } else { "" };
            site.push_str(&format!("{to}{rest} = {value}\n"));
        }
        Some(rest) if rest.starts_with("sql.") => return file_with_query(rest, value, &site),
        // A rule has a condition and an effect.
        Some(rest) if rest.starts_with("cache.rule[].") => {
            let name = &rest["cache.rule[].".len()..];
            let when = if name == "when" { "" } else { "when = 'status == 404'\n" };
            let ttl = if name == "ttl" || value == "true" { "" } else { "ttl = \"1s\"\n" };
            let rule = format!("[[site.route.cache.rule]]\n{when}{ttl}{name} = {value}\n");
            site.push_str(&format!("proxy.to = \":1\"\n{rule}"));
        }
        Some(rest) => {
            let beside = beside(rest);
            site.push_str(&format!(
                "{}\n{beside}{rest} = {value}\n",
                origin.replace(" = { ", ".").replace(" }", "")
            ))
        }
        None => match path.strip_prefix("site[].") {
            Some(rest) => return site_with(rest, value, origin),
            None => site = outside_of_sites(path, value, &format!("{site}{origin}\n")),
        },
    }
    site
}

/// The same for a key of a site, whose only route has this service.
fn site_with(key: &str, value: &str, origin: &str) -> String {
    let route = format!("[[site.route]]\n{origin}\n");
    match key {
        "use" => format!("[block.shared]\n[[site]]\nhosts = \"a\"\nuse = {value}\n{route}"),
        "hosts" => format!("[[site]]\nhosts = {value}\n{route}"),
        "tls.client_auth" => {
            format!("tls.client_ca = \"ca.pem\"\n[[site]]\nhosts = \"a\"\ntls.client_auth = {value}\n{route}")
        }
        "redirect_status" => format!(
            "[[site]]\nhosts = [\"a\", \"example.com\"]\ncanonical_host = \"a\"\nredirect_status = {value}\n{route}"
        ),
        "redirect_https" => {
            format!("clients.trusted = \"unix\"\n[[site]]\nhosts = \"a\"\nredirect_https = {value}\n{route}")
        }
        _ => {
            let hosts = "hosts = [\"a\", \"example.com\"]";
            format!("[[site]]\n{hosts}\n{}{key} = {value}\n{route}", beside(key))
        }
    }
}

#[test]
fn every_example_and_every_default_is_accepted() {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir(base.path().join("public")).unwrap();
    std::fs::create_dir(base.path().join("private")).unwrap();
    std::fs::create_dir(base.path().join("cgi-bin")).unwrap();
    let program = std::fs::File::create(base.path().join("cgit.cgi")).unwrap();
    program.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let key = rcgen::generate_simple_self_signed(vec!["client.test".to_owned()]).unwrap();
    for (name, text) in [
        ("ca.pem", key.cert.pem()),
        ("client.pem", key.cert.pem()),
        ("htpasswd", "a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\n".to_owned()),
        ("client.key", key.signing_key.serialize_pem()),
        ("jwt.pem", key.signing_key.public_key_pem()),
        ("jwks.json", JWKS.to_owned()),
    ] {
        std::fs::write(base.path().join(name), text).unwrap();
    }
    for (name, bytes) in geo::databases() {
        std::fs::write(base.path().join(name), bytes).unwrap();
    }
    for name in ["404.html", "sorry.html", "robots.txt", "redirects.map"] {
        std::fs::write(base.path().join(name), "").unwrap();
    }
    for key in table::rows() {
        let default = key.default.map(|it| generated::literal(key.kind, it));
        let in_route = format!("{}{}", table::ROUTE_CACHE, key.path.strip_prefix("cache.").unwrap_or(""));
        let in_site = key.path_of_site().unwrap_or_default();
        let paths = [key.path, &in_route, &in_site];
        let places = match key.scope {
            table::KeyScope::Once => &paths[..1],
            table::KeyScope::EveryRoute => &paths[..2],
            table::KeyScope::SiteAndRoute => &[paths[0], paths[2]][..],
        };
        for (value, path) in [Some(key.example.to_owned()), default]
            .iter()
            .flatten()
            .flat_map(|it| places.iter().map(move |place| (it, *place)))
        {
            let is_secret = value.contains("file:/run/secrets/")
                && [".secret", ".password", "_key", ".token"].iter().any(|it| path.contains(it));
            let value = if is_secret { "\"0123456789abcdef0123456789abcdef\"" } else { value };
            let text = file_with(path, value);
            let is_geo = path.ends_with("cache.key.country");
            let text = if is_geo { format!("geoip.database = \"country.mmdb\"\n{text}") } else { text };
            // Only applications have variables.
            let text = match path.ends_with("proxy.env") {
                true => text.replace("\":1\"", "\"scgi://a:1\""),
                false => text,
            };
            let falls = path.ends_with("files.fall_through");
            let text =
                if falls { format!("{text}[[site.route]]\nrespond = {{ status = 204 }}\n") } else { text };
            let read = Config::from_text(&text, "t.toml", base.path(), &[]);
            assert!(read.is_ok(), "{text}{}", read.unwrap_err());
        }
    }
}

#[test]
fn counters_name_keys_that_exist() {
    for row in larder_counters::Counters::TABLE {
        for name in row.help.split('`').skip(1).step_by(2).filter(|it| it.contains('.')) {
            let known = table::patterns().any(|it| key_path::dotted(&it).ends_with(name));
            assert!(known, "{}: there is no key {name}", row.name);
        }
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_rejected_with_the_place_of_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.toml");
    let check = |bytes: &[u8], expect: &str| {
        std::fs::write(&path, bytes).unwrap();
        let why = Config::load(&path, &[]).unwrap_err().to_string();
        assert!(why.ends_with(expect), "{why}");
    };
    check(b"\xff", "cannot be read: line 1, column 1: the byte 0xff is not UTF-8; save the file as UTF-8");
    check(
        "# ü".as_bytes().split_last().unwrap().1,
        "line 1, column 3: the byte 0xc3 is not UTF-8; save the file as UTF-8",
    );
    check(
        b"workers = 2\n# \xc3\xbc\xe4\n",
        "line 2, column 4: the byte 0xe4 is not UTF-8; save the file as UTF-8",
    );
}

#[test]
fn a_pipe_is_read_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(Err("it is not a regular file and has no content".to_owned()), read_file(&path));
    let mut writer = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut writer, b"workers = 2\n").unwrap();
    let reading = std::thread::spawn(move || read_file(&path));
    while rustix::io::ioctl_fionread(&writer).unwrap() > 0 {
        std::thread::yield_now();
    }
    drop(writer);
    assert_eq!(Ok("workers = 2\n".to_owned()), reading.join().unwrap());
}

#[test]
fn odd_values_are_warned_of() {
    let text = format!("cache.max_object = \"2GiB\"\n{SITE}");
    assert_eq!(
        "t.toml:1: cache.max_object: a body of 2GiB can never be stored: cache.ram.size is 256MiB",
        read(&text).unwrap().warnings[0].to_string()
    );
    let text = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/../*\"\nproxy = { to = [\"a:1\"] }\n";
    assert_eq!(
        "t.toml:3: site.route.path: \"/../*\" contains a \".\" or \"..\" segment; paths are normalized before they are compared, so remove it",
        read(text).unwrap().warnings[0].to_string()
    );
    for (network, plain) in
        [("10.0.0.1/8", "10.0.0.0/8"), ("2001:db8::1/32", "2001:db8::/32"), ("1.2.3.4/0", "0.0.0.0/0")]
    {
        let warnings = read(&format!("clients.trusted = [{network:?}]\n{SITE}")).unwrap().warnings;
        let text = format!(
            "{network:?} covers all of {plain:?}; write that network, or one address without a prefix length"
        );
        assert_eq!(format!("t.toml:1: clients.trusted: {text}"), warnings[0].to_string());
    }
    let right = format!(
        "clients.trusted = [\"10.0.0.0/8\", \"10.0.0.1\", \"10.0.0.1/32\", \"::/0\", \"unix\"]\n{SITE}"
    );
    assert!(read(&right).unwrap().warnings.is_empty());
    refuse(
        "cache.key.headers = [\"X-Real-IP\"]",
        "t.toml:1: cache.key.headers: x-real-ip cannot be part of the key: it carries the client address, which clients.trusted controls",
    );
    refuse(
        "cache.key = { accept = [\"text/html\"], headers = [\"Accept\"] }",
        "t.toml:1: cache.key.headers: accept is in the key as sent; with key.accept, only the preferred offer is: remove it from headers",
    );
    refuse(
        "cache.key.accept = [\"text/html\", \"text/html\"]",
        "t.toml:1: cache.key.accept: text/html is in the list twice; remove one",
    );
    refuse(
        "cache.key.accept = [\"text/*\"]",
        "t.toml:1: cache.key.accept: found [\"text/*\"]; allowed: a media type such as text/html, in lower case, without wildcards and parameters",
    );
    refuse(
        "cache.key = { accept_language = [\"de\"], headers = [\"Accept-Language\"] }",
        "t.toml:1: cache.key.headers: accept-language is in the key as sent; with key.accept_language, only the preferred offer is: remove it from headers",
    );
    refuse(
        "cache.key.accept_language = [\"de\", \"DE\"]",
        "t.toml:1: cache.key.accept_language: DE is in the list twice; remove one",
    );
    refuse(
        "cache.key.accept_language = [\"de_AT\"]",
        "t.toml:1: cache.key.accept_language: found [\"de_AT\"]; allowed: a language tag such as \"de\" or \"pt-BR\", without wildcards and weights",
    );
    let languages: Vec<String> = (0..22).map(|it| format!("a-{it}")).collect();
    refuse(
        &format!("cache.key = {{ accept = [\"a/b\", \"c/d\"], accept_language = {languages:?} }}"),
        "t.toml:1: cache.key.accept_language: with key.accept there are 66 combinations of a media type, or none of them, and a language; \
         allowed: at most 64, since each is a stored response, and each is removed by a POST to the page",
    );
    refuse(
        "cache.vary = [\"X-Forwarded-For\"]",
        "t.toml:1: cache.vary: x-forwarded-for cannot select a variant: every client has another value, or larder writes it",
    );
    refuse(
        "cache = { query = true, key = { strict = true } }",
        "t.toml:1: cache.query: a request to the origin of a strict key has no Content-Type, which a QUERY needs; set cache.query = false or cache.key.strict = false",
    );
    refuse("listen = [\":80\", \"0.0.0.0:80\"]", "t.toml:1: listen: duplicate address 0.0.0.0:80");
    assert!(read(&format!("listen = [\":0\", \":0\"]\n{SITE}")).is_ok(), "two free ports are two ports");
}

proptest::proptest! {
    /// Whatever a file says, reading it ends in a configuration or in problems, each with a line of the file.
    #[test]
    fn no_text_is_a_panic(
        lines in proptest::collection::vec(
            proptest::sample::select(vec![
                "[[site]]", "[site]", "[[site.route]]", "[[route]]", "[cache]", "[cache.ram]", "[cache.key]", "hosts = []",
                "hosts = [\"*\", 1]", "path = \"/*\"", "path = 3", "proxy = {}", "proxy.to = [\"a:1\", \"b:1\"]",
                "files = { root = 1 }", "proxy = [1]", "site = 3", "site = [{}]", "site = [1]", "size = \"1TiB\"",
                "size = {}", "status_ttl = { 404 = 1 }", "keep = \"a\"", "drop = \"b\"", "listen = []", "x = \"\u{e9}\"", "= ",
                "limits.head_size = 1e3", "workers = -1", "[cache.disk]", "cache.fleet.servers = []",
            ]),
            0..12,
        ),
    ) {
        let text = lines.join("\n");
        if let Err(rejected) = read(&text) {
            proptest::prop_assert!(!rejected.0.is_empty());
            for problem in &rejected.0 {
                let Source::Line { line, .. } = &problem.source else { panic!("{problem}") };
                proptest::prop_assert!(*line as usize <= text.lines().count().max(1), "{}", problem);
            }
        }
    }

    #[test]
    fn no_bytes_are_a_panic(text in "\\PC*") {
        let _ = read(&text);
    }
}

#[test]
fn the_known_keys_are_each_listed_once() {
    let text = read("bogus = 1").map(drop).unwrap_err().to_string();
    let listed = text.split("known at the top level: ").nth(1).unwrap().lines().next().unwrap();
    let mut all: Vec<&str> = listed.split(", ").collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(count, all.len(), "{listed}");
}
