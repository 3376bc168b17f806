//! The files of the package, the archive, the container and the monitoring: configurations are valid, the unit starts and reloads as the
//! program does, the installer repeats and removes what it does, and rules and dashboard name metrics that there are. Not here: the Ansible
//! role and the Chef cookbook (`cookbook.rs`); a static build and a real container, which take minutes.

use crate::harness::command::run;
use crate::harness::{Larder, Origin};
use regex::Regex;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").canonicalize().unwrap()
}

/// The output of a program that succeeds.
pub fn output(command: &mut Command) -> String {
    let it = command.output().unwrap();
    let [out, err] = [&it.stdout, &it.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    assert!(it.status.success(), "{command:?}: {out}{err}");
    out
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
        "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
        // Denied with the other calls for resources otherwise.
        "SystemCallFilter=sched_setscheduler setpriority",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
}

/// The bound is the present figure in tenths (decision 198): a new line of the unit does not raise it unseen.
#[test]
fn the_exposure_of_the_unit_does_not_rise() {
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--threshold=15", "--no-pager"]);
    analyze.arg(packaging().join("larder.service"));
    match analyze.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no systemd-analyze");
        }
        it => {
            let it = it.unwrap();
            assert!(it.status.success(), "{}", String::from_utf8_lossy(&it.stdout));
        }
    }
}

#[test]
fn the_socket_unit_opens_the_addresses_of_the_configuration() {
    let unit = std::fs::read_to_string(packaging().join("larder.socket")).unwrap();
    let configuration = std::fs::read_to_string(packaging().join("larder.toml")).unwrap();
    let opened: Vec<_> = unit.lines().filter_map(|it| it.strip_prefix("ListenStream=")).collect();
    let listen = configuration.lines().find_map(|it| it.strip_prefix("listen = ")).unwrap();
    assert_eq!(listen, format!("{opened:?}"));
}

#[test]
fn the_alerts_and_the_dashboard_name_metrics_that_there_are() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage");
    let larder = Larder::before(&origin, "");
    assert_eq!(200, larder.client().get("/").status);
    let metrics = larder.admin_get("/metrics").text();
    let name = Regex::new(r"larder_[a-z0-9_]+").unwrap();
    for file in ["larder.rules.yml", "grafana.json"] {
        let text = std::fs::read_to_string(packaging().join("monitoring").join(file)).unwrap();
        let mut count = 0;
        for it in name.find_iter(&text) {
            let known = [" ", "{"].iter().any(|after| metrics.contains(&format!("\n{}{after}", it.as_str())));
            assert!(known, "{file}: {}", it.as_str());
            count += 1;
        }
        assert!(count > 12, "{file}");
    }
}

/// Prometheus' own checker, with series of a larder that is well, of one that is not, and of one that recovers in time.
#[test]
fn each_alert_fires_for_its_reason_alone() {
    let rules = packaging().join("monitoring/larder.rules.yml");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/monitoring/larder.rules.test.yml");
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/promtool");
    let promtool = if installed.exists() { installed } else { "promtool".into() };
    let checked = output(Command::new(&promtool).args(["check", "rules"]).arg(&rules));
    let names = Regex::new(r"(?m)^ *- (?:alert|name): (Larder\w+)$").unwrap();
    let names = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        names.captures_iter(&text).map(|it| it[1].to_owned()).collect()
    };
    assert_eq!(names(&rules), names(&tests), "each alert has a test");
    assert!(checked.contains(&format!("SUCCESS: {} rules found", names(&rules).len())), "{checked}");
    let tested = output(Command::new(&promtool).args(["test", "rules"]).arg(&tests));
    assert!(tested.contains("SUCCESS"), "{tested}");
}

/// The extracted archive of the program that is tested, in `folder`.
fn archive(folder: &Path) -> PathBuf {
    let mut build = Command::new(packaging().join("archive/build"));
    build.arg(env!("CARGO_BIN_EXE_larder")).arg(folder).env("COMPRESSION", "-1");
    let path = output(&mut build).trim().to_owned();
    output(Command::new("tar").args(["-C", &folder.display().to_string(), "-xf", &path]));
    PathBuf::from(path.strip_suffix(".tar.gz").unwrap())
}

/// All files below a directory with their content, by name.
fn files(below: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let listed = output(Command::new("find").arg(below).args(["-type", "f"]));
    listed.lines().map(|it| (PathBuf::from(it), std::fs::read(it).unwrap())).collect()
}

