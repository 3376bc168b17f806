//! Redirects that lead back by way of a missing slash or of a redirect map, and error pages that are redirects.

use super::*;

/// The warnings about a site with these lines, over HTTP.
fn warned(lines: &str) -> Vec<String> {
    let text = format!("listen = \":80\"\n[[site]]\nhosts = [\"a.example\"]\n{lines}\n");
    read(&text).unwrap().warnings.iter().map(ToString::to_string).collect()
}

fn route(path: &str, keys: &str) -> String {
    format!("[[site.route]]\npath = '{path}'\n{keys}\n")
}

#[test]
fn a_rule_that_removes_slashes_meets_the_slash_of_a_directory() {
    for pattern in ["regex:/(.+)/", "/{1}/", "regex:/([^/]+)/"] {
        let rule = route(pattern, "redirect = { to = \"/{1}\", status = 301 }").replace("/{1}/", "/{one}/");
        let found = warned(&(rule.clone() + &route("/app/*", "proxy.to = \":1\"")));
        let expect = "t.toml:6: site.route.redirect.to: a request for http://a.example/app/ is redirected in a loop: /app/ to /app to /app/; \
                      /app is a directory, to which larder adds the slash: exclude it with when = 'path != \"/app/\"'";
        assert_eq!([expect], found[..], "{pattern}");
        let excepted = rule.replace("redirect", "when = 'path != \"/app/\"'\nredirect");
        assert_eq!(0, warned(&(excepted + &route("/app/*", "proxy.to = \":1\""))).len());
        assert_eq!(0, warned(&(rule + &route("/*", "proxy.to = \":1\""))).len());
    }
    assert_eq!(1, warned(&route("regex:/x.*", "redirect.to = \"/x\"")).len());
}

#[test]
fn a_rule_that_removes_slashes_meets_directories_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    std::fs::create_dir(folder.path().join("docs")).unwrap();
    let rule = route("regex:/(.+)/", "redirect.to = \"/{1}\"");
    let files = |keys: &str| {
        warned(&(rule.clone() + &route("/*", &format!("files = {{ root = \"{root}\"{keys} }}"))))
    };
    let found = files("");
    assert!(found[0].contains("/docs/ to /docs to /docs/; /docs is a directory"), "{found:?}");
    assert_eq!(1, files(", clean_urls = true").len());
    std::fs::write(folder.path().join("docs.html"), "").unwrap();
    assert_eq!((0, 1), (files(", clean_urls = true").len(), files("").len()));
    std::fs::remove_dir(folder.path().join("docs")).unwrap();
    assert_eq!(0, files("").len());
}

/// The slash is added for a directory with an index, to which neither PHP nor the next route answers.
#[test]
fn a_rule_that_removes_slashes_meets_directories_of_php_and_of_files_before_a_route() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    for (name, index) in [("admin", "index.php"), ("docs", "index.html"), ("none", "a.txt")] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join(index), "").unwrap();
    }
    std::fs::write(folder.path().join("index.php"), "").unwrap();
    let looped = |service: &str| {
        let found = warned(&(route("regex:/(.+)/", "redirect.to = \"/{1}\"") + &route("/*", service)));
        assert!(found.iter().all(|it| it.starts_with("t.toml:6: site.route.redirect.to: ")), "{found:?}");
        found.iter().filter_map(|it| it.split(" to ").nth(1).map(str::to_owned)).collect::<Vec<_>>()
    };
    let php = format!("php = {{ root = \"{root}\", to = \"unix:/s\" }}");
    let falls =
        format!("files = {{ root = \"{root}\", fall_through = true }}\n[[site.route]]\nproxy.to = \":1\"");
    assert_eq!((1, vec!["/docs".to_owned()]), (looped(&php).len(), looped(&falls)));
    std::fs::remove_dir_all(folder.path().join("docs")).unwrap();
    assert_eq!((vec!["/admin".to_owned()], 0), (looped(&php), looped(&falls).len()));
    std::fs::remove_dir_all(folder.path().join("admin")).unwrap();
    assert_eq!((0, 0), (looped(&php).len(), looped(&falls).len()));
}

#[test]
fn a_redirect_map_leads_back_by_urls() {
    let folder = tempfile::tempdir().unwrap();
    let map = |lines: &str, top: &str| {
        std::fs::write(folder.path().join("map"), lines).unwrap();
        let text = format!(
            "{top}\n[[site]]\nhosts = [\"a.example\"]\nredirect_map = \"{}/map\"\n[[site.route]]\nproxy.to = \":1\"\n",
            folder.path().display()
        );
        let found = read(&text).unwrap().warnings;
        found
            .iter()
            .map(|it| it.to_string().replace(&format!("{}/", folder.path().display()), ""))
            .collect::<Vec<_>>()
    };
    let clear = "listen = \":80\"";
    let expect = "t.toml:4: site.redirect_map: map, line 2: a request for http://a.example/a is redirected in a loop: /a to /b to /a; \
                  change one of the targets";
    assert_eq!([expect], map("/c /a\n/a http://a.example/b\n/b http://A.example:80/a\n", clear)[..]);
    assert_eq!(0, map("/a http://a.example/b\n/d http://b.example/d", clear).len());
    // Another server may have TLS, unless a proxy in front is trusted to.
    assert_eq!(0, map("/a https://a.example/a", clear).len());
    assert_eq!(
        1,
        map("/a https://a.example/a", "listen = \":80\"\nclients.trusted = [\"10.0.0.0/8\"]").len()
    );
    let both = "listen = [\":80\", \"https://:443\"]\ntls.self_signed = true";
    assert_eq!(1, map("/a https://a.example/a", both).len());
}

