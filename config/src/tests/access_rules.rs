//! Access rules: those that are empty, those that a route leaves to its site, and credentials in clear text.

use super::*;

const USER: &str = "a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe";

/// The errors about a site with these lines and a route with these.
fn errors(site: &str, route: &str, base: &Path) -> Vec<String> {
    let text = format!("[[site]]\nhosts = \"a\"\n{site}\n[[site.route]]\nproxy.to = \":1\"\n{route}\n");
    let found = Config::from_text(&text, "t.toml", base, &[]).map(drop);
    found.map_or_else(|it| it.0.iter().map(ToString::to_string).collect(), |()| Vec::new())
}

#[test]
fn rules_that_are_present_but_empty_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty"), "# nobody yet\n\n").unwrap();
    let check = |route: &str, expect: &str| {
        let found = errors("", route, folder.path());
        let found: Vec<_> =
            found.iter().map(|it| it.replace(&format!("{}/", folder.path().display()), "")).collect();
        assert_eq!(vec![format!("t.toml:6: site.route.access{expect}")], found, "{route}");
    };
    check(
        "access = { allow = [] }",
        ".allow: it is empty; add a network, or remove the key to admit every address",
    );
    check("access = { deny = [] }", ".deny: it is empty; add a network, or remove the key");
    let users = ".basic.users: it is empty; add a user as `htpasswd -nB NAME` prints it, or remove the key";
    check("access = { basic = { users = [] } }", users);
    check("access = { basic = { users = [], realm = \"x\" }, satisfy = \"any\" }", users);
    let section = "the section is empty, so it admits every client; ";
    check("access = { basic = {} }", &format!(".basic: {section}add users or file, or remove it"));
    check("[site.route.access.basic]", &format!(".basic: {section}add users or file, or remove it"));
    check("access = { limit = {} }", &format!(".limit: {section}add rate = \"5/s\", or remove it"));
    check("access = { signed = {} }", &format!(".signed: {section}add secret, or remove it"));
    check(
        "access = { signed = { secret = [] } }",
        ".signed.secret: it is empty; add a member, or remove the key",
    );
    check(
        "access = { jwt = {} }",
        &format!(".jwt: {section}add secret, public_key, jwks_file or jwks_url, or remove it"),
    );
    let off = "a route without the rules of its site has access.inherit = false";
    check(
        "access.basic = \"off\"",
        &format!(".basic: expected a section, [site.route.access.basic]; found a value; {off}"),
    );
    check("access = false", &format!(": expected a section, [site.route.access]; found a value; {off}"));
    check("access = {}", &format!(": {section}add a rule, such as allow = [\"10.0.0.0/8\"], or remove it"));
    check(
        "access = { basic = { file = \"empty\" } }",
        ".basic.file: empty: the file has no users; add one with `htpasswd -B FILE NAME`",
    );
}

#[test]
fn an_empty_rule_of_a_route_names_its_own_line() {
    let base = Path::new(".");
    let site = format!(
        "access = {{ allow = [\"10.0.0.0/8\"], basic = {{ users = [\"{USER}\"], realm = \"site\" }} }}"
    );
    for (route, key) in
        [("access = { allow = [] }", "allow"), ("access = { basic = { users = [] } }", "basic.users")]
    {
        let found = errors(&site, route, base);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("t.toml:6: site.route.access.{key}: ")),
            "{found:?}"
        );
    }
}

