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
