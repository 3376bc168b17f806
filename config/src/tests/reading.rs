//! Variables, secrets, and included files.

use super::*;
use std::fs;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Reads `larder.toml` of a folder; messages have no path of the folder.
fn load(folder: &tempfile::TempDir) -> Result<Config, String> {
    let path = folder.path().join("larder.toml");
    let place = format!("{}/", folder.path().display());
    Config::load(&path, &[]).map_err(|it| it.to_string().replace(&place, ""))
}

fn site(host: &str) -> String {
    format!("[[site]]\nhosts = [\"{host}\"]\n[[site.route]]\nproxy = {{ to = [\":1\"] }}\n")
}

#[test]
fn variables_stand_in_every_text() {
    let text = "workers = \"${NO_SUCH_VARIABLE:-3}\"\n[cache]\nenabled = \"${NO_SUCH_VARIABLE:-false}\"\nstatus_ttl = { 404 = \"${NO_SUCH_VARIABLE:-5s}\" }\n[[site]]\nhosts = \"${NO_SUCH_VARIABLE:-a.test,b.test}\"\n[[site.route]]\nname = \"${CARGO_PKG_NAME}\"\npath = \"/$${x}\"\nproxy = { to = [\"http://${NO_SUCH_VARIABLE:-127.0.0.1}:8000\", \":1\"] }\n";
    let config = read(text).unwrap();
    assert_eq!(NonZeroUsize::new(3), config.workers);
    let route = &config.sites[0].routes[0];
    assert_eq!(("larder-config", "/${x}"), (route.name.as_str(), route.path.text()));
    assert_eq!("/$${x}", route.path.to_string(), "people are shown the text of the file");
    let hosts: Vec<String> = config.sites[0].hosts.iter().map(ToString::to_string).collect();
    assert_eq!(["a.test", "b.test"], hosts[..]);
    assert!(!route.cache.enabled);
    assert_eq!("http://127.0.0.1:8000", route.origins().next().unwrap().name());
}

#[test]
fn missing_variables_are_errors_with_their_lines() {
    let missing = "the environment variable NO_SUCH_VARIABLE is not set; set it, or give a default: ${NO_SUCH_VARIABLE:-DEFAULT}";
    refuse(
        "listen = [\n  \":1\",\n  \"${NO_SUCH_VARIABLE}:2\",\n]\nworkers = \"${NO_SUCH_VARIABLE}\"\n[cache]\nstatus_ttl = { 404 = \"${NO_SUCH_VARIABLE}\" }",
        &format!(
            "t.toml:3: listen: {missing}\nt.toml:5: workers: {missing}\nt.toml:7: cache.status_ttl: {missing}"
        ),
    );
    refuse(
        "workers = \"${CARGO_PKG_NAME}\"",
        "t.toml:1: workers: found \"${CARGO_PKG_NAME}\"; allowed: a whole number from 1 to 1024",
    );
    refuse(
        "cache.disk.path = \"${a b}\"",
        "t.toml:1: cache.disk.path: \"${a b}\" does not name an environment variable, such as ${NAME} or ${NAME:-default}; write \"$${\" for a literal \"${\"",
    );
    let flag = Setting {
        path: "cache.ram.size".to_owned(),
        text: "${NO_SUCH_VARIABLE}".to_owned(),
        flag: "--ram".to_owned(),
    };
    let found = Config::from_text(SITE, "t.toml", Path::new("."), &[flag]).unwrap_err().to_string();
    assert_eq!(format!("--ram: {missing}"), found);
}