#[test]
fn a_route_leaves_the_rules_of_its_site() {
    let text = |route: &str| {
        format!(
            "[[block.shared]]\n[[site]]\nhosts = \"a\"\ncsp = \"default-src 'self'\"\nhsts = {{ max_age = \"365d\" }}\n\
             cors.origins = \"*\"\naccess = {{ allow = [\"10.0.0.0/8\"], limit = {{ rate = \"5/s\" }}, basic = {{ users = [\"{USER}\"] }} }}\n\
             [[site.route]]\nproxy.to = \":1\"\n{route}\n"
        )
        .replacen("[[block.shared]]\n", "", 1)
    };
    let route = |keys: &str| read(&text(keys)).unwrap_or_else(|it| panic!("{it}")).sites[0].routes[0].clone();
    let all = route("");
    assert!(all.access.allow.is_some() && !all.access.limits.is_empty() && all.access.basic.is_some());
    assert!(all.finish.hsts.is_some() && all.finish.cors.is_some() && all.finish.fields.len() == 1);
    let none = route("access.inherit = false");
    assert!(none.access.is_none());
    assert_eq!(Source::Default, none.decided.by("site[].route[].access.allow"));
    let own = route("access = { inherit = false, deny = [\"10.0.0.1\"] }");
    assert!(own.access.deny.is_some() && own.access.basic.is_none() && own.access.limits.is_empty());
    let off = route("csp = \"off\"\nhsts.max_age = \"off\"\ncors.origins = []");
    assert!(off.finish.hsts.is_none() && off.finish.cors.is_none() && off.finish.fields.is_empty());
    let cleared = route("hsts.max_age = \"0s\"");
    assert_eq!(Some("max-age=0"), cleared.finish.hsts.as_deref());
}

#[test]
fn a_route_leaves_the_rules_of_the_blocks_of_its_site() {
    let text = |route: &str| {
        format!(
            "[block.office]\naccess.allow = [\"10.0.0.0/8\"]\ntrace = 7\n[[site]]\nhosts = \"a\"\nuse = [\"office\"]\n\
             [[site.route]]\nproxy.to = \":1\"\n{route}\n"
        )
    };
    let found = |route: &str| read(&text(route)).unwrap().sites[0].routes[0].clone();
    assert!(found("").access.allow.is_some());
    let left = found("access.inherit = false");
    assert!(left.access.is_none() && left.trace == 7);
    assert!(found("access.inherit = false\nuse = [\"office\"]").access.allow.is_some(), "its own block");
    let text = format!(
        "[block.users.access.basic]\nusers = [\"{USER}\"]\n[[site]]\nhosts = \"a\"\nuse = \"users\"\n\
         [[site.route]]\nproxy.to = \":1\"\naccess = {{ inherit = false }}\n"
    );
    let found =
        read(&text).unwrap_or_else(|it| panic!("the section of the block is not one of the route: {it}"));
    assert!(found.sites[0].routes[0].access.is_none());
}

/// `shared` of a site is for the rules of the site, wherever they are written; a route with rules of its own says it itself.
#[test]
fn shared_is_not_inherited_by_a_route_with_rules_of_its_own() {
    const BOTS: &str = "access.deny_when = 'header.User-Agent ~ \"bot\"'\naccess.shared = true\n";
    let basic = format!("access.basic.users = [\"{USER}\"]");
    let check = |blocks: &str, site: &str, route: &str, is_shared: bool| {
        let text = format!(
            "listen = \"https://:443\"\ntls.self_signed = true\n{blocks}[[site]]\nhosts = \"a\"\n{site}\n[[site.route]]\nproxy.to = \":1\"\n{route}\n"
        );
        let config = read(&text).unwrap_or_else(|it| panic!("{text}{it}"));
        let warned =
            config.warnings.iter().filter(|it| it.to_string().contains("shared = true of the site")).count();
        assert_eq!(
            (is_shared, usize::from(!is_shared)),
            (config.sites[0].routes[0].access.is_shared, warned),
            "{text}"
        );
    };
    let block = format!("[block.b]\n{BOTS}");
    for (blocks, site) in [("", BOTS), (&*block, "use = \"b\"")] {
        check(blocks, site, "", true);
        check(blocks, site, &basic, false);
        check(blocks, site, "access.allow = [\"10.0.0.0/8\"]", false);
        check(blocks, site, &format!("{basic}\naccess.shared = true"), true);
    }
    check(&block, "", &format!("use = \"b\"\n{basic}"), true);
    check("", &format!("{BOTS}{basic}"), "", true);
    check(&format!("{block}{basic}\n"), "use = \"b\"", "", true);
}

