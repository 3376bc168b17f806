//! Reading the configuration on the real binary: included files, variables of the environment, blocks, and all mistakes at
//! once.

use crate::harness::command::run;
use crate::harness::server::Setup;
use crate::harness::{Larder, Origin, until};
use serde_json::{Value, json};
use std::fs;

const PAGE: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nhello";

/// larder with a site for `main.test`, files in `conf.d`, and its origin in the environment.
fn start(origin: &Origin) -> Larder {
    let config = "listen = [\"127.0.0.1:0\"]\nworkers = 2\ninclude = [\"conf.d/*.toml\"]\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n\
                  [log]\nerror = \"error.log\"\n\n[block.app]\nproxy = { to = [\"${APP_ORIGIN}\"] }\ncache.x_cache = true\n\n\
                  [[site]]\nhosts = [\"main.test\"]\n[[site.route]]\nuse = [\"app\"]\n";
    let env = vec![("APP_ORIGIN".to_owned(), origin.url())];
    Larder::start(Setup { config: config.to_owned(), env })
}

/// The status of a host's start page, and its `X-Cache`.
fn get(larder: &Larder, host: &str) -> (u16, Option<String>) {
    let mut client = larder.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let page = client.read();
    (page.status, page.field("x-cache").map(str::to_owned))
}

fn write(larder: &Larder, name: &str, text: &str) {
    let path = larder.folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn error_log(larder: &Larder) -> String {
    fs::read_to_string(larder.folder.path().join("error.log")).unwrap_or_default()
}

const SITE: &str = "# the second site\n[[site]]\nhosts = [\"a.test\"]\nuse = [\"app\"]\n[[site.route]]\ncache.x_cache = false\n";

#[test]
fn included_files_are_watched_and_named() {
    let origin = Origin::fixed(PAGE);
    let larder = start(&origin);
    let (status, x_cache) = get(&larder, "main.test");
    assert_eq!((200, true), (status, x_cache.is_some()), "the block and the environment are used");
    assert_eq!(404, get(&larder, "a.test").0);
    write(&larder, "conf.d/a.toml", SITE);
    until("the new site is served", || get(&larder, "a.test").0 == 200);
    assert_eq!(None, get(&larder, "a.test").1, "its own key wins over the block");
    // A mistake: the old configuration stays, and file and line are named.
    let refused = larder.counter("config_rejections");
    write(&larder, "conf.d/a.toml", &format!("{SITE}lisen = 1\n"));
    until("the mistake is found", || larder.counter("config_rejections") > refused);
    until("it is named", || error_log(&larder).contains("conf.d/a.toml:7: site.route.lisen: unknown key"));
    assert_eq!(200, get(&larder, "a.test").0);
    // A key of two files.
    write(&larder, "conf.d/b.toml", "workers = 3\n");
    write(&larder, "conf.d/a.toml", SITE);
    until("both places are named", || {
        let log = error_log(&larder);
        log.contains("conf.d/b.toml:1: workers: the key is set twice; first at")
            && log.contains("larder.toml:2")
    });
    fs::remove_file(larder.folder.path().join("conf.d/b.toml")).unwrap();
    fs::remove_file(larder.folder.path().join("conf.d/a.toml")).unwrap();
    until("a removed file is no longer served", || get(&larder, "a.test").0 == 404);
    assert_eq!(200, get(&larder, "main.test").0);
}

#[test]
fn the_admin_edits_the_main_file_and_names_the_others() {
    let origin = Origin::fixed(PAGE);
    let larder = start(&origin);
    write(&larder, "conf.d/a.toml", &format!("cache.max_ttl = \"1d\"\n{SITE}"));
    until("the new site is served", || get(&larder, "a.test").0 == 200);
    let told: Value = serde_json::from_str(&larder.admin_get("/api/v1/config").text()).unwrap();
    let file = &told["included"][0];
    assert!(file["file"].as_str().unwrap().ends_with("conf.d/a.toml"), "{told}");
    assert_eq!(json!("1d"), file["document"]["cache"]["max_ttl"]);
    assert_eq!((&told["hash"], &json!([])), (&told["running_hash"], &told["pending"]));
    assert!(
        !told["text"].as_str().unwrap().contains(&origin.url()),
        "variables are not replaced in the text"
    );
    // A key of an included file is not set by a form: the answer says where it is.
    let text = told["text"].as_str().unwrap();
    let edit = json!({ "text": text, "set": [{ "path": ["cache", "max_ttl"], "value": "2d" }] });
    let edited: Value =
        serde_json::from_str(&larder.admin_post("/api/v1/config/edit", &edit.to_string()).text()).unwrap();
    let check = json!({ "text": edited["text"] }).to_string();
    let checked: Value =
        serde_json::from_str(&larder.admin_post("/api/v1/config/check", &check).text()).unwrap();
    let problem = &checked["problems"][0];
    assert_eq!((&json!("cache.max_ttl"), &Value::Null), (&problem["key"], &problem["line"]), "{checked}");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("conf.d/a.toml:1: the key is set twice; first at"), "{message}");
    // A mistake of the text itself has its line.
    let check = json!({ "text": format!("{text}lisen = 1\n") }).to_string();
    let checked: Value =
        serde_json::from_str(&larder.admin_post("/api/v1/config/check", &check).text()).unwrap();
    assert!(checked["problems"][0]["line"].is_u64(), "{checked}");
}

