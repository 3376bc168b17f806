//! Contradictions between what origins see and what a route matches.

use super::*;

#[track_caller]
fn refuse_route(keys: &str, expect: &str) {
    refuse_whole(&format!("[[site]]\nhosts = \"a\"\n[[site.route]]\n{keys}"), expect);
}

#[test]
fn rewrites_fit_their_route() {
    let proxy = "proxy.to = \"http://a:1\"";
    refuse_route(
        &format!("path = \"/shop/*\"\nstrip = \"/api\"\n{proxy}"),
        "t.toml:5: site.route.strip: no path that matches \"/shop/*\" begins with \"/api/\"; remove it, or change the path",
    );
    refuse_route(
        &format!("strip = \"/a/../b\"\n{proxy}"),
        "t.toml:4: site.route.strip: found \"/a/../b\"; allowed: a path such as \"/api\", without \"//\", \".\", \"..\", \"?\", \"#\" and wildcards",
    );
    refuse_route(
        "strip = \"/api\"\nadd_prefix = \"/b\"\nfiles.root = \"src\"",
        "t.toml:4: site.route.strip: no effect without an origin; write files = { strip = \"/PREFIX\" }\n\
         t.toml:5: site.route.add_prefix: no effect without an origin; remove it",
    );
    refuse_route(
        &format!("query = {{ keep = [\"a\"], remove = [\"b\"] }}\n{proxy}"),
        "t.toml:4: site.route.query.remove: both keep and remove are set; keep alone already removes all other parameters",
    );
    refuse_route(
        "proxy = { to = [\"http://a:1/x\", \"http://b:1\"] }",
        "t.toml:4: site.route.proxy.to: http://a:1/x and http://b:1 have different base paths, but the origins of a route get the same request; use one base path, or a route for each",
    );
    refuse_route(
        "proxy = { to = [\"http://a:1\"], host = \"b\", preserve_host = true }",
        "t.toml:4: site.route.proxy.host: host and preserve_host = true contradict each other; remove one of them",
    );
    refuse_route(
        "proxy = { to = [\"http://a:1\"], host = \"http://b\" }",
        "t.toml:4: site.route.proxy.host: found \"http://b\"; allowed: HOST or HOST:PORT, such as \"app.internal\"",
    );
    for good in ["/api/*", "/api/v1/*", "/ap*", "/*", "/api", "/api/x"] {
        let text =
            format!("[[site]]\nhosts = \"a\"\n[[site.route]]\npath = \"{good}\"\nstrip = \"/api/\"\n{proxy}");
        assert!(read(&text).is_ok(), "{good}");
    }
}