#[test]
fn passwords_in_clear_text_are_warned_of() {
    let warnings = |listen: &str, site: &str, route: &str| {
        let text = format!(
            "listen = {listen}\ntls.self_signed = true\n[[site]]\nhosts = \"a\"\n{site}\n[[site.route]]\nproxy.to = \":1\"\n\
             access.basic.users = [\"{USER}\"]\n{route}\n"
        );
        read(&text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let both = "[\"http://0.0.0.0:80\", \"https://0.0.0.0:443\"]";
    let expect = "t.toml:8: site.route.access.basic: passwords are sent in clear text to http://0.0.0.0:80; set redirect_https = true \
                  for the site, or listeners for the route";
    assert_eq!(vec![expect], warnings(both, "", ""));
    assert_eq!(Vec::<String>::new(), warnings(both, "redirect_https = true", ""));
    assert_eq!(Vec::<String>::new(), warnings(both, "", "listeners = [\"https://0.0.0.0:443\"]"));
    assert_eq!(vec![expect], warnings(both, "", "listeners = [\"http://0.0.0.0:80\"]"));
    assert_eq!(Vec::<String>::new(), warnings("[\"unix:/s\", \"https://0.0.0.0:443\"]", "", ""));
    let given = warnings("\"http://0.0.0.0:80\"", "", "");
    assert!(
        given.iter().any(|it| it.contains("no address of listen has TLS; add one, such as")),
        "{given:?}"
    );
}

#[test]
fn every_bad_user_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("users"), format!("a:plain\n{USER}\nb:{{SHA}}x\n")).unwrap();
    let found =
        errors("", "access.basic = { users = [\"c:plain\", \"d:plain\"], file = \"users\" }", folder.path());
    for part in
        ["the hash of c is", "the hash of d is", "line 1: the hash of a is", "line 3: the hash of b is"]
    {
        assert_eq!(1, found.iter().filter(|it| it.contains(part)).count(), "{part}: {found:?}");
    }
    assert_eq!(4, found.len());
}

#[test]
fn weak_hashes_are_accepted_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let weak = "$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00";
    std::fs::write(folder.path().join("users"), format!("a:{weak}\n{USER}\nb:{weak}\n")).unwrap();
    let text = "listen = \"unix:/s\"\n[[site]]\nhosts = \"a\"\n[[site.route]]\nproxy.to = \":1\"\naccess.basic.file = \"users\"\n";
    let config = Config::from_text(text, "t.toml", folder.path(), &[]).unwrap();
    let found: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    let [warning] = found.as_slice() else { panic!("{found:?}") };
    for part in ["t.toml:6: ", "users: the hash of a is MD5 (apr1)", "`htpasswd -nB a`", "of 1 more users"] {
        assert!(warning.contains(part), "{warning}");
    }
}

#[test]
fn a_table_of_users_is_answered_with_the_form_of_the_list() {
    let folder = tempfile::tempdir().unwrap();
    for users in ["{ bob = \"secret\" }", "7"] {
        let found = errors("", &format!("access.basic.users = {users}"), folder.path()).join(" ");
        let expect = ", such as [\"deploy:$2y$05$";
        assert!(found.contains("access.basic.users: found ") && found.contains(expect), "{users}: {found}");
        assert!(!found.contains("secret"), "{found}");
    }
}

/// A pipe without a writer and a device without an end: `larder check` says so, and neither waits nor fills the memory.
#[test]
fn files_that_are_none_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for file in [&*pipe.to_string_lossy(), "/dev/zero"] {
        let check = |top: &str, route: &str, key: &str, expect: &str| {
            let text =
                format!("{top}\n[[site]]\nhosts = \"a\"\n[[site.route]]\n{route}\n").replace("FILE", file);
            let found = read(&text).map(|_| ()).unwrap_err().to_string();
            assert!(found.contains(&format!("{key}: {file}: {expect}")), "{text}{found}");
        };
        let none = "it is not a regular file";
        check("", "proxy.to = \":1\"\naccess.basic.file = \"FILE\"", "access.basic.file", none);
        let jwt =
            |key: &str| format!("proxy.to = \":1\"\naccess.jwt = {{ issuer = \"i\", {key} = \"FILE\" }}");
        check("", &jwt("jwks_file"), "access.jwt.jwks_file", none);
        check("", &jwt("public_key"), "access.jwt.public_key", none);
        check("geoip.database = \"FILE\"", "proxy.to = \":1\"", "geoip.database", none);
        check("", "respond.file = \"FILE\"", "respond.file", none);
        check("", "proxy.to = \":1\"\nerror_pages = { 404 = \"FILE\" }", "error_pages", none);
    }
}