#[test]
fn included_files_are_added_in_order() {
    let folder = folder(&[
        ("larder.toml", &format!("include = [\"conf.d/*.toml\", \"more.toml\"]\n{}", site("main.test"))),
        ("conf.d/b.toml", &site("b.test")),
        ("conf.d/a.toml", &format!("workers = 2\n[cache]\ndefault_ttl = \"5s\"\n{}", site("a.test"))),
        ("conf.d/.hidden.toml", "wrong"),
        ("more.toml", "include = \"sub/*.toml\"\n[limits]\nhead_size = \"1KiB\"\n"),
        ("sub/c.toml", "[[site]]\nhosts = \"c.test\"\n[[site.route]]\nfiles.root = \"public\"\n"),
        ("sub/public/x", ""),
    ]);
    let config = load(&folder).unwrap();
    let hosts: Vec<String> = config.sites.iter().map(|it| it.hosts[0].to_string()).collect();
    assert_eq!(["main.test", "a.test", "b.test", "c.test"], hosts[..]);
    assert_eq!((NonZeroUsize::new(2), 1024), (config.workers, config.limits.client.head_size));
    let source = |it: &Source| it.to_string().replace(&format!("{}/", folder.path().display()), "");
    assert_eq!("conf.d/a.toml:3", source(&config.sites[0].routes[0].decided.by("cache.default_ttl")));
    assert_eq!("conf.d/b.toml:1", source(&config.sites[2].source));
    let Service::Files(files) = &config.sites[3].routes[0].service else { panic!("files") };
    assert_eq!(
        fs::canonicalize(folder.path().join("sub/public")).unwrap(),
        fs::canonicalize(&files.root).unwrap()
    );
    assert_eq!(4, config.included.len());
    assert!(config.included.iter().all(|it| !it.is_linked()));
    let watched: Vec<_> = watched(&folder.path().join("larder.toml")).now().collect();
    assert_eq!(4, watched.len(), "{watched:?}");
}

#[test]
fn mistakes_in_included_files_name_file_and_line() {
    let main = format!(
        "include = [\n  \"conf.d/*.toml\",\n  \"missing.toml\",\n  \"none/*.toml\",\n]\nworkers = 1\n{}",
        site("main.test")
    );
    let folder = folder(&[
        ("larder.toml", &main),
        ("conf.d/a.toml", "# first\nworkers = 2\nlisen = 1\n"),
        ("conf.d/b.toml", "a = ["),
        ("conf.d/c.toml", &format!("include = \"../larder.toml\"\n{}", site("main.test"))),
        ("conf.d/d.toml", "include = \"a.toml\"\n"),
        ("conf.d/e.toml", "[block.x]\ntrace = 1\n"),
        ("conf.d/f.toml", "[block.x]\ntrace = 2\n"),
    ]);
    assert_eq!(
        "larder.toml:3: include: missing.toml cannot be read: no such file or directory\n\
         conf.d/a.toml:2: workers: the key is set twice; first at larder.toml:6\n\
         conf.d/a.toml:3: lisen: unknown key; did you mean `listen`?\n\
         conf.d/b.toml:1: not TOML: unclosed array, expected `]`\n\
         conf.d/c.toml:1: include: conf.d/../larder.toml includes itself; remove this include\n\
         conf.d/c.toml:3: site.hosts: duplicate host \"main.test\"; first defined at larder.toml:8\n\
         conf.d/d.toml:1: include: conf.d/a.toml is included twice; first at larder.toml:2\n\
         conf.d/f.toml:1: block.x: the block is defined twice; first at conf.d/e.toml:1",
        load(&folder).unwrap_err()
    );
}

