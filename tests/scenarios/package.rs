//! The files of the package, of the Ansible role, of the Chef cookbook and of the monitoring: configurations are valid, the unit starts and
//! reloads as the program does, role and cookbook write the same file, and rules and dashboard name metrics that there are.

use crate::harness::command::run;
use crate::harness::{Larder, Origin};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").canonicalize().unwrap()
}

/// The output of a program that succeeds.
fn output(command: &mut Command) -> String {
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
        "ExecReload=/bin/kill -HUP $MAINPID",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
}

/// Settings of every kind: values, tables, arrays of tables, and keys and strings that need quotes.
const SETTINGS: &str = r#"
larder_settings:
  listen: ["127.0.0.1:0"]
  workers: 2
  admin: { listen: "127.0.0.1:0" }
  cache:
    ram: { size: 64MiB }
  database:
    - { name: shop, url: "sqlite:///tmp/shop.db" }
larder_sites:
  - hosts: [www.example.com, "*.shop.test"]
    response_headers: { set: { "X-Shop": 'said "yes" \ to ünï', "Odd.Name": 1x } }
    route:
      - path: /old/*
        redirect: { to: "/new/{1}", status: 308 }
      - path: /*
        proxy: { to: ["http://127.0.0.1:8000"] }
        cache: { default_ttl: 60s, private_cookies: [], rule: [{ when: "status == 404", ttl: 10s }] }
"#;

#[test]
fn the_role_and_the_cookbook_write_the_same_valid_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("settings.yml"), SETTINGS).unwrap();
    let role = packaging().join("ansible");
    let template = format!(
        "src={} dest={} validate='{} check -c %s'",
        role.join("templates/larder.toml.j2").display(),
        at("role.toml").display(),
        env!("CARGO_BIN_EXE_larder"),
    );
    for expect in ["CHANGED", "SUCCESS"] {
        let mut ansible = Command::new("ansible");
        ansible.args([
            "localhost",
            "-c",
            "local",
            "-i",
            "localhost,",
            "-m",
            "ansible.builtin.template",
            "-a",
            &template,
        ]);
        ansible.arg("-e").arg(format!("@{}", role.join("defaults/main.yml").display()));
        ansible.arg("-e").arg(format!("@{}", at("settings.yml").display()));
        ansible
            .env("HOME", folder.path())
            .env("ANSIBLE_REMOTE_TEMP", at("remote"))
            .current_dir(folder.path());
        let out = output(&mut ansible);
        assert!(out.contains(&format!("localhost | {expect}")), "{out}");
    }
    let render = format!(
        "require 'erb'; require 'yaml'; require '{0}/libraries/toml'
         all = YAML.load_file('settings.yml'); @settings = all['larder_settings'].merge('site' => all['larder_sites'])
         print ERB.new(File.read('{0}/templates/larder.toml.erb'), trim_mode: '-').result(binding)",
        packaging().join("chef").display(),
    );
    let cookbook = output(Command::new("ruby").args(["-Ku", "-e", &render]).current_dir(folder.path()));
    assert_eq!(cookbook, std::fs::read_to_string(at("role.toml")).unwrap());
    for file in ["recipes/default.rb", "attributes/default.rb", "metadata.rb"] {
        assert_eq!(
            "Syntax OK\n",
            output(Command::new("ruby").arg("-c").arg(packaging().join("chef").join(file)))
        );
    }
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