#[test]
fn every_mistake_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let main = "include = [\"conf.d/*.toml\", \"missing.toml\"]\nworkers = \"${NO_SUCH_VARIABLE}\"\nroot = \"x\"\n\
                [block.a]\n[[site]]\nhosts = \"*\"\n[[site.route]]\nuse = \"b\"\nproxy.to = \":1\"\n";
    fs::write(folder.path().join("larder.toml"), main).unwrap();
    fs::create_dir(folder.path().join("conf.d")).unwrap();
    fs::write(
        folder.path().join("conf.d/x.toml"),
        "[log]\nerror = \"${NO_SUCH_VARIABLE:-e.log}\"\nlevel = 1\n",
    )
    .unwrap();
    let expect = "larder.toml:1: include: missing.toml cannot be read: no such file or directory\n\
         larder.toml:2: workers: the environment variable NO_SUCH_VARIABLE is not set; set it, or give a default: ${NO_SUCH_VARIABLE:-DEFAULT}\n\
         larder.toml:3: root: unknown key; larder calls it `site.route.files.root`; for example files = { root = \"public\" }\n\
         larder.toml:8: site.route.use: there is no block \"b\"; did you mean \"a\"?\n\
         conf.d/x.toml:3: log.level: unknown key; larder calls it `log.levels`; one for each part of larder\n";
    for command in ["check", "run"] {
        let ended = run(folder.path(), &[command, "-c", "larder.toml"]);
        assert_eq!(2, ended.code, "{ended:?}");
        let told: String =
            ended.err.lines().map(|it| format!("{}\n", it.trim_start_matches("larder: "))).collect();
        assert_eq!(expect, told, "{command}");
    }
    let right = "include = [\"conf.d/*.toml\"]\n[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = \":1\"\n";
    fs::write(folder.path().join("larder.toml"), right).unwrap();
    fs::remove_file(folder.path().join("conf.d/x.toml")).unwrap();
    fs::write(folder.path().join("real"), "[block.unused]\n").unwrap();
    std::os::unix::fs::symlink("../real", folder.path().join("conf.d/x.toml")).unwrap();
    let ended = run(folder.path(), &["check", "-c", "larder.toml"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(
        ended.out.contains("warning: conf.d/x.toml:1: block.unused: the block is not used"),
        "{}",
        ended.out
    );
    let real = fs::canonicalize(folder.path().join("real")).unwrap();
    assert!(ended.out.contains(&format!("  include  conf.d/x.toml -> {}", real.display())), "{}", ended.out);
}