/// A file that seemed empty was read without a bound, again for each worker, after the check.
#[test]
fn files_that_are_sent_are_read_once_and_with_a_bound() {
    // A regular file of size 0 with terabytes, which cannot be read as a text.
    let endless = "/proc/self/pagemap";
    for (site, route) in [
        ("", "respond.file = \"FILE\""),
        ("", "proxy.to = \":1\"\nerror_pages = { 404 = \"FILE\" }"),
        ("", "proxy.to = \":1\"\nmaintenance = { enabled = true, page = \"FILE\" }"),
        ("redirect_map = \"FILE\"", "proxy.to = \":1\""),
    ] {
        let text = format!("[[site]]\nhosts = \"a\"\n{site}\n[[site.route]]\n{route}\n");
        let found = read(&text.replace("FILE", endless)).map(|_| ()).unwrap_err().to_string();
        assert!(found.contains("pagemap: ") && found.contains("use a regular file of at most"), "{found}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, "old").unwrap();
    let route = format!("respond.file = \"{}\"", file.display());
    let config = read(&format!("[[site]]\nhosts = \"a\"\n[[site.route]]\n{route}\n")).unwrap();
    std::fs::remove_file(&file).unwrap();
    let Service::Respond(it) = &config.sites[0].routes[0].service else { panic!("it is none") };
    let crate::finish::RespondBody::File(sent) = &it.body else { panic!("{:?}", it.body) };
    assert_eq!(("old".as_bytes(), file), (&*sent.content, sent.path.clone()));
}

/// Rules for `/login` that `/login/` gets past, to the same application.
#[test]
fn a_path_with_a_slash_at_its_end_is_another_one() {
    let warned = |own: &str, next: &str| {
        let text = format!(
            "[[site]]\nhosts = [\"a\"]\n[[site.route]]\npath = \"/log.in\"\nproxy.to = \":1\"\n{own}\n[[site.route]]\npath = \"/*\"\n{next}\n"
        );
        let all = read(&text).unwrap().warnings.into_iter().map(|it| it.to_string());
        all.filter(|it| it.contains("most applications")).collect::<Vec<_>>()
    };
    let limit = "access.limit = { rate = \"5/m\" }";
    let report = |rule: &str, line: u32| {
        vec![format!(
            "t.toml:4: site.route.path: \"/log.in/\" is a request of the route \"/*\" at t.toml:{line}, without access.{rule}, and most \
             applications take it for \"/log.in\"; write path = \"regex:(?i)/log[.]in/?\", which is for both and for every case"
        )]
    };
    let (open, none) = ("proxy.to = \":1\"", Vec::<String>::new());
    assert_eq!(report("limit", 7), warned(limit, open));
    assert_eq!(report("limit", 8), warned(&format!("methods = \"POST\"\n{limit}"), open));
    assert_eq!(report("allow", 7), warned("access.allow = \"10.0.0.0/8\"", open));
    // Another application, a route for other methods, the same rule, and no rule.
    assert_eq!(none, warned(limit, "proxy.to = \":2\""));
    assert_eq!(none, warned(limit, "redirect.to = \"/log.in\""));
    assert_eq!(none, warned(&format!("methods = \"POST\"\n{limit}"), "methods = \"GET\"\nproxy.to = \":1\""));
    assert_eq!(
        none,
        warned("access.allow = \"10.0.0.0/8\"", &format!("{open}\naccess.allow = \"10.0.0.0/8\""))
    );
    assert_eq!(none, warned("", open));
    let both = |path: &str| format!("{limit}\n[[site.route]]\npath = \"{path}\"\nredirect.to = \"/log.in\"");
    assert_eq!(none, warned(&both("/log.in/"), open));
    let text = format!(
        "[[site]]\nhosts = [\"a\"]\n[[site.route]]\npath = \"regex:(?i)/log[.]in/?\"\nproxy.to = \":1\"\n{limit}\n[[site.route]]\nproxy.to = \":1\"\n"
    );
    assert_eq!(0, read(&text).unwrap().warnings.len());
}
