//! Commands find the local larder by its run file, with any port of its admin.

use crate::harness::server::{Setup, binary};
use crate::harness::{Larder, Origin};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A larder whose run file is in `runs`, and whose token is in a file of its own folder.
fn start(runs: &Path, origin: &Origin) -> Larder {
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"token\"\n",
        origin.url()
    );
    let runs = runs.display().to_string();
    let env = [("XDG_RUNTIME_DIR", &*runs), ("LARDER_ADMIN_TOKEN", "")];
    Larder::start(Setup { config, env: env.map(|it| (it.0.to_owned(), it.1.to_owned())).to_vec() })
}

/// The output of `larder ARGS…`, and its exit code.
fn fetch(runs: &Path, arguments: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = std::process::Command::new(binary());
    command.args(arguments).current_dir(runs).env("XDG_RUNTIME_DIR", runs).env_remove("LARDER_ADMIN_TOKEN");
    let output = command.envs(env.iter().copied()).output().unwrap();
    let text = |it: Vec<u8>| String::from_utf8(it).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn run_files(runs: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(runs.join("larder")).into_iter().flatten();
    all.map(|it| it.unwrap().path()).collect()
}

/// The listener of the larder that answered.
#[track_caller]
fn serves((code, out, err): (i32, String, String)) -> String {
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|it| panic!("{code} {it}: {out}{err}"));
    assert_eq!(0, code, "{out}{err}");
    value["listen"][0].as_str().unwrap().to_owned()
}

const STATS: [&str; 2] = ["stats", "--json"];

#[test]
fn a_single_larder_is_found_on_any_admin_port() {
    let (runs, origin) = (tempfile::tempdir().unwrap(), Origin::fixed("HTTP/1.1 200 OK\n\nok"));
    let runs = runs.path();
    let mut first = start(runs, &origin);
    let address = |it: &Larder| format!("http://{}", it.address);
    assert_eq!(address(&first), serves(fetch(runs, &STATS, &[])));
    let files = run_files(runs);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert_eq!((1, 0o600), (files.len(), files[0].metadata().unwrap().permissions().mode() & 0o777));
    let token = std::fs::read_to_string(first.folder.path().join("token")).unwrap();
    assert!(!text.contains(token.trim()) && text.contains("/token\""), "{text}");
    // Killed, it leaves its file, which counts for nothing.
    first.signal(libc::SIGKILL);
    first.child.wait().unwrap();
    assert_eq!(1, run_files(runs).len());
    let second = start(runs, &origin);
    assert_eq!(address(&second), serves(fetch(runs, &STATS, &[])));
    assert_eq!(1, run_files(runs).len(), "what was left is swept");
    second.signal(libc::SIGTERM);
    crate::harness::until("a stop removes it", || run_files(runs).is_empty());
}

