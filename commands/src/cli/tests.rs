//! Command lines and what is made of them.

use super::*;
use larder_config::{AdminListen, Service};
use larder_origin::OriginAddress;
use larder_semantics::scheme::Scheme;
use std::time::Duration;

fn read(line: &str) -> Result<Command, Usage> {
    parse(line.split_whitespace().map(OsString::from))
}

#[track_caller]
fn refuse(line: &str, expect: &str) {
    match read(line) {
        Err(Usage(text)) => assert_eq!(expect, text, "{line}"),
        Ok(command) => panic!("{line}: {command:?}"),
    }
}

#[track_caller]
fn config(line: &str) -> Config {
    match read(line) {
        Ok(Command::Serve(plan)) => plan.load().unwrap_or_else(|it| panic!("{line}: {it}")),
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn reject(line: &str, expect: &str) {
    match read(line) {
        Ok(Command::Serve(plan) | Command::Check(plan) | Command::CheckConnect(plan)) => {
            assert_eq!(expect, plan.load().map(|_| ()).unwrap_err().to_string(), "{line}");
        }
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn proxy_needs_no_file() {
    let it = config(
        "proxy http://127.0.0.1:8000 --listen 127.0.0.1:0 --listen unix:/tmp/l --ram 8MiB --admin off",
    );
    assert_eq!(2, it.listen.len());
    assert_eq!((8 << 20, AdminListen::Off), (it.ram.budget, it.admin.listen));
    let Service::Proxy(proxy) = &it.sites[0].routes[0].service else { panic!("a proxy") };
    assert_eq!("http://127.0.0.1:8000", proxy.to.members[0].name());
    assert_eq!("127.0.0.1:8080", config("proxy :1").listen[0].spelled());
}

#[test]
fn flags_are_keys() {
    let it = config(
        "proxy :1 --workers=3 --default-ttl 1m --private-cookies session*,sid --set proxy.connect_timeout=1s \
         --set cache.max_ttl=1h",
    );
    let route = &it.sites[0].routes[0];
    assert_eq!(Some(3), it.workers.map(Into::into));
    assert_eq!((Some(60), 3600), (route.cache.default_ttl, route.cache.max_ttl));
    assert_eq!(["session*", "sid"], route.cache.private_cookies.as_slice());
    assert_eq!("--default-ttl", route.decided.by("cache.default_ttl").to_string());
    let Service::Proxy(proxy) = &route.service else { panic!("a proxy") };
    assert_eq!(1, proxy.limits.connect.as_secs());
}

#[test]
fn a_key_of_the_only_route_has_several_spellings() {
    for key in ["proxy.connections", "site.route.proxy.connections", "site[].route[].proxy.connections"] {
        let it = config(&format!("proxy :1 --set {key}=7"));
        let Service::Proxy(proxy) = &it.sites[0].routes[0].service else { panic!("{key}") };
        assert_eq!(7, proxy.limits.connections, "{key}");
    }
    assert_eq!(9, config("proxy :1 --set site.route.cache.max_ttl=9s").sites[0].routes[0].cache.max_ttl);
    refuse(
        "proxy :1 --set site.route.proxy.connection=7",
        "--set: unknown key \"site.route.proxy.connection\"; did you mean site.route.proxy.connections?",
    );
}

#[test]
fn a_value_may_be_written_as_in_a_file() {
    let with = |setting: &str| {
        let line = ["proxy", ":1", "--set", setting].map(OsString::from);
        match parse(line) {
            Ok(Command::Serve(plan)) => plan.load().unwrap_or_else(|it| panic!("{setting}: {it}")),
            other => panic!("{setting}: {other:?}"),
        }
    };
    for setting in ["cache.status_ttl={ 404 = \"10s\", 500 = '1s' }", "cache.status_ttl=404=10s,500=1s"] {
        assert_eq!(vec![(404, 10), (500, 1)], with(setting).sites[0].routes[0].cache.status_ttl, "{setting}");
    }
    for setting in ["proxy.connect_timeout=\"5s\"", "proxy.connect_timeout='5s'", "proxy.connect_timeout=5s"]
    {
        let it = with(setting);
        let Service::Proxy(proxy) = &it.sites[0].routes[0].service else { panic!("{setting}") };
        assert_eq!(5, proxy.limits.connect.as_secs(), "{setting}");
    }
    for setting in ["listen=[\"[::1]:80\", \"unix:/l\"]", "listen=[::1]:80,unix:/l"] {
        let listen: Vec<_> = with(setting).listen.iter().map(|it| it.spelled()).collect();
        assert_eq!(["[::1]:80", "unix:/l"], listen.as_slice(), "{setting}");
    }
    let cookies =
        with("cache.private_cookies=[\"a\", \"b*\"]").sites[0].routes[0].cache.private_cookies.clone();
    assert_eq!(["a", "b*"], cookies.as_slice());
    assert_eq!(8 << 20, with("cache.ram.size=\"8MiB\"").ram.budget);
    reject(
        "proxy :1 --set cache.max_ttl=\"x\"",
        "--set cache.max_ttl: found \"\\\"x\\\"\"; allowed: a duration in whole seconds such as \"5m\", up to \"3650d\"",
    );
    reject(
        "proxy :1 --set workers=[1]",
        "--set workers: found \"[1]\"; allowed: a whole number from 1 to 1024",
    );
}

#[test]
fn the_only_site_and_route_are_set_too() {
    let it = config(
        "proxy :1 --set site.hosts=a.test,b.test --set site.route.path=/x/* --set site.route.methods=GET",
    );
    let (site, route) = (&it.sites[0], &it.sites[0].routes[0]);
    let hosts: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(
        (vec!["a.test".to_owned(), "b.test".to_owned()], "/x/*"),
        (hosts, route.path.to_string().as_str())
    );
    assert!(route.methods.allow("GET") && !route.methods.allow("POST"));
    refuse(
        "proxy :1 --set site[].host=a",
        "--set: unknown key \"site[].host\"; larder calls it `site.hosts`",
    );
    refuse("proxy :1 --set proxy.to=:2", "--set: proxy.to is set by the argument ORIGIN");
    refuse("serve src --set files.root=x", "--set: files.root is set by the argument DIR");
    refuse(
        "serve src --set proxy.connections=1",
        "--set: proxy.connections applies to a route with an origin, such as that of `larder proxy`",
    );
    refuse(
        "proxy :1 --set site.route.files.root=x",
        "--set: site.route.files.root applies to a route with files, such as that of `larder serve`",
    );
    refuse(
        "run --set site.hosts=a",
        "--set: site.hosts applies to one of several sites: set it in the configuration file",
    );
    refuse(
        "check --set site.route.path=/",
        "--set: site.route.path applies to one of several routes: set it in the configuration file",
    );
}

#[test]
fn serve_needs_no_file() {
    let it = config("serve src --listing");
    assert!(matches!(&it.sites[0].routes[0].service, Service::Files(files) if files.listing));
    let files = |line: &str| match config(line).sites.swap_remove(0).routes.swap_remove(0).service {
        Service::Files(files) => files,
        _ => panic!("{line}"),
    };
    let habits = files("serve src");
    assert!(habits.clean_urls && habits.compress.is_some() && !habits.listing && habits.members.len() == 2);
    assert_eq!(Some("/404.html"), habits.not_found.as_deref());
    let other = files("serve src --spa --set files.clean_urls=false --set files.compress=false");
    assert!(!other.clean_urls && other.compress.is_none() && other.members.len() == 2);
    assert!(!files("serve src --set files.try={path},=404").clean_urls);
    reject("serve nowhere", "DIR: nowhere: no such file or directory; use an existing directory");
    reject("serve Cargo.toml", "DIR: Cargo.toml: is not a directory; use an existing directory");
}

#[test]
fn wrong_command_lines_name_the_remedy() {
    refuse("prxy :1", "unknown command \"prxy\"; did you mean `larder proxy`?");
    refuse("check b.toml", "unexpected argument \"b.toml\"; write `larder check -c b.toml`");
    refuse("run /etc/b", "unexpected argument \"/etc/b\"; write `larder run -c /etc/b`");
    refuse(
        "run nothing-of-that-name",
        "unexpected argument \"nothing-of-that-name\"; try `larder run --help`",
    );
    for word in ["stop", "reload", "validate", "adapt", "fmt", "diff"] {
        let Err(Usage(text)) = read(word) else { panic!("{word}") };
        assert!(
            text.starts_with(&format!("unknown command {word:?}; ")) && !text.contains("did you mean"),
            "{text}"
        );
    }
    refuse("proxy :1 --set foo=1", "--set: unknown key \"foo\"; docs/generated/config.md lists them");
    refuse("dance", "unknown command \"dance\"; `larder --help` lists the commands");
    refuse("replay", "`larder replay` is not implemented; `larder --help` lists the commands");
    refuse("--listen :1", "--listen: expected a command first; try `larder --help`");
    refuse("proxy", "`larder proxy` requires ORIGIN; for example `larder proxy http://127.0.0.1:8000`");
    refuse("proxy :1 :2", "unexpected argument \":2\"; try `larder proxy --help`");
    refuse("proxy :1 --lisen :1", "--lisen: unknown flag; did you mean --listen?");
    refuse("proxy :1 --ram", "--ram requires a value: --ram SIZE");
    refuse("proxy :1 --listing", "--listing: unknown flag; did you mean --listen?");
    refuse(
        "proxy :1 --set cache.max_tl=1",
        "--set: unknown key \"cache.max_tl\"; did you mean cache.max_ttl?",
    );
    refuse(
        "proxy :1 --set proxy_read_timeout=1s",
        "--set: unknown key \"proxy_read_timeout\"; larder calls these `site.route.proxy.first_byte_timeout` (until the response begins) and `site.route.proxy.between_bytes_timeout` (between two parts of it)",
    );
    reject("proxy :1 --ram 5x", "--ram: found \"5x\"; allowed: a size from \"1MiB\" to \"64TiB\"");
    reject(
        "proxy nonsense",
        "ORIGIN: found \"nonsense\"; allowed: \"http://HOST:PORT\", \"https://HOST:PORT\", \"h2c://HOST:PORT\", each optionally with a base path (\"http://HOST:PORT/v2\"), \"fastcgi://HOST:PORT\", \"scgi://HOST:PORT\", \"uwsgi://HOST:PORT\", \"HOST:PORT\", \"unix:/PATH\" or \"h2c+unix:/PATH\", \"fastcgi+unix:/PATH\", \"scgi+unix:/PATH\", \"uwsgi+unix:/PATH\", optionally followed by a space and \"weight=N\" from 1 to 1000, or \"drain\"",
    );
    reject("run -c nowhere.toml", "nowhere.toml: cannot be read: no such file or directory");
}

/// Though it would be a table in a file.
#[test]
fn a_log_format_without_fields_is_rejected_with_the_field_names() {
    let Ok(Command::Serve(plan)) = read("proxy :3000 --log-format {}") else { panic!("proxy") };
    let why = plan.load().unwrap_err().to_string();
    assert!(why.starts_with("--log-format: found \"{}\"; allowed: for {} one of time, client"), "{why}");
}

#[test]
fn explain_takes_a_request() {
    let line = ["explain", "http://a:1/x?y#z", "-H", "Cookie: a=1; b=2", "-X", "HEAD", "--json"];
    let Ok(Command::Explain(it)) = parse(line.map(OsString::from)) else { panic!("explain") };
    assert_eq!(("a:1", "/x?y", "HEAD"), (it.authority.as_str(), it.target.as_str(), it.method.as_str()));
    assert_eq!(vec![("Cookie".to_owned(), "a=1; b=2".to_owned())], it.fields);
    assert_eq!(Output::Json, it.output);
    let Ok(Command::Explain(it)) = read("explain a:1 --admin unix:/tmp/x") else { panic!("explain") };
    assert_eq!(("http", "/"), (it.scheme.as_str(), it.target.as_str()));
    assert!(it.admin.is_some());
    let Ok(Command::Explain(it)) = read("explain a:1 --client ::1 --listener 0.0.0.0:80 --server-name b")
    else {
        panic!("explain")
    };
    assert_eq!((Some("::1"), Some("0.0.0.0:80")), (it.client.as_deref(), it.listener.as_deref()));
    assert_eq!(Some("b"), it.server_name.as_deref());
    refuse("explain a:1 --client bob", "--client: found \"bob\"; allowed: an IP address, or unix");
    let whole = "--id selects a complete request; remove the URL and the other flags of the request";
    refuse("explain --id 1fq2k8zd --client ::1", whole);
    refuse("explain ftp://a/", "URL: found \"ftp://a/\"; allowed: http://HOST:PORT/PATH");
    for subject in ["/blog?page=2", "tag:post-17", "1fq2k8zd"] {
        let Ok(Command::Explain(it)) = read(&format!("explain {subject}")) else {
            panic!("explain {subject}")
        };
        assert_eq!((Some(subject), ""), (it.subject.as_deref(), &*it.authority));
    }
    let pattern = "is a pattern, not a URL; allowed: one page, http://HOST:PORT/PATH";
    refuse("explain http://127.0.0.1:8080*", &format!("URL: \"http://127.0.0.1:8080*\" {pattern}"));
    // Before a larder is looked for.
    refuse(
        "purge --where status",
        "--where, column 7: a comparison is missing; write ==, !=, <, <=, >, >= or in",
    );
    let compares = "\"=\" has nothing to compare; write ==, !=, ~, !~, contains or in";
    refuse("tail host =", &format!("FILTER, column 6: {compares}"));
    refuse("explain a -H nonsense", "--header: found \"nonsense\"; allowed: 'NAME: VALUE'");
}

#[test]
fn bench_accepts_a_comparison_and_its_options() {
    let bench = |line: &str| match read(line) {
        Ok(Command::Bench(it)) => it,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(crate::bench::BenchOptions::default(), bench("bench tiers").options);
    let it = bench("bench tiers --server a:1 --server b:2 --concurrency 1,50 --rounds 2 --time 200ms --json");
    assert_eq!(
        (vec!["a:1".to_owned(), "b:2".to_owned()], vec![1, 50]),
        (it.options.servers, it.options.concurrency)
    );
    assert_eq!(
        (2, Duration::from_millis(200), Output::Json),
        (it.options.rounds, it.options.cell, it.output)
    );
    refuse("bench", "`larder bench` requires COMPARISON; for example `larder bench tiers`");
    refuse("bench ties", "COMPARISON: found \"ties\"; allowed: tiers");
    refuse("bench tiers --rounds 0", "--rounds: found \"0\"; allowed: a number from 1 to 1000");
    refuse("bench tiers --time 1ms", "--time: found \"1ms\"; allowed: a duration from 50ms to 10m");
}

#[test]
fn purge_accepts_targets_and_its_options() {
    let purge = |line: &str| match read(line) {
        Ok(Command::Purge(it)) => it,
        other => panic!("{line}: {other:?}"),
    };
    let it = purge("purge http://a:1/x a:1/y --soft --json");
    let text = |it: &PurgeCommand| it.asked.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        ["{\"url\":\"http://a:1/x\",\"soft\":true}", "{\"url\":\"a:1/y\",\"soft\":true}"],
        text(&it).as_slice()
    );
    assert_eq!((Some("a:1"), Output::Json), (it.authority.as_deref(), it.output));
    let it = purge("purge /x --host h --wait --admin 127.0.0.1:9180");
    assert_eq!(["{\"url\":\"/x\",\"wait\":true,\"host\":\"h\"}"], text(&it).as_slice());
    assert_eq!((Some("h"), true), (it.authority.as_deref(), it.admin.is_some()));
    assert_eq!(2, purge("purge --tag a --tag b --validate").asked.len());
    assert_eq!(["{\"all\":true}"], text(&purge("purge --all")).as_slice());
    assert!(purge("purge --all --dry-run").dry_run && !purge("purge --all").dry_run);
    refuse(
        "purge",
        "`larder purge` requires a target: URLs, --prefix, --tag, --where or --all; for example `larder purge \
         http://127.0.0.1:8080/news`",
    );
    refuse("purge a/x --tag t", "URLs and --tag cannot be combined; run two purges");
    refuse(
        "purge --all --soft --validate",
        "--soft and --validate cannot be combined; --soft may serve stale responses, --validate asks the origin before the next use",
    );
    refuse("purge --tag t --host h", "--host is only valid with URLs and --prefix, not with --tag");
    refuse(
        "purge --tag=",
        "--tag is empty; a tag is a value of the Surrogate-Key or Cache-Tag field of a response",
    );
    refuse(
        "purge http://h/a ftp://h/",
        "URL: \"ftp://h/\" has a scheme that this server does not use; write http://HOST/PATH",
    );
    refuse("purge h", "URL: \"h\" is ambiguous: host or path; write http://HOST/PATH, or /PATH with --host");
    refuse("purge --prefix /x", "--prefix: \"/x\" has no host; write http://HOST/PATH, or add --host");
    refuse("purge http://h:99999/", "URL: \"h:99999\" is not a host; write http://HOST/PATH");
    refuse(
        "purge --prefix blog",
        "--prefix: \"blog\" is ambiguous: host or path; write http://blog/ for a whole host, or /blog with --host",
    );
    refuse(
        "purge --prefix blog/",
        "--prefix: \"blog/\" is ambiguous: host or path; write http://blog/ for a whole host, or /blog/ with --host",
    );
    for start in ["h.x/", "localhost/", "h:80/", "http://h/", "//h/"] {
        assert_eq!(1, purge(&format!("purge --prefix {start}")).asked.len(), "{start}");
    }
    refuse("purge --tga t", "--tga: unknown flag; did you mean --tag?");
}

#[test]
fn warm_takes_urls_and_bounds() {
    let warm = |line: &str| match read(line) {
        Ok(Command::Warm(it)) => it,
        other => panic!("{line}: {other:?}"),
    };
    let it = warm("warm --sitemap https://h/sitemap.xml");
    assert_eq!(UrlSource::Sitemap("https://h/sitemap.xml".to_owned()), it.from);
    assert_eq!((4, None, None), (it.concurrency, it.rate, it.budget));
    let it = warm("warm --list - --concurrency 8 --rate 50 --misses 9 --to unix:/run/l --json");
    assert_eq!(
        (UrlSource::List("-".into()), 8, Some(50), Some(9)),
        (it.from, it.concurrency, it.rate, it.budget)
    );
    assert!(it.output == Output::Json && it.scheme.is_none());
    assert_eq!(vec![(OriginAddress::Unix("/run/l".into()), Scheme::Http)], it.to);
    let it = warm("warm --list - --to https://h:1 --to http://h:2 --to :3 --as https");
    let to = [("h", 1, Scheme::Https), ("127.0.0.1", 3, Scheme::Http)];
    assert_eq!(to.map(|it| (OriginAddress::Tcp(it.0.to_owned(), it.1), it.2)).to_vec(), it.to);
    assert_eq!(Some(Scheme::Https), it.scheme);
    refuse("warm --list - --as ftp", "--as: found \"ftp\"; allowed: http, https");
    refuse(
        "warm",
        "`larder warm` requires URLs: --sitemap URL, --log FILE or --list FILE; for example `larder warm --sitemap \
         http://127.0.0.1:8080/sitemap.xml`",
    );
    refuse("warm --log a --list b", "--log and --list cannot be combined; run warm twice");
    refuse("warm --list b --rate 0", "--rate: found \"0\"; allowed: a whole number from 1 to 1000000");
    refuse("warm --sitemap ftp://h/", "--sitemap: found \"ftp://h/\"; allowed: http://HOST:PORT/PATH");
    refuse("warm b", "unexpected argument \"b\"; try `larder warm --help`");
}

#[test]
fn every_command_helps() {
    for command in COMMANDS {
        let Ok(Command::Print(text)) = read(&format!("{} --help", command.word)) else { panic!("help") };
        assert!(text.contains("Examples:\n  larder "), "{}", command.word);
        assert!(text.contains("Exit codes:"));
        for flag in command.flags.iter().copied().flatten() {
            let key = match flag.means {
                Means::Key(key) | Means::Member(key) | Means::True(key) => key.replace("[0]", "[]"),
                _ => continue,
            };
            assert!(table::find(&key).is_some(), "--{} sets the unknown key {key}", flag.long);
        }
        for (typed, _) in command.examples {
            let words = typed.replace('\'', "");
            assert!(words.starts_with(&format!("larder {}", command.word)), "{typed}");
        }
    }
    assert!(matches!(read("--version"), Ok(Command::Print(it)) if it.starts_with("larder ")));
    assert!(matches!(read(""), Ok(Command::Print(_))));
}

#[test]
fn overlays() {
    let overlay = |line: &str| match read(line) {
        Ok(Command::Overlay(it)) => it.what,
        other => panic!("{line}: {other:?}"),
    };
    let (uri, file) = ("/shop".to_owned(), "soon.html".into());
    let (ttl, status, media) = (Some(3600), Some(503), Some("text/html".to_owned()));
    let add = OverlayWhat::Add { uri, file, ttl, status, media };
    assert_eq!(add, overlay("overlay add /shop soon.html --ttl 1h --status 503 --type text/html"));
    assert_eq!(OverlayWhat::Remove("/shop".to_owned()), overlay("overlay remove /shop --admin :9180"));
    assert_eq!(OverlayWhat::List, overlay("overlay list --json"));
    let example = "for example `larder overlay add /shop soon.html`";
    let refused = |line: &str, why: &str| refuse(line, &format!("{why}; {example}"));
    refused("overlay", "`larder overlay` requires an action: add URI FILE, remove URI, list");
    refused("overlay add /shop", "`larder overlay add URI FILE`: FILE is missing");
    refused("overlay remove", "`larder overlay remove URI`: URI is missing");
    refuse("overlay list x", "unexpected argument \"x\"; `larder overlay list`");
    refuse("overlay remove /a /b", "unexpected argument \"/b\"; `larder overlay remove URI`");
    refuse("overlay frob /shop", "`larder overlay`: unknown action \"frob\"; known: add, remove, list");
    refuse(
        "overlay remov /shop",
        "`larder overlay`: unknown action \"remov\"; known: add, remove, list; did you mean remove?",
    );
    refuse(
        "overlay add / x --ttl 0",
        "--ttl: found \"0\"; allowed: a duration in whole seconds from \"1s\", such as 1h",
    );
    refuse("overlay add / x --status 304", "--status: found \"304\"; allowed: 200, or 400 to 599");
    for (uri, why) in [
        ("/*", "is a pattern; an overlay covers one URI, so set one for each URI without `*`"),
        (
            "h.test",
            "is ambiguous: host or path; write /PATH for every host, or http://HOST/PATH for one host and both schemes",
        ),
        (
            "shop",
            "is ambiguous: host or path; write /PATH for every host, or http://HOST/PATH for one host and both schemes",
        ),
        (
            "shop/a.css",
            "is ambiguous: host or path; write /PATH for every host, or http://HOST/PATH for one host and both schemes",
        ),
    ] {
        refuse(&format!("overlay add {uri} soon.html"), &format!("URI: {uri:?} {why}"));
        refuse(&format!("overlay remove {uri}"), &format!("URI: {uri:?} {why}"));
    }
    for uri in ["h.test/shop", "localhost/", "http://h/", "*://h/x", "//x", "/?a*"] {
        assert_eq!(OverlayWhat::Remove(uri.to_owned()), overlay(&format!("overlay remove {uri}")));
    }
    refuse("overlay list --ttl 1h", "--ttl is only valid with `larder overlay add`");
}

#[test]
fn origins() {
    let origin = |line: &str| match read(line) {
        Ok(Command::Origin(it)) => it.what,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(OriginWhat::List, origin("origin list --json"));
    // As statistics spell it, however it is typed.
    assert_eq!(OriginWhat::Drain("http://10.0.0.2:8000".to_owned()), origin("origin drain 10.0.0.2:8000"));
    assert_eq!(OriginWhat::Restore("h2c://a:1".to_owned()), origin("origin restore h2c://a:1 --admin :9180"));
    let example = "for example `larder origin drain http://10.0.0.2:8000`";
    let refused = |line: &str, why: &str| refuse(line, &format!("{why}; {example}"));
    refused("origin", "`larder origin` requires an action: list, drain ORIGIN, restore ORIGIN");
    refused("origin drain", "`larder origin drain ORIGIN`: ORIGIN is missing");
    refused("origin restore", "`larder origin restore ORIGIN`: ORIGIN is missing");
    refuse("origin list x", "unexpected argument \"x\"; `larder origin list`");
    refuse("origin frob :1", "`larder origin`: unknown action \"frob\"; known: list, drain, restore");
    refuse(
        "origin drain ftp://a",
        "ORIGIN: found \"ftp://a\"; allowed: its address as in proxy.to, such as http://10.0.0.2:8000",
    );
}

#[test]
fn completions_know_every_command_and_flag_and_are_valid_scripts() {
    let script = |shell: &str| match read(&format!("completions {shell}")) {
        Ok(Command::Print(it)) => it,
        other => panic!("{shell}: {other:?}"),
    };
    for shell in ["bash", "zsh", "fish"] {
        let text = script(shell);
        for command in COMMANDS {
            assert!(text.contains(command.word), "{shell}: {}", command.word);
            let mut flags = command.flags.iter().copied().flatten();
            assert!(flags.all(|it| text.contains(it.long)), "{shell}: a flag of {}", command.word);
        }
    }
    let asks = "COMP_WORDS=(larder pu); COMP_CWORD=1; _larder; echo \"${COMPREPLY[@]}\"
        COMP_WORDS=(larder purge --pre); COMP_CWORD=2; _larder; echo \"${COMPREPLY[@]}\"
        COMP_WORDS=(larder sign --set --e); COMP_CWORD=3; _larder; echo \"${COMPREPLY[@]}\"";
    let bash = std::process::Command::new("bash")
        .args(["-c", &format!("{}\n{asks}", script("bash"))])
        .output()
        .unwrap();
    assert_eq!("purge\n--prefix\n--expires\n", String::from_utf8_lossy(&bash.stdout), "{bash:?}");
    refuse("completions csh", "found \"csh\"; allowed: bash, zsh, fish");
    refuse(
        "completions",
        "`larder completions` requires SHELL; for example `larder completions bash > /etc/bash_completion.d/larder`",
    );
}

#[test]
fn manual_pages_have_every_row_and_no_line_that_is_a_request_by_accident() {
    for (name, expect) in [("larder", "larder purge URL..."), ("larder.toml", "cache.ram.size")] {
        let Ok(Command::Print(text)) = read(&format!("man {name}")) else { panic!("{name}") };
        assert!(text.contains(expect), "{name}: {expect}");
        for line in text.lines() {
            let request = line.split(' ').next().unwrap_or_default();
            let known = [".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".I", ".PP"];
            assert!(!request.starts_with(['.', '\'']) || known.contains(&request), "{name}: {line}");
        }
    }
    assert!(matches!(read("man"), Ok(Command::Print(it)) if it.starts_with(".TH LARDER 1")));
    assert_eq!(Ok(Command::Print(help::version())), read("version"));
    refuse("man larder.conf", "found \"larder.conf\"; allowed: larder, larder.toml");
}

#[test]
fn a_domain_is_all_that_a_public_server_needs() {
    for line in ["proxy :1", "serve ."] {
        let it = config(&format!("{line} --domain Example.com --domain www.example.com,a.example.com."));
        let listen: Vec<String> = it.listen.iter().map(|it| it.spelled()).collect();
        assert_eq!(["[::]:80", "https://[::]:443"], listen[..]);
        let acme = it.tls.unwrap().acme.unwrap();
        assert_eq!(["a.example.com", "example.com", "www.example.com"], acme.names[..]);
        assert_eq!(larder_config::tls::LETS_ENCRYPT, acme.authorities[0].directory.url());
        let hosts: Vec<String> = it.sites[0].hosts.iter().map(ToString::to_string).collect();
        assert_eq!(["example.com", "www.example.com", "a.example.com"], hosts[..]);
        assert!(it.sites[0].redirects.to_https, "{line}");
        assert!(it.warnings.is_empty(), "{:?}", it.warnings);
    }
    let it = config(
        "proxy :1 --domain a.test --listen http://0.0.0.0:80 --listen https://0.0.0.0:443 --acme-email ops@a.test \
         --acme-ca https://ca.test/dir --set redirect_https=false",
    );
    let listen: Vec<String> = it.listen.iter().map(|it| it.spelled()).collect();
    assert_eq!(["0.0.0.0:80", "https://0.0.0.0:443"], listen[..]);
    let acme = it.tls.unwrap().acme.unwrap();
    assert_eq!((Some("ops@a.test"), 1), (acme.email.as_deref(), acme.authorities.len()));
    assert_eq!("https://ca.test/dir", acme.authorities[0].directory.url());
    assert!(!it.sites[0].redirects.to_https);
}

#[test]
fn mistakes_about_domains() {
    refuse("proxy :1 --domain", "--domain requires a value: --domain NAME");
    refuse(
        "serve . --acme-email a@b.test",
        "--acme-email has no effect without --domain; add --domain example.com",
    );
    refuse(
        "proxy :1 --acme-ca https://ca.test/",
        "--acme-ca has no effect without --domain; add --domain example.com",
    );
    refuse(
        "proxy :1 --domain a.test --set hosts=b.test",
        "--set: hosts is set by --domain, which may be repeated",
    );
    for (domain, expect) in [
        (
            "*.a.test",
            "--domain: \"*.a.test\" gets no certificate by tls.acme: a wildcard needs the DNS-01 challenge",
        ),
        ("localhost", "--domain: no site has a host name for which a CA can issue a certificate"),
        ("192.0.2.1", "--domain: no site has a host name for which a CA can issue a certificate"),
        ("https://a.test", "--domain: found"),
        ("", "--domain: "),
    ] {
        let line = ["serve", ".", "--domain", domain].map(OsString::from);
        let Ok(Command::Serve(plan)) = parse(line) else { panic!("{domain}") };
        let why = plan.load().map(drop).unwrap_err().to_string();
        assert!(why.starts_with(expect), "{domain}: {why}");
    }
}
