//! The files of the package: its configuration is valid, and its unit starts and reloads as the program does.

use crate::harness::command::run;
use std::path::Path;

fn packaging() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

#[test]
fn the_configuration_of_the_package_is_valid_but_for_paths_that_it_installs() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(packaging().join("larder.toml")).unwrap();
    assert!(text.contains("\"/usr/share/larder/www\"") && text.contains("\"/var/log/larder/access.log\""));
    let own = |it: &str| it.replace("/usr/share/larder", ".").replace("/var/log/larder/", "");
    std::fs::create_dir(folder.path().join("www")).unwrap();
    std::fs::create_dir(folder.path().join("conf.d")).unwrap();
    std::fs::write(folder.path().join("larder.toml"), own(&text)).unwrap();
    let ended = run(folder.path(), &["check", "-c", "larder.toml"]);
    assert_eq!(0, ended.code, "{ended:?}");
    // The site of the comment, as it is written there.
    let commented: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix("#   ")).collect();
    std::fs::write(folder.path().join("conf.d/example.toml"), commented.join("\n")).unwrap();
    let ended = run(folder.path(), &["check", "-c", "larder.toml"]);
    assert_eq!(0, ended.code, "{ended:?}");
}

#[test]
fn the_unit_runs_the_commands_that_there_are() {
    let unit = std::fs::read_to_string(packaging().join("larder.service")).unwrap();
    for line in [
        "Type=notify",
        "ExecStart=/usr/bin/larder run -c /etc/larder/larder.toml",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
}