#[test]
fn of_several_one_is_named_by_flag_configuration_or_variable() {
    let (runs, origin) = (tempfile::tempdir().unwrap(), Origin::fixed("HTTP/1.1 200 OK\n\nok"));
    let runs = runs.path();
    let (one, two) = (start(runs, &origin), start(runs, &origin));
    let [a, b] = [&one, &two].map(|it| format!("http://{}", it.address));
    let [admin_a, admin_b] = [&one, &two].map(|it| it.admin.to_string());
    let (code, out, err) = fetch(runs, &["stats"], &[]);
    assert_eq!((1, ""), (code, &*out));
    assert!(
        err.contains("Several larders run on this machine")
            && err.contains(&admin_a)
            && err.contains(&admin_b),
        "{err}"
    );
    let (code, out, err) = fetch(runs, &STATS, &[]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((1, "", 1), (code, &*err, report["exit"].as_u64().unwrap()));
    assert!(report["error"].as_str().unwrap().contains("Several larders"), "{out}");
    let by = [("LARDER_ADMIN", &*admin_a)];
    assert_eq!(a, serves(fetch(runs, &STATS, &by)), "the variable");
    let config = two.config().display().to_string();
    let of_file = ["stats", "--json", "-c", &config];
    assert_eq!(b, serves(fetch(runs, &of_file, &by)), "-c before the variable");
    let of_both = ["stats", "--json", "-c", &config, "--admin", &admin_a];
    assert_eq!(a, serves(fetch(runs, &of_both, &[("LARDER_ADMIN", &*admin_b)])), "--admin before all");
    let url = format!("{b}/");
    let (code, out, err) = fetch(runs, &["explain", "--json", &url], &[]);
    assert_eq!(0, code, "the one that serves the URL's port: {out}{err}");
    let (code, _, err) = fetch(runs, &["stats"], &[("LARDER_ADMIN", "nowhere")]);
    assert!(code == 2 && err.contains("LARDER_ADMIN: found \"nowhere\""), "{code} {err}");
}

#[test]
fn errors_are_json_where_that_is_asked_for_and_wrong_arguments_end_with_2() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["stats", "--what", "--json"][..],
        &["purge", "--json"],
        &["objects", "--json", "--limit", "many"],
        &["objects", "--json", "--sort", "colour"],
        &["objects", "--json", "--status", "abc"],
        &["explain", "--json"],
        &["stats", "--json", "too", "many"],
    ] {
        let (code, out, err) = fetch(folder.path(), arguments, &[]);
        let json: Value =
            serde_json::from_str(&out).unwrap_or_else(|it| panic!("{arguments:?} {it}: {out}{err}"));
        assert_eq!((2, Some(2), ""), (code, json["exit"].as_i64(), &*err), "{arguments:?}");
        assert!(!json["error"].as_str().unwrap().is_empty());
    }
    let (code, out, _) = fetch(folder.path(), &["stats", "--json", "--admin", "127.0.0.1:1"], &[]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert!(
        code == 1 && json["error"].as_str().unwrap().contains("No larder answers at 127.0.0.1:1"),
        "{out}"
    );
    let (code, out, err) = fetch(folder.path(), &["stats", "--what"], &[]);
    assert!(code == 2 && out.is_empty() && err.starts_with("larder: "), "{out}{err}");
}

#[test]
fn a_wrong_argument_is_no_failure_of_a_larder() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path();
    std::fs::write(runs.join("page"), "soon").unwrap();
    let check = |arguments: &[&str], env: &[(&str, &str)], expect: i32, sentence: &str| {
        let (code, out, err) = fetch(runs, arguments, env);
        assert!(code == expect && out.is_empty() && err.contains(sentence), "{arguments:?}: {code} {err}");
    };
    check(&["overlay", "add", "/*", "page"], &[], 2, "URI: \"/*\" is a pattern");
    check(&["overlay", "add", "", "page"], &[], 2, "\"\" has no path");
    check(&["overlay", "add", "/x", "missing"], &[], 2, "missing cannot be read");
    check(&["overlay", "add", "/x", "."], &[], 2, ". is a directory");
    check(&["stats", "-c", "missing.toml"], &[], 2, "missing.toml cannot be read");
    std::fs::write(runs.join("broken.toml"), "listen = [\nfoo").unwrap();
    std::fs::write(runs.join("wrong.toml"), "colour = \"red\"\n").unwrap();
    for command in [
        &["stats"][..],
        &["purge", "--all"],
        &["objects"],
        &["tail"],
        &["top"],
        &["login"],
        &["overlay", "list"],
    ] {
        check(&[command, &["-c", "broken.toml"]].concat(), &[], 2, "broken.toml:2:");
        check(&[command, &["-c", "wrong.toml"]].concat(), &[], 2, "wrong.toml:1: ");
    }
    let nowhere = [("LARDER_ADMIN", "127.0.0.1:1")];
    check(&["stats"], &nowhere, 1, "No larder answers at 127.0.0.1:1, the address in LARDER_ADMIN (");
    check(&["stats"], &nowhere, 1, "; set LARDER_ADMIN to the address");
    check(&["stats", "--admin", "127.0.0.1:1"], &nowhere, 1, "; set --admin to the address");
}
