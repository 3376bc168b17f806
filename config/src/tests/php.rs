//! The section `php`: its two routes, the keys that refine it, and mistakes.

use super::{read, refuse_whole};
use crate::php::PhpConfig;
use crate::{Config, Methods, Service};

const START: &str = "[[site]]\nhosts = \"a\"\n[[site.route]]\n";
const PHP: &str = "php = { root = \"src\", to = \"unix:/run/php.sock\", front_controller = \"lib.rs\" }";

fn config(more: &str) -> Config {
    read(&format!("{START}{PHP}\n{more}")).unwrap()
}

fn php_of(config: &Config) -> PhpConfig {
    let routes = &config.sites[0].routes;
    let Service::Proxy(proxy) = &routes[routes.len() - 1].service else { panic!("the scripts") };
    (**proxy.php.as_ref().unwrap()).clone()
}

#[track_caller]
fn refuse(php: &str, more: &str, expect: &str) {
    refuse_whole(&format!("{START}php = {{ {php} }}\n{more}"), &format!("t.toml:{expect}"));
}

#[test]
fn a_section_is_two_routes() {
    let it = config(
        "name = \"shop\"\naccess = { deny = [\"10.0.0.0/8\"] }\nclient_ttl = \"1h\"\n[[site.route]]\npath = \"/a\"\nrespond.status = 404",
    );
    let [files, scripts, last] = &it.sites[0].routes[..] else { panic!("three") };
    assert_eq!(["shop:files", "shop"], [&*files.name, &scripts.name]);
    assert_eq!([0, 0, 1], [files, scripts, last].map(|it| it.number));
    assert!(matches!(&files.service, Service::Files(it) if it.fall_through));
    assert_eq!((&Methods::Any, files.access.clone()), (&scripts.methods, scripts.access.clone()));
    assert!(files.methods.allow("HEAD") && !files.methods.allow("POST"));
    assert_eq!(files.source, scripts.source);
    let named: Vec<_> = scripts.origins().map(ToString::to_string).collect();
    assert_eq!(["fastcgi+unix:/run/php.sock"], named[..]);
    assert!(config("").warnings.is_empty());
    // Without GET no file answers.
    assert_eq!(1, config("methods = [\"POST\"]").sites[0].routes.len());
}

#[test]
fn a_secret_of_a_script_is_read_from_its_file_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "s3cr{}et\n").unwrap();
    let text = |value: &str| {
        format!(
            "{}php = {{ root = \".\", to = \"127.0.0.1:9\", env = {{ DB_PASSWORD = \"{value}\" }} }}",
            START
        )
    };
    let config = Config::from_text(&text("file:key"), "t.toml", folder.path(), &[]).unwrap();
    assert_eq!("s3cr{}et", php_of(&config).env[0].1);
    let why = Config::from_text(&text("s3cret\\u0001"), "t.toml", folder.path(), &[]).map(drop).unwrap_err();
    let why = why.to_string();
    assert!(why.contains("site.route.php.env.DB_PASSWORD: found a value, not shown here; allowed: a text without control characters") && !why.contains("s3cret"), "{why}");
}

#[test]
fn variables_of_scripts_that_read_the_request_have_the_rules_of_proxy_env() {
    let of = |env: &str| format!("php = {{ root = \"src\", to = \"127.0.0.1:9\", env = {{ {env} }} }}");
    let of_env = |env: &str| read(&format!("{START}{}", of(env))).unwrap();
    let it =
        of_env("A = \"{{x}} {host}\", HTTPS = \"on\", DOCUMENT_ROOT = \"/app\", EMPTY = \"\", J = \"{{}}\"");
    let constants: Vec<_> = php_of(&it).env.iter().map(|it| format!("{}={}", it.0, it.1)).collect();
    assert_eq!(["HTTPS=on", "DOCUMENT_ROOT=/app", "EMPTY=", "J={}"], constants.as_slice());
    let names = |it: &Config| it.sites[0].routes[1].rewrite.variables.as_ref().unwrap().1.describe();
    assert_eq!("sets the variables A", names(&it));
    let warned = of_env("A = \"{header.x-in}\"").warnings.iter().map(ToString::to_string).collect::<String>();
    assert!(
        warned.contains("site.route.php.env: A reads {header.x-in}, which is not part of the cache key"),
        "{warned}"
    );
    for (env, why) in [
        ("HTTPS = \"{header.x-proto}\"", "HTTPS cannot be set: it is the scheme of the client"),
        (
            "REMOTE_ADDR = \"{header.x-real-ip}\"",
            "REMOTE_ADDR cannot be set: it is the address of the client",
        ),
        (
            "SCRIPT_FILENAME = \"/srv/{host}/index.php\"",
            "SCRIPT_FILENAME reads the request, but larder finds the script",
        ),
        ("DOCUMENT_ROOT = \"/srv/{host}\"", "DOCUMENT_ROOT reads the request, but larder finds the script"),
        ("A = \"{name}\"", "unknown variable {name}"),
        ("A = \"{\"", "site.route.php.env.A: "),
    ] {
        let found = read(&format!("{START}{}", of(env))).map(drop).unwrap_err().to_string();
        assert!(found.contains("site.route.php.env") && found.contains(why), "{env}: {found}");
    }
}

