//! Settings without effect: errors where they are surely mistakes, warnings otherwise.

use super::*;

const START: &str = "[[site]]\nhosts = \"a\"\n";

/// The errors or warnings about a site with these lines.
fn told(lines: &str) -> Vec<String> {
    match read(&format!("{START}{lines}\n")) {
        Ok(config) => config.warnings.iter().map(|it| format!("warning: {it}")).collect(),
        Err(rejected) => rejected.0.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn check(lines: &str, expect: &str) {
    let expect: Vec<String> = Some(expect.to_owned()).into_iter().filter(|it| !it.is_empty()).collect();
    assert_eq!(expect, told(lines), "{lines}");
}

/// The same for a route with an origin; its keys begin at line 5.
#[track_caller]
fn route(keys: &str, expect: &str) {
    check(&format!("[[site.route]]\nproxy.to = \":1\"\n{keys}"), expect);
}

#[test]
fn methods_are_those_that_clients_send() {
    route(
        "methods = [\"get\"]",
        "t.toml:5: site.route.methods: \"get\": methods are case-sensitive; write \"GET\"",
    );
    route(
        "methods = [\"GET\", \"GTE\"]",
        "warning: t.toml:5: site.route.methods: \"GTE\" is not a registered method; did you mean \"GET\"?",
    );
    route("methods = [\"GET\", \"PROPFIND\", \"FROBNICATE\", \"M-SEARCH\"]", "");
    assert_eq!(2, told("[[site.route]]\nproxy.to = \":1\"\nmethods = [\"get\", \"post\"]").len());
}

#[test]
fn fields_without_their_main_key() {
    let cors = "no effect without origins; add origins = [\"https://app.example.com\"]";
    route("cors = { methods = [\"GET\"] }", &format!("t.toml:5: site.route.cors: {cors}"));
    let hsts = "no effect without max_age; add max_age = \"365d\"";
    route("hsts = { subdomains = true }", &format!("t.toml:5: site.route.hsts: {hsts}"));
    route("hsts = { max_age = \"off\", subdomains = true }", "");
    let no_tls = "warning: t.toml:5: site.route.hsts: no effect: no address of listen has TLS; add one, or the TLS proxy in front to clients.trusted";
    let preload = "warning: t.toml:5: site.route.hsts.preload: the preload lists of browsers accept only hosts with subdomains = true; set that as well";
    assert_eq!(
        [preload, no_tls],
        told("[[site.route]]\nproxy.to = \":1\"\nhsts = { max_age = \"365d\", preload = true }")[..]
    );
    route("hsts = { max_age = \"365d\", preload = true, subdomains = true }", no_tls);
    route(
        "intercept_errors = true",
        "warning: t.toml:5: site.route.intercept_errors: no effect without error_pages; add a page, such as error_pages = { 5xx = \"sorry.html\" }",
    );
    route("intercept_errors = true\nerror_pages = { 404 = \"Cargo.toml\" }", "");
}

#[test]
fn fixed_answers_fit_their_status() {
    let respond = |keys: &str, expect: &str| {
        let expect = if expect.is_empty() {
            String::new()
        } else {
            format!("t.toml:4: site.route.respond.status: {expect}")
        };
        check(&format!("[[site.route]]\nrespond = {{ {keys} }}"), &expect);
    };
    for status in [204, 205, 304] {
        let text =
            format!("a response with status {status} has no body (RFC 9110); remove the body, or use 200");
        respond(&format!("status = {status}, body = \"x\""), &text);
        respond(&format!("status = {status}, file = \"Cargo.toml\""), &text);
        respond(&format!("status = {status}"), "");
    }
    respond(
        "status = 301",
        "a response with status 301 needs a Location; use redirect = { to = \"/new\", status = 301 } in place of respond",
    );
    check("[[site.route]]\nrespond.status = 301\nresponse_headers.set = { location = \"/x\" }", "");
    check("response_headers.default = { Location = \"/x\" }\n[[site.route]]\nrespond.status = 308", "");
    respond("status = 300, body = \"choose\"", "");
    respond(
        "health = \"live\", status = 500",
        "no effect: the status of health is 200, or 503 while larder drains; remove it",
    );
}

#[test]
fn the_cache_is_for_origins() {
    for (service, what) in [
        ("files.root = \"src\"", "files have a cache of their own (files.cache_for, files.small_file)"),
        ("redirect.to = \"https://b/x\"", "redirects are not cached"),
        ("respond.body = \"x\"", "fixed answers are not cached"),
    ] {
        check(
            &format!("[[site.route]]\n{service}\ncache = {{ default_ttl = \"1m\" }}"),
            &format!("warning: t.toml:5: site.route.cache.default_ttl: no effect: {what}; remove it"),
        );
    }
    check(
        "[[site.route]]\nfiles = { root = \"src\", compress = true }\ncache.compress.min_size = \"2KiB\"",
        "",
    );
    let shared = "use = \"b\"\n[[site.route]]\npath = \"/a\"\nproxy.to = \":1\"\n[[site.route]]\nfiles.root = \"src\"\n\
                  [block.b]\ncache.max_ttl = \"1m\"";
    check(shared, "");
}

#[test]
fn logs_rules_and_prefixes_that_never_apply() {
    check(
        "log_when = 'status >= 400'\nlog_skip = 'status >= 400'\n[[site.route]]\nproxy.to = \":1\"",
        "warning: t.toml:4: site.log_skip: the same condition as log_when, so no request is logged; change one of them",
    );
    for (key, condition, expect) in [
        (
            "log_when",
            "status == 200 && status == 404",
            "never true, so no request is logged: its tests contradict one another",
        ),
        (
            "log_skip",
            "status == 200 && status == 404",
            "never true, so it skips no request: its tests contradict one another",
        ),
        ("log_skip", "status > 600", "status is never > 600: it is a number from 100 to 599"),
    ] {
        let text = format!("warning: t.toml:3: site.{key}: {expect}");
        check(&format!("{key} = '{condition}'\n[[site.route]]\nproxy.to = \":1\""), &text);
    }
    check("log_when = 'status >= 400'\nlog_skip = 'status == 404'\n[[site.route]]\nproxy.to = \":1\"", "");
    let rules = |first: &str| {
        format!(
            "[[site.route.cache.rule]]\nwhen = '{first}'\nttl = \"1m\"\n[[site.route.cache.rule]]\nwhen = 'status == 404'\nttl = \"2m\""
        )
    };
    for always in
        ["status >= 100", "status >= 200", "status > 0 && status < 600", "status == 404 || status != 404"]
    {
        let text = format!(
            "warning: t.toml:8: site.route.cache.rule: never applies: the condition '{always}' of an earlier rule holds for all of its \
             responses; move that rule after this one"
        );
        route(&rules(always), &text);
    }
    for sometimes in ["status >= 405", "!(path ~ \"x\")", "status >= 100 && type == \"text/html\""] {
        route(&rules(sometimes), "");
    }
    check(
        "[[site.route]]\npath = \"/static/*\"\nfiles = { root = \"src\", strip = \"/media\" }",
        "warning: t.toml:5: site.route.files.strip: no path that matches \"/static/*\" begins with \"/media/\"; remove it, or change the path",
    );
    check("[[site.route]]\npath = \"/static/*\"\nfiles = { root = \"src\", strip = \"/static\" }", "");
    check(
        "[[site.route]]\npath = \"/a/*\"\nproxy.to = \":1\"\n[[site.route]]\npath = \"regex:/a/.*\"\nproxy.to = \":1\"",
        "warning: t.toml:6: site.route.path: \"regex:/a/.*\" never matches: \"/a/*\" at t.toml:3 has the same requests; remove one of them",
    );
}

#[test]
fn a_site_that_only_redirects_needs_no_route() {
    let config = read("[[site]]\nhosts = \"a\"\nredirect_https = true").unwrap();
    assert!(config.sites[0].routes.is_empty());
    let tls = "listen = \"https://:443\"\ntls.self_signed = true\n";
    let text = "[[site]]\nhosts = [\"a\", \"b\"]\n";
    let no_route = |line: u8| {
        format!(
            "t.toml:{line}: site.route: the site has no route; add a [[site.route]] with proxy = {{ to = [...] }}, files = {{ root = \
             \"...\" }} or redirect = {{ to = \"https://HOST{{uri}}\" }}"
        )
    };
    refuse_whole(&format!("{tls}{text}redirect_https = true"), &no_route(3));
    refuse_whole(&format!("{text}canonical_host = \"a\""), &no_route(1));
    // Its clients go to another site, or to another server.
    let away = |hosts: &str, others: &str| {
        read(&format!("[[site]]\nhosts = {hosts}\ncanonical_host = \"a\"\n{others}"))
            .map(|it| it.sites[0].routes.len())
    };
    let other = "[[site]]\nhosts = \"A\"\n[[site.route]]\nproxy.to = \":1\"\n";
    for (hosts, others) in
        [("[\"b\", \"c\"]", ""), ("\"b\"", other), ("\"*\"", other), ("[\"b\", \"*\"]", other)]
    {
        assert_eq!(0, away(hosts, others).unwrap(), "{hosts}");
    }
    assert_eq!(no_route(1), away("\"*\"", "").unwrap_err().to_string());
    assert_eq!(
        "t.toml:3: site.canonical_host: \"a\" is no host of this site; add it to hosts",
        away("\"b\"", "[[site.route]]\nproxy.to = \":1\"\n").unwrap_err().to_string()
    );
}

#[test]
fn an_origin_for_one_path_is_warned_of_where_the_paths_below_it_have_no_route() {
    let warnings = |routes: &[(&str, &str)]| -> Vec<String> {
        let route = |it: &(&str, &str)| format!("[[site.route]]\npath = \"{}\"\n{}\n", it.0, it.1);
        let text: String = routes.iter().map(route).collect();
        let config = read(&format!("[[site]]\nhosts = \"a\"\n{text}")).unwrap();
        config.warnings.iter().map(ToString::to_string).collect()
    };
    let (proxy, files) = ("proxy.to = \":1\"", "files.root = \"src\"");
    let only = |path: &str| {
        format!(
            "t.toml:4: site.route.path: only \"{path}\" itself; paths below it have no route and get 404: if the origin has them, write "
        )
    };
    let expect = only("/api")
        + "\"/api*\", which is `location /api` of nginx, or \"/api/*\", with which larder redirects \"/api\" to \"/api/\"";
    assert_eq!(vec![expect.clone()], warnings(&[("/api", proxy)]));
    assert_eq!(vec![expect], warnings(&[("/api", proxy), ("/static/*", files)]));
    assert_eq!(vec![only("/api/") + "\"/api/*\""], warnings(&[("/api/", proxy)]));
    assert_eq!(vec![only("/") + "\"/*\""], warnings(&[("/", proxy)]));
    let none = Vec::<String>::new();
    assert_eq!(none, warnings(&[("/api", proxy), ("/*", files)]));
    assert_eq!(none, warnings(&[("/api", proxy), ("/api/{id}", proxy)]));
    assert_eq!(none, warnings(&[("/feed.xml", proxy)]));
    assert_eq!(none, warnings(&[("/api", "redirect.to = \"/b\"")]));
    assert_eq!(none, warnings(&[("/api", "methods = [\"POST\"]\nproxy.to = \":1\"")]));
}

#[test]
fn a_redirect_to_https_without_a_listener_with_tls_is_a_warning() {
    let text = |top: &str| format!("{top}\n{START}redirect_https = true\n[[site.route]]\nproxy.to = \":1\"");
    let warnings =
        |top: &str| read(&text(top)).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        vec![
            "t.toml:4: site.redirect_https: no address of listen has TLS, so another server must answer on the port of https; name it \
             in clients.trusted if it sends requests to larder, which are redirected again otherwise, or add an address such as \
             \"https://0.0.0.0:443\""
        ],
        warnings("")
    );
    assert!(warnings("clients.trusted = [\"10.0.0.0/8\"]").is_empty());
    let has_tls = warnings("listen = [\":80\", \"https://:443\"]\ntls.self_signed = true");
    assert!(!has_tls.iter().any(|it| it.contains("redirect_https")), "{has_tls:?}");
    let flag = |path: &str, text: &str, flag: &str| Setting {
        path: path.into(),
        text: text.into(),
        flag: flag.into(),
    };
    let found = Config::from_flags(&[
        flag("site[0].route[0].files.root", ".", "DIR"),
        flag("site[0].redirect_https", "true", "--redirect-https"),
    ]);
    let warning = found.unwrap().warnings[0].to_string();
    assert!(warning.starts_with("--redirect-https: no address of listen has TLS"), "{warning}");
}

#[test]
fn the_status_of_redirects_is_one_that_redirects() {
    let site = |keys: &str, expect: &str| {
        let expect = if expect.is_empty() { String::new() } else { format!("t.toml:4: site.{expect}") };
        let text = format!(
            "[[site]]\nhosts = [\"a\", \"b\"]\ncanonical_host = \"a\"\n{keys}\n[[site.route]]\nproxy.to = \":1\""
        );
        let found = read(&text).err().map_or(String::new(), |it| it.to_string());
        assert_eq!(expect, found.trim_end(), "{keys}");
    };
    [301, 302, 307, 308].iter().for_each(|it| site(&format!("redirect_status = {it}"), ""));
    site("redirect_status = 303", "redirect_status: found 303; allowed: 301, 302, 307 or 308");
    check(
        "redirect_status = 301\n[[site.route]]\nproxy.to = \":1\"",
        "t.toml:3: site.redirect_status: no effect without redirect_https or canonical_host; remove it",
    );
}

#[test]
fn a_wildcard_part_needs_a_wildcard() {
    let part = |hosts: &str, keys: &str| {
        let text = format!("[[site]]\nhosts = {hosts}\n[[site.route]]\n{keys}\n");
        read(&text).err().map_or(String::new(), |it| it.to_string().trim_end().to_owned())
    };
    let redirect = |to: &str| format!("redirect.to = \"{to}\"");
    assert_eq!(
        "t.toml:4: site.route.redirect.to: {host.wildcard} is always empty: no host of the site has a \"*\"; add one, such as \
         \"*.example.com\", or use {host}",
        part("\"a\"", &redirect("/{host.wildcard}"))
    );
    let hosts = "[\"a\", \"*.example.com\"]";
    assert_eq!("", part(hosts, &redirect("https://{host.wildcard}.example.org{uri}")));
    assert_eq!(
        "",
        part(
            hosts,
            "proxy.to = \":1\"\nrequest_headers.set.X-Tenant = \"{host.wildcard}\"\nrewrite = \"/{host.wildcard}{path}\""
        )
    );
    for open in [
        "https://{host.wildcard}{uri}",
        "https://a.{host.wildcard}/",
        "https://{host.wildcard}.{query.a}/",
        "https://{host.wildcard}./",
    ] {
        assert!(part(hosts, &redirect(open)).contains("could choose its host"), "{open}");
    }
}

#[test]
fn an_error_page_of_the_site_is_a_path() {
    let page = |hosts: &str, page: &str| {
        let text = format!(
            "[[site]]\nhosts = {hosts}\nerror_pages.404 = \"{page}\"\n[[site.route]]\nproxy.to = \":1\"\n"
        );
        read(&text).err().map_or(String::new(), |it| it.to_string().trim_end().to_owned())
    };
    assert_eq!(("", ""), (&*page("\"a\"", "url:/not-found?a=b"), &*page("\"*\"", "url:/a")));
    for wrong in ["url:", "url:none", "url:https://a/b", "url:/a b", "url:/a#b"] {
        assert_eq!(
            format!(
                "t.toml:3: site.error_pages: found \"{wrong}\"; write a path of the site behind \"url:\", such as \"url:/not-found\""
            ),
            page("\"a\"", wrong)
        );
    }
    assert_eq!(
        "t.toml:3: site.error_pages: no host of the site is named in full, so a request for the page has none; add one to hosts",
        page("\"*.a\"", "url:/a")
    );
}

#[test]
fn keys_of_a_block_may_be_for_other_routes() {
    let block = "[block.c]\nrequest_headers.set = { X-A = \"b\" }\nstrip = \"/a\"\naccess.budget = { misses = \"5/s\" }\n";
    let text = format!(
        "{START}use = [\"c\"]\n[[site.route]]\npath = \"/old\"\nredirect.to = \"/a/new\"\n\
         [[site.route]]\npath = \"/gone\"\nuse = [\"c\"]\nrespond.status = 410\n\
         [[site.route]]\npath = \"/a/*\"\nproxy.to = \":1\"\n{block}"
    );
    assert_eq!(
        Vec::<String>::new(),
        read(&text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    check(
        "[[site.route]]\nredirect.to = \"/new\"\nrequest_headers.set = { X-A = \"b\" }",
        "t.toml:5: site.route.request_headers.set: no effect without an origin; remove it",
    );
}

#[test]
fn values_of_other_servers() {
    check("[[site.route]]\nrespond.status = 444", "");
    check(
        "[[site.route]]\nrespond = { status = 444, body = \"a\" }",
        "t.toml:4: site.route.respond.status: 444 closes the connection without a response; remove the body",
    );
    refuse_whole(
        "[[site]]\nhosts = [\"_\"]\n[[site.route]]\nproxy.to = \":1\"\n",
        "t.toml:2: site.hosts: \"_\" is no name that clients send; for requests of every other host, write hosts = [\"*\"]",
    );
    check(
        "[[site.route]]\nfiles = { root = \"src\", cache_control = \"30d\" }",
        "t.toml:4: site.route.files.cache_control: a time is no Cache-Control; write cache_control = \"max-age=2592000\", or client_ttl of the route",
    );
    route(
        "request_headers.set = { X-Ip = \"%[src]\" }",
        "t.toml:5: site.route.request_headers.set: %[src] is an expression of HAProxy or Apache; write {client}",
    );
    route(
        "response_headers.set = { X-A = \"%[rand(9)]\" }",
        "t.toml:5: site.route.response_headers: %[rand(9)] is an expression of HAProxy or Apache; docs/generated/config.md lists the variables of larder",
    );
    route("cache.rule = [{ when = 'status in [301, 308]', ttl = \"1h\" }]", "");
}

#[test]
fn the_user_of_a_route_without_credentials() {
    route(
        "request_headers.set = { X-User = \"{remote_user}\" }",
        "warning: t.toml:5: site.route.request_headers.set: X-User is always empty: no access rule of the route identifies users; add access.basic, jwt or forward",
    );
}