#[test]
fn templates_fit_their_route_and_the_key() {
    let proxy = "proxy.to = \"http://a:1\"";
    let check = |keys: &str, expect: &str| refuse_route(&format!("{keys}\n{proxy}"), expect);
    check(
        "path = \"/shop/{id}\"\nrewrite = \"/item/{name}\"",
        "t.toml:5: site.route.rewrite: unknown variable {name}; the path \"/shop/{id}\" has {1}, {id}; docs/generated/config.md lists all",
    );
    check(
        "strip = \"/a\"\nrewrite = \"/b{path}\"",
        "t.toml:4: site.route.strip: rewrite makes the whole path, so strip has no effect; remove one of them",
    );
    for input in ["{header.x}", "{cookie.a}", "{client}", "{method}", "{request_id}"] {
        let text = format!(
            "t.toml:4: site.route.rewrite: {input} is not part of the cache key, so that one client's page would be served to others; \
             add it to cache.key, or set cache.enabled = false for the route"
        );
        check(&format!("rewrite = \"/b/{input}\""), &text);
        let passes = format!(
            "[[site]]\nhosts = \"a\"\n[[site.route]]\nrewrite = \"/b/{input}\"\ncache.enabled = false\n{proxy}"
        );
        assert!(read(&passes).is_ok(), "{input}");
    }
    check(
        "query.set = { v = \"{header.x}\" }",
        "t.toml:4: site.route.query.set: {header.x} is not part of the cache key, so that one client's page would be served to others; \
         add it to cache.key, or set cache.enabled = false for the route",
    );
    check(
        "path = \"/shop/{id}\"\nquery.set = { v = \"{name}\" }",
        "t.toml:5: site.route.query.set: unknown variable {name}; the path \"/shop/{id}\" has {1}, {id}; docs/generated/config.md lists all",
    );
    for name in
        ["Content-Length", "transfer-encoding", "Connection", "TE", "Host", "Via", "Range", "If-None-Match"]
    {
        let found = |keys: &str| {
            let text = format!("[[site]]\nhosts = \"a\"\n[[site.route]]\n{keys}\n{proxy}");
            read(&text).map(drop).unwrap_err().to_string()
        };
        let expect = format!("{name} cannot be set or removed: ");
        assert!(found(&format!("request_headers.set = {{ {name} = \"a\" }}")).contains(&expect), "{name}");
        assert!(found(&format!("request_headers.remove = [\"{name}\"]")).contains(&expect), "{name}");
    }
    refuse_route(
        "request_headers.remove = [\"A\"]\nfiles.root = \"src\"",
        "t.toml:4: site.route.request_headers.remove: no effect without an origin; remove it",
    );
    let warned = |keys: &str| {
        let text = format!(
            "[[site]]\nhosts = \"a\"\n{keys}\n[[site.route]]\n{proxy}\n[[site.route]]\npath = \"/x\"\n{proxy}"
        );
        read(&text)
            .unwrap()
            .warnings
            .iter()
            .map(ToString::to_string)
            .filter(|it| it.contains("request_headers"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        vec![
            "t.toml:3: site.route.request_headers.set: X-User reads {header.x-in}, which is not part of the cache key: requests whose response may be shared are sent without X-User; add it to cache.key, or set cache.enabled = false for the route"
        ],
        warned("request_headers.set = { X-User = \"{header.x-in}\" }")
    );
    assert!(warned("request_headers.set = { X-Client = \"{client}\", X-Uri = \"{uri}\" }").is_empty());
}

#[test]
fn a_secret_of_a_field_is_read_from_its_file_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "s3{cr}et\n").unwrap();
    let text = "[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy.to = \":1\"\nrequest_headers.set = { X-Key = \"file:key\" }";
    let config = Config::from_text(text, "t.toml", folder.path(), &[]).unwrap();
    let rules = &config.sites[0].routes[0].rewrite.fields.as_ref().unwrap().1;
    assert_eq!(Some("s3{cr}et"), rules.set[0].1.constant());
    let wrong = text.replace("file:key", "{no.such}s3cret");
    let why = Config::from_text(&wrong, "t.toml", folder.path(), &[]).map(drop).unwrap_err().to_string();
    assert!(why.contains("site.route.request_headers.set") && !why.contains("s3cret"), "{why}");
}

#[test]
fn backups_and_health_checks_fit_their_route() {
    refuse_route(
        "proxy = { to = [\"a:1\"], backup = [\"b:1\", \"a:1\"] }",
        "t.toml:4: site.route.proxy.backup: http://a:1 is one of proxy.to already; remove it from one of them",
    );
    refuse_route(
        "proxy = { to = [\"a:1 drain\"], backup = [\"b:1\"] }",
        "t.toml:4: site.route.proxy.to: every origin is drained; at least one must serve requests",
    );
    refuse_route(
        "proxy = { to = [\"a:1\"], health = { path = \"/h\", method = \"HEAD\", body = \"ok\" } }",
        "t.toml:4: site.route.proxy.health.body: a response to HEAD has no body; set method = \"GET\", or remove body",
    );
    refuse_route(
        "proxy = { to = [\"a:1\"], health = { path = \"/h\", status = [\"399-200\"] } }",
        "t.toml:4: site.route.proxy.health.status: found [\"399-200\"]; allowed: a status from 100 to 599, or a range such as \"200-399\"",
    );
}