#[test]
fn its_keys() {
    let php = php_of(&config(""));
    assert!(php.files.root.ends_with("config/src"));
    assert_eq!(None, php.application_root);
    assert_eq!(Some("/lib.rs"), php.front_controller.as_deref());
    let text = "php = { root = \"src\", to = [\"127.0.0.1:9000\", \"127.0.0.1:9001 weight=2\"], front_controller = \"off\", application_root = \"/app/\", \
                env = { APP_ENV = \"prod\" } }\nfiles = { index = \"a.html\", symlinks = \"never\", try = [\"{path}\", \"{path}.html\"] }\n\
                proxy = { connections = 5, idle_connections = 2, backup = [\"fastcgi://127.0.0.1:9002\"] }";
    let it = read(&format!("{START}{text}")).unwrap();
    let php = php_of(&it);
    assert_eq!((None, Some("/app")), (php.front_controller.as_deref(), php.application_root.as_deref()));
    assert_eq!(("APP_ENV", "prod"), (&*php.env[0].0, &*php.env[0].1));
    assert_eq!((2, vec!["a.html".to_owned()]), (php.files.members.len(), php.files.index));
    let Service::Proxy(proxy) = &it.sites[0].routes[1].service else { panic!("the scripts") };
    assert_eq!(
        (5, 2, 3, 1),
        (
            proxy.limits.connections,
            proxy.limits.idle_connections,
            proxy.to.members.len(),
            proxy.to.rules.backups
        )
    );
}

#[test]
fn keys_of_a_block_refine_it() {
    let block = "[block.fast]\nproxy.connections = 7\nfiles.index = \"b.html\"\n";
    let of_block = format!("{block}[block.wp]\n{PHP}\n{START}use = [\"fast\", \"wp\"]");
    for text in [of_block, format!("{block}{START}use = \"fast\"\n{PHP}")] {
        let it = read(&text).unwrap();
        assert_eq!(vec!["b.html".to_owned()], php_of(&it).files.index);
        let Service::Proxy(proxy) = &it.sites[0].routes[1].service else { panic!("the scripts") };
        assert_eq!(7, proxy.limits.connections);
    }
}

#[test]
fn mistakes() {
    let sound = "root = \"src\", to = \"a:1\", front_controller = \"lib.rs\"";
    refuse(
        "to = \"a:1\"",
        "",
        "3: site.route.php.root: missing; set the directory to serve, such as root = \"public\"",
    );
    refuse(
        "root = \"src\"",
        "",
        "3: site.route.php.to: missing; set the address of php-fpm, such as to = \"unix:/run/php/php-fpm.sock\"",
    );
    let allowed = crate::member::FASTCGI_ALLOWED;
    refuse(
        "root = \"src\", to = \"http://a:1\"",
        "",
        &format!("4: site.route.php.to: found \"http://a:1\"; allowed: {allowed}"),
    );
    let none = concat!(env!("CARGO_MANIFEST_DIR"), "/none");
    let expect =
        format!("4: site.route.php.root: {none}: no such file or directory; use an existing directory");
    refuse("root = \"none\", to = \"a:1\"", "", &expect);
    for (more, expect) in [
        (
            "files.root = \"src\"",
            "5: site.route.files.root: php.root is the directory of the files, too; remove it",
        ),
        (
            "files.spa = true",
            "5: site.route.files.spa: paths without a file belong to PHP; remove it, or set php.front_controller",
        ),
        (
            "strip = \"/a\"",
            "5: site.route.strip: files and scripts of php have the path of the request; use a directory that has the prefix, and remove it",
        ),
        (
            "proxy.to = [\"http://a\"]",
            "5: site.route.proxy.to: php.to names the origins of the route; remove one of the two",
        ),
        (
            "redirect = { to = \"/a\" }",
            "3: site.route: the route has both php and redirect; split it into two routes",
        ),
        (
            "files.try = [\"{path}\", \"=404\"]",
            "5: site.route.files.try: a member without {path}, or a status, answers paths without a file, which belong to PHP; remove it",
        ),
        (
            "proxy.backup = [\"http://a\"]",
            "4: site.route.php.to: fastcgi://a:1 and http://a:80 have different protocols, and a request moves from a failing origin to another; give each protocol a route of its own",
        ),
    ] {
        refuse(sound, more, expect);
    }
    let it = read(&format!("{START}php = {{ root = \"src\", to = \"a:1\" }}")).unwrap();
    let warnings: Vec<_> = it.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(1, warnings.len());
    assert!(
        warnings[0].starts_with("t.toml:4: site.route.php.front_controller: ")
            && warnings[0].contains("has no /index.php"),
        "{warnings:?}"
    );
}