#[test]
fn the_installer_of_the_archive_repeats_upgrades_and_removes() {
    let folder = tempfile::tempdir().unwrap();
    let (extracted, root) = (archive(folder.path()), folder.path().join("root"));
    let install = |arguments: &[&str]| {
        let mut it = Command::new(extracted.join("install.sh"));
        output(it.args(arguments).env("DESTDIR", &root))
    };
    install(&["--prefix", "/opt/larder"]);
    let program = root.join("opt/larder/bin/larder");
    assert!(output(Command::new(&program).arg("version")).starts_with("larder "));
    let unit = std::fs::read_to_string(root.join("etc/systemd/system/larder.service")).unwrap();
    assert!(unit.contains("ExecStart=/opt/larder/bin/larder run -c /etc/larder/larder.toml\n"), "{unit}");
    let config = root.join("etc/larder/larder.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains("\"/opt/larder/share/larder/www\""), "{text}");
    assert!(root.join("var/log/larder").is_dir(), "larder check needs it");
    let first = files(&root);
    assert_eq!(9, first.len(), "{:?}", first.keys());
    install(&["--prefix", "/opt/larder"]);
    assert_eq!(first, files(&root), "a second run changes nothing");
    // A newer program beside a configuration of the operator, while the old program runs.
    std::fs::write(&config, "listen = [\"127.0.0.1:0\"]\n").unwrap();
    std::fs::write(&program, "an old one").unwrap();
    install(&["--prefix=/opt/larder"]);
    assert_eq!("listen = [\"127.0.0.1:0\"]\n", std::fs::read_to_string(&config).unwrap());
    assert_eq!(first[&program], std::fs::read(&program).unwrap());
    install(&["--uninstall", "--prefix", "/opt/larder"]);
    assert_eq!([config], *files(&root).into_keys().collect::<Vec<_>>());
    install(&["--uninstall", "--purge", "--prefix", "/opt/larder"]);
    assert!(files(&root).is_empty() && !root.join("var/log/larder").exists());
    for (arguments, expect) in [
        (&["--frobnicate"][..], "install.sh: unknown argument --frobnicate; --help lists them\n"),
        (&["--purge"], "install.sh: --purge requires --uninstall\n"),
        (&["--prefix", "opt"], "install.sh: --prefix opt: it has to begin with /\n"),
        (&["--prefix", "/a/../../etc"], "install.sh: --prefix /a/../../etc: use a path without ..\n"),
        (&["--prefix", "/a|b"], "install.sh: --prefix /a|b: use only letters, digits and /._+-\n"),
    ] {
        let ended = Command::new(extracted.join("install.sh"))
            .args(arguments)
            .env("DESTDIR", &root)
            .output()
            .unwrap();
        assert_eq!((Some(1), expect), (ended.status.code(), &*String::from_utf8_lossy(&ended.stderr)));
    }
}

/// Under a root whose new files are private, with links of another user in place of drafts, and from another directory.
#[test]
fn the_installer_follows_no_link_and_depends_on_no_setting_of_its_shell() {
    let folder = tempfile::tempdir().unwrap();
    let (extracted, root) = (archive(folder.path()), folder.path().join("root"));
    let config = root.join("etc/larder/larder.toml");
    let beside = |path: &str, to: &str| {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(folder.path().join(to), root.join(path)).unwrap();
    };
    std::fs::write(folder.path().join("victim"), "untouched").unwrap();
    std::fs::create_dir(folder.path().join("victims")).unwrap();
    beside("etc/larder/larder.toml.new", "victim");
    beside("usr/local/bin/larder.new", "victims");
    let install = || {
        let line = format!("umask 077; sh {}/install.sh", extracted.file_name().unwrap().to_str().unwrap());
        let mut it = Command::new("sh");
        it.args(["-c", &line]).env("DESTDIR", &root).env("CDPATH", folder.path()).current_dir(folder.path());
        output(&mut it);
    };
    install();
    assert_eq!("untouched", std::fs::read_to_string(folder.path().join("victim")).unwrap());
    assert_eq!(0, std::fs::read_dir(folder.path().join("victims")).unwrap().count());
    let mode = |path: &str| {
        let it = root.join(path).symlink_metadata().unwrap();
        (it.is_symlink(), it.permissions().mode() & 0o777)
    };
    assert_eq!((false, 0o755), mode("usr/local/bin/larder"));
    for path in ["etc/larder/larder.toml", "usr/local/share/larder/www/index.html"] {
        assert_eq!((false, 0o644), mode(path), "{path}");
    }
    for path in ["etc/larder", "etc/larder/conf.d", "usr/local/share/larder/www"] {
        assert_eq!((false, 0o755), mode(path), "{path}");
    }
    // The configuration may be elsewhere, and not there yet.
    std::fs::remove_file(&config).unwrap();
    beside("etc/larder/larder.toml", "none");
    install();
    assert!(config.is_symlink() && !folder.path().join("none").exists());
}

/// Every `COPY` of the container file has its source in the archive, and the configuration that results is valid.
#[test]
fn the_container_consists_of_files_of_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (extracted, root) = (archive(folder.path()), folder.path().join("root"));
    let text = std::fs::read_to_string(extracted.join("Containerfile")).unwrap();
    for line in text.lines().filter(|it| it.starts_with("COPY ")) {
        let [.., from, to] = *line.split(' ').collect::<Vec<_>>() else { panic!("{line}") };
        let to = root.join(to.strip_prefix('/').unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        output(Command::new("cp").arg("-R").arg(extracted.join(from)).arg(to));
    }
    assert!(
        text.contains("ENTRYPOINT [\"/usr/bin/larder\"]\nCMD [\"run\", \"-c\", \"/etc/larder/larder.toml\"]")
    );
    let config = root.join("etc/larder/larder.toml");
    let own = std::fs::read_to_string(&config)
        .unwrap()
        .replace("/usr/share", &root.join("usr/share").display().to_string());
    std::fs::write(&config, own).unwrap();
    let ended = run(&root, &["check", "-c", "etc/larder/larder.toml"]);
    assert_eq!(0, ended.code, "{ended:?}");
}