#[test]
fn sites_without_a_route_do_not_redirect_to_each_other() {
    let site = |host: &str, to: &str| format!("[[site]]\nhosts = \"{host}\"\ncanonical_host = \"{to}\"\n");
    let warnings = |text: String| -> Vec<String> {
        read(&text).unwrap().warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        [
            "t.toml:3: site.canonical_host: a request for http://a.example/ is redirected in a loop: http://a.example/ to http://b.example/ \
          to http://a.example/; change one of the targets"
        ],
        warnings(site("a.example", "b.example") + &site("b.example", "a.example"))[..]
    );
    let home = "[[site]]\nhosts = \"a.example\"\n[[site.route]]\nrespond.body = \"home\"\n";
    assert_eq!(Vec::<String>::new(), warnings(site("b.example", "a.example") + home));
    // The URL of a route leads to the other site and back.
    let back = "[[site]]\nhosts = \"a.example\"\n[[site.route]]\nredirect.to = \"http://b.example{uri}\"\n";
    assert_eq!(1, warnings(site("b.example", "a.example") + back).len());
}

#[test]
fn an_error_page_is_no_redirect() {
    let page = |keys: &str| {
        warned(&format!(
            "error_pages.404 = \"url:/nf\"\n{}{}",
            route("/nf", keys),
            route("/*", "proxy.to = \":1\"")
        ))
    };
    let text =
        |why: &str| vec![format!("t.toml:4: site.error_pages: \"url:/nf\" {why}; name a path with a page")];
    assert_eq!(text("is redirected to http://a.example/nf2"), page("redirect.to = \"/nf2\""));
    assert_eq!(text("is redirected"), page("redirect.to = \"https://b.example/{query.a}\""));
    assert_eq!(text("has a response with status 404"), page("respond = { status = 404, body = \"x\" }"));
    assert_eq!(Vec::<String>::new(), page("respond.body = \"x\""));
    assert_eq!(Vec::<String>::new(), page("when = 'method == \"GET\"'\nredirect.to = \"/nf2\""));
    let own = "[[site.route]]\nproxy.to = \":1\"\nerror_pages.5xx = \"url:/r\"\n";
    let found = warned(&(route("/r", "redirect.to = \"/s\"") + own));
    assert!(found[0].starts_with("t.toml:9: site.route.error_pages: \"url:/r\" is redirected"), "{found:?}");
}

/// larder requests the page without credentials: the failure of every request for it is known before.
#[test]
fn an_error_page_is_not_behind_access_rules() {
    const USER: &str = "a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe";
    let found = |site: &str, page: &str| {
        let routes = route("/nf", page) + &route("/*", "proxy.to = \":1\"");
        let all = warned(&format!("error_pages.5xx = \"url:/nf\"\n{site}\n{routes}"));
        all.into_iter().filter(|it| it.contains("url:/nf")).collect::<Vec<_>>()
    };
    let report = |rule: &str| {
        vec![format!(
            "t.toml:4: site.error_pages: \"url:/nf\" is behind access.{rule} of the route \"/nf\" at t.toml:6, and larder requests error \
             pages without credentials and without an address; add a route for this path with access.inherit = false before it, or \
             name a file"
        )]
    };
    let basic = format!("basic.users = [\"{USER}\"]");
    let to = "proxy.to = \":1\"\n";
    assert_eq!(report("basic"), found(&format!("access.{basic}"), to));
    assert_eq!(report("allow"), found("access.allow = [\"10.0.0.0/8\"]", to));
    assert_eq!(report("deny"), found("", &format!("{to}access.deny = [\"0.0.0.0/0\"]")));
    assert_eq!(
        report("jwt"),
        found("", &format!("{to}access.jwt = {{ secret = \"{USER}\", issuer = \"i\" }}"))
    );
    let either =
        |list: &str| found(&format!("access = {{ satisfy = \"any\", allow = [\"{list}\"], {basic} }}"), to);
    assert_eq!(report("basic"), either("10.0.0.0/8"));
    let none: Vec<String> = Vec::new();
    assert_eq!(none, either("0.0.0.0/0"));
    assert_eq!(none, found(&format!("access.{basic}"), &format!("{to}access.inherit = false")));
    assert_eq!(none, found("access.deny = [\"10.0.0.0/8\"]", to));
}