#[test]
fn includes_are_bounded() {
    let deep: Vec<(String, String)> =
        (0..12).map(|it| (format!("{it}.toml"), format!("include = \"{}.toml\"\n", it + 1))).collect();
    let main = ("larder.toml".to_owned(), format!("include = \"0.toml\"\n{}", site("a")));
    let files: Vec<_> =
        deep.iter().chain([&main]).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        "7.toml:1: include: 8.toml is the 9th include within another; the limit is 8",
        load(&folder(&files)).unwrap_err()
    );
    let many: Vec<(String, String)> = (0..1001).map(|it| (format!("d/{it}.toml"), String::new())).collect();
    let main = ("larder.toml".to_owned(), format!("include = \"d/*\"\n{}", site("a")));
    let files: Vec<_> =
        many.iter().chain([&main]).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        "larder.toml:1: include: \"d/*\": more than 1000 files match",
        load(&folder(&files)).unwrap_err()
    );
    for (text, expect) in [
        ("include = 3", "found 3; allowed: a list of paths and patterns such as \"conf.d/*.toml\""),
        ("include = [\"\"]", "the path is empty"),
        ("include = \".\"", ". cannot be read: it is not a regular file"),
        (
            "include = \"**/x\"",
            "\"**/x\": \"**\" has no meaning here; write \"*\" for each level of directories",
        ),
    ] {
        let folder = folder(&[("larder.toml", &format!("{text}\n{}", site("a")))]);
        let found = load(&folder).unwrap_err().replace(&folder.path().display().to_string(), ".");
        assert_eq!(format!("larder.toml:1: include: {expect}"), found.replace("./", ""));
    }
}

#[test]
fn a_link_is_followed_and_shown() {
    let folder = folder(&[
        ("larder.toml", &format!("include = \"conf.d/*.toml\"\n{}", site("a"))),
        ("elsewhere/x.toml", "workers = 7\n"),
        ("conf.d/readme", ""),
    ]);
    std::os::unix::fs::symlink("../elsewhere/x.toml", folder.path().join("conf.d/x.toml")).unwrap();
    let config = load(&folder).unwrap();
    assert_eq!(NonZeroUsize::new(7), config.workers);
    assert!(config.included[0].is_linked() && config.included[0].path.ends_with("elsewhere/x.toml"));
}

#[test]
fn no_message_shows_the_value_of_a_variable() {
    let route = |rest: &str| format!("[[site]]\nhosts = \"*\"\n[[site.route]]\n{rest}\n");
    for (text, expect) in [
        (
            route("files.root = \".\"\nwhen = 'header.X-Verify == ${CARGO_PKG_NAME}'"),
            "t.toml:5: site.route.when: ${CARGO_PKG_NAME} is not in quotes; write \"${CARGO_PKG_NAME}\"",
        ),
        (
            route("redirect.to = \"${CARGO_PKG_NAME}\""),
            "t.toml:4: site.route.redirect.to: found \"${CARGO_PKG_NAME}\": begin it",
        ),
        (
            route("redirect.to = \"x-${CARGO_PKG_NAME}://h/\""),
            "t.toml:4: site.route.redirect.to: found \"x-${CARGO_PKG_NAME}://h/\"",
        ),
        (
            "listen = [\"${CARGO_PKG_NAME} x\"]".to_owned(),
            "t.toml:1: listen: found [\"${CARGO_PKG_NAME} x\"]",
        ),
        (
            "cache.ram.size = \"${CARGO_PKG_NAME}\"".to_owned(),
            "t.toml:1: cache.ram.size: found \"${CARGO_PKG_NAME}\"",
        ),
    ] {
        let found = Config::from_text(&text, "t.toml", Path::new("."), &[]).unwrap_err().to_string();
        assert!(found.starts_with(expect) && !found.contains("larder-"), "{found}");
    }
}

/// Problems that are found after the check, such as those of directories, have paths.
#[test]
fn no_message_about_a_start_shows_the_value_of_a_variable() {
    for key in ["log.access", "log.error", "admin.audit", "cache.disk.path"] {
        let text = format!("{key} = \"/proc/1/${{CARGO_PKG_NAME}}/a\"\n{SITE}");
        let found = match read(&text).unwrap().fit() {
            Ok(it) => it.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Err(it) => it.to_string(),
        };
        assert!(found.contains("/proc/1/${CARGO_PKG_NAME}/a"), "{key}: {found}");
        assert!(
            !format!("{found}{:?}", read(&text).unwrap().substituted).contains("larder-config"),
            "{found}"
        );
    }
}
