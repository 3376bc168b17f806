//! The Ansible role and the Chef cookbook write the same valid file, and the cookbook run twice changes nothing. Ansible, Ruby, dpkg and
//! `larder check` are real; Chef is not in Debian, and `tests/chef/converge.rb` runs the recipe.

use super::package::{output, packaging};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings of every kind: values, tables, arrays of tables, and keys and strings that need quotes; all tiers, and a preset.
const SETTINGS: &str = r#"
larder_settings:
  listen: ["127.0.0.1:0"]
  cache:
    ram: { size: 64MiB }
    disk: { path: /tmp/larder-cookbook, size: 1GiB }
    fleet: { servers: ["127.0.0.1:11211"] }
  workers: 2
  admin: { listen: "127.0.0.1:0" }
  database:
    - { name: shop, url: "sqlite:///tmp/shop.db" }
larder_sites:
  - hosts: [www.example.com, "*.shop.test"]
    response_headers: { set: { "X-Shop": 'said "yes" \ to ünï', "Odd.Name": 1x } }
    route:
      - path: /old/*
        redirect: { to: "/new/{1}", status: 308 }
      - path: /blog/*
        proxy: { to: ["http://127.0.0.1:8001"] }
        cache: { preset: wordpress }
      - path: /*
        proxy: { to: ["http://127.0.0.1:8000"] }
        cache: { default_ttl: 60s, private_cookies: [], rule: [{ when: "status == 404", ttl: 10s }] }
"#;

/// The file that the role writes in `folder`: twice, and the second run changes nothing.
fn file_of_the_role(folder: &Path) -> String {
    let role = packaging().join("ansible");
    let written = folder.join("role.toml");
    let template = format!(
        "src={} dest={} validate='{} check -c %s'",
        role.join("templates/larder.toml.j2").display(),
        written.display(),
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
        ]);
        ansible.arg(&template);
        ansible.arg("-e").arg(format!("@{}", role.join("defaults/main.yml").display()));
        ansible.arg("-e").arg(format!("@{}", folder.join("settings.yml").display()));
        ansible.env("HOME", folder).env("ANSIBLE_REMOTE_TEMP", folder.join("remote")).current_dir(folder);
        let out = output(&mut ansible);
        assert!(out.contains(&format!("localhost | {expect}")), "{out}");
    }
    std::fs::read_to_string(written).unwrap()
}

/// A machine below a directory of its own, for dpkg and the cookbook.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(it.at("root/var/lib/dpkg")).unwrap();
        std::fs::write(it.at("root/var/lib/dpkg/status"), "").unwrap();
        std::fs::write(it.at("settings.yml"), SETTINGS).unwrap();
        it
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A package of this version, whose configuration is `default`.
    fn package(&self, version: &str, default: &str) {
        let tree = self.at("tree");
        std::fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        std::fs::create_dir_all(tree.join("etc/larder")).unwrap();
        std::fs::write(
            tree.join("DEBIAN/control"),
            format!(
                "Package: larder\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
            ),
        )
        .unwrap();
        std::fs::write(tree.join("DEBIAN/conffiles"), "/etc/larder/larder.toml\n").unwrap();
        std::fs::write(tree.join("etc/larder/larder.toml"), default).unwrap();
        let mut build = Command::new("dpkg-deb");
        output(build.args(["--root-owner-group", "-Znone", "-b"]).arg(&tree).arg(self.at("larder.deb")));
    }

    /// Runs the cookbook with attributes that Ruby code makes of the settings; the updated resources, or the reason of the failure.
    fn converge(&self, attributes: &str) -> Result<String, String> {
        let node = format!(
            "require 'json'; require 'yaml'; all = YAML.load_file('settings.yml')
             print JSON.generate('larder' => {{ 'deb' => '{}' }}.merge({attributes}))",
            self.at("larder.deb").display(),
        );
        let node = output(Command::new("ruby").args(["-Ku", "-e", &node]).current_dir(self.folder.path()));
        std::fs::write(self.at("node.json"), node).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_larder")).parent().unwrap();
        let path = format!("{}:{}:/usr/sbin:/sbin", programs.display(), std::env::var("PATH").unwrap());
        let mut converge = Command::new("ruby");
        converge.arg("-Ku").arg(packaging().join("../tests/chef/converge.rb"));
        converge.arg(packaging().join("chef")).arg(self.at("node.json")).arg(self.at("root"));
        let it = converge.env("PATH", path).output().unwrap();
        let [out, err] = [it.stdout, it.stderr].map(|it| String::from_utf8(it).unwrap());
        if it.status.success() { Ok(out) } else { Err(err) }
    }

    fn configuration(&self) -> String {
        std::fs::read_to_string(self.at("root/etc/larder/larder.toml")).unwrap()
    }
}

/// The default access log and one site are removed by nil.
const OWN: &str = "'settings' => { 'log' => nil }.merge(all['larder_settings']), \
                   'sites' => { 'gone' => nil, 'shop' => all['larder_sites'][0] }";

#[test]
fn the_cookbook_run_twice_changes_nothing_and_writes_the_file_of_the_role() {
    let machine = Machine::new();
    machine.package("1", "listen = [\"127.0.0.1:0\"]\n");
    let first = "package[adduser] install\ndpkg_package[larder] upgrade\ntemplate[/etc/larder/larder.toml] create\n\
                 service[larder] enable\nservice[larder] start\nservice[larder] reload\n";
    assert_eq!(Ok(first.to_owned()), machine.converge(OWN));
    assert_eq!(file_of_the_role(machine.folder.path()), machine.configuration());
    assert_eq!(Ok(String::new()), machine.converge(OWN));
    output(Command::new("ruby").arg("-c").arg(packaging().join("chef/metadata.rb")));
}

/// dpkg would ask which configuration to keep, and fail without a terminal.
#[test]
fn the_cookbook_installs_a_newer_package_whose_configuration_changed() {
    let machine = Machine::new();
    machine.package("1", "listen = [\"127.0.0.1:0\"]\n");
    machine.converge(OWN).unwrap();
    let configured = machine.configuration();
    machine.package("2", "listen = [\"127.0.0.1:0\"]\n# a new default\n");
    assert_eq!(Ok("dpkg_package[larder] upgrade\n".to_owned()), machine.converge(OWN));
    assert_eq!(configured, machine.configuration());
}

#[test]
fn the_cookbook_keeps_the_configuration_in_force_when_the_new_one_is_rejected() {
    let machine = Machine::new();
    machine.package("1", "listen = [\"127.0.0.1:0\"]\n");
    machine.converge(OWN).unwrap();
    let configured = machine.configuration();
    let error = machine.converge("'settings' => { 'workres' => 2 }").unwrap_err();
    assert!(error.contains("workres"), "{error}");
    assert_eq!(configured, machine.configuration());
}