#[test]
fn a_path_with_a_variable_of_the_environment_is_not_shown() {
    let shown = |to: &str| {
        let text = format!("[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = [\"{to}\"]\n");
        let config = read(&text).unwrap();
        config.sites[0].routes[0].origins().next().unwrap().to_string()
    };
    assert_eq!("http://127.0.0.1:1/***", shown("http://127.0.0.1:1/a/${CARGO_PKG_NAME}"));
    assert_eq!("http://127.0.0.1:1/app", shown("${LARDER_NOT_SET:-http://127.0.0.1:1}/app"));
    assert_eq!("http://127.0.0.1:1", shown("http://127.0.0.1:1"));
}

#[test]
fn variables_of_applications_fit_their_route() {
    let of =
        |to: &str, env: &str| format!("path = \"/a/*\"\nproxy = {{ to = [\"{to}\"], env = {{ {env} }} }}");
    let check = |env: &str, expect: &str| {
        let expect = format!("t.toml:5: site.route.proxy.env: {expect}");
        refuse_route(&of("fastcgi://a:1", env), &expect);
    };
    for (name, why) in [
        ("REMOTE_ADDR", "it is the address of the client; clients.trusted names proxies in front of larder"),
        (
            "https",
            "it is the scheme of the client; clients.trusted names proxies in front of larder that end TLS",
        ),
        ("HTTP_PROXY", "it is a field of the request; set request_headers.set instead"),
    ] {
        check(&format!("{name} = \"a\""), &format!("{name} cannot be set: {why}"));
    }
    check(
        "SCRIPT_FILENAME = \"/srv/{header.x}\"",
        "SCRIPT_FILENAME reads {header.x}, but applications choose a file by it; only parts of the URL may, such as {host} and captures",
    );
    check(
        "SCRIPT_FILENAME = \"{path}\"",
        "SCRIPT_FILENAME begins with a variable, so that a request could name any file; begin it with a directory, such as \"/srv/app/{1}\"",
    );
    check(
        "A = \"{name}\"",
        "unknown variable {name}; the path \"/a/*\" has {1}; docs/generated/config.md lists all",
    );
    check("A = \"$document_uri\"", "$document_uri is a variable of nginx; write {path}");
    refuse_route(
        &of("uwsgi://a:1", "\"A-B\" = \"a\""),
        "t.toml:5: site.route.proxy.env.A-B: found the name \"A-B\"; allowed: a name of letters, digits and \"_\", such as \"APP_ENV\"",
    );
    refuse_route(
        &of("http://a:1", "A = \"a\""),
        "t.toml:5: site.route.proxy.env: no effect: an origin with HTTP has no variables; use request_headers.set, or remove it",
    );
    let text = |env: &str| format!("[[site]]\nhosts = \"a\"\n[[site.route]]\n{}", of("scgi://a:1", env));
    let all = read(&text("SCRIPT_FILENAME = \"/srv/{1}\", SCRIPT_NAME = \"{path}\", EMPTY = \"\"")).unwrap();
    assert!(all.warnings.is_empty(), "{:?}", all.warnings);
    let names = &all.sites[0].routes[0].rewrite.variables.as_ref().unwrap().1;
    assert_eq!("sets the variables SCRIPT_FILENAME, SCRIPT_NAME, EMPTY", names.describe());
    let warned = read(&text("A = \"{header.x-in}\"")).unwrap().warnings;
    assert_eq!(
        "t.toml:5: site.route.proxy.env: A reads {header.x-in}, which is not part of the cache key: requests whose response may be shared are sent without A; add it to cache.key, or set cache.enabled = false for the route",
        warned[0].to_string()
    );
}
