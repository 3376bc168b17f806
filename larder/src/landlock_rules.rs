//! Landlock: the paths that the process may open, and the programs that it starts. Rules are never taken back and never extended, so a
//! reload and the new process of an upgrade are compared with those of the start.

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, make_bitflags,
};
use larder_config::named_paths::NamedPath;
use larder_config::plan::Plan;
use larder_config::table::Takes;
use larder_config::{Config, PathAccess, Problem, run_file, token};
use larder_server::{process_privileges, tiers};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The variable by which the new process of an upgrade learns the rules that it has inherited.
pub const HANDED_OVER: &str = "LARDER_PATH_RULES";

/// The version of the kernel's interface that has every right on files. Older kernels restrict those that they know.
const RIGHTS: ABI = ABI::V5;

/// Paths of the system: libraries and modules of name lookups, their configuration, certificates of CAs, time zones, the state of the
/// process. /etc as a whole, because its files are replaced by new ones, such as resolv.conf by a DHCP client.
const SYSTEM: [(&str, PathAccess); 18] = [
    ("/usr", PathAccess::RUN),
    ("/bin", PathAccess::RUN),
    ("/sbin", PathAccess::RUN),
    ("/lib", PathAccess::RUN),
    ("/lib32", PathAccess::RUN),
    ("/lib64", PathAccess::RUN),
    ("/nix/store", PathAccess::RUN),
    ("/etc", PathAccess::READ),
    ("/etc/resolv.conf", PathAccess::READ),
    ("/proc", PathAccess::READ),
    ("/sys/fs/cgroup", PathAccess::READ),
    ("/sys/devices/system/cpu", PathAccess::READ),
    ("/sys/kernel/mm", PathAccess::READ),
    ("/dev/null", PathAccess::WRITE),
    ("/dev/zero", PathAccess::READ),
    ("/dev/full", PathAccess::WRITE),
    ("/dev/random", PathAccess::READ),
    ("/dev/urandom", PathAccess::READ),
];

/// The rules of this process.
static IN_FORCE: OnceLock<PathRules> = OnceLock::new();

/// The effect of `sandbox` on paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRestriction {
    /// Those of the configuration can be opened, by this version of the kernel's interface.
    InForce(u32),
    /// Every path can be opened, for this reason in the configuration.
    Unwanted(&'static str),
    /// Every path can be opened, for this reason in the kernel.
    Missing(String),
}

/// Directories, and files without a directory of their own, each with the access to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PathRules {
    abi: u32,
    /// Those of the configuration.
    named: BTreeMap<PathBuf, PathAccess>,
    /// Those of the system; programs of `cgi` must be among the others.
    system: BTreeMap<PathBuf, PathAccess>,
}

/// Restricts this thread, and all threads and programs that it starts, to the paths of the configuration. `program` is the file that an
/// upgrade starts.
pub fn restrict(config: &Config, plan: &Plan, program: Option<PathBuf>) -> PathRestriction {
    let named = plan.named_paths();
    let opened: Vec<&NamedPath> = named.iter().filter(|it| it.access == PathAccess::ALL).collect();
    if opened.iter().any(|it| it.path == Path::new("/")) {
        return PathRestriction::Unwanted("sandbox_paths leaves every path open");
    }
    if opened.is_empty() && named.iter().any(|it| it.access == PathAccess::RUN) {
        return PathRestriction::Unwanted(
            "programs of cgi use files that no key names; name them in sandbox_paths to restrict paths",
        );
    }
    let mut rules = PathRules::default();
    for it in named.iter().chain(&of_process(config, program)) {
        // A directory around a missing one is not what the operator has named.
        if it.access != PathAccess::ALL || it.path.exists() {
            rules.add(it);
        }
    }
    for (path, access) in SYSTEM.into_iter().filter(|it| Path::new(it.0).exists()) {
        for place in places(Path::new(path)) {
            allow(&mut rules.system, place, access);
        }
    }
    match rules.enforce() {
        Ok(abi) => {
            rules.abi = abi;
            set(rules);
            PathRestriction::InForce(abi)
        }
        Err(why) => PathRestriction::Missing(why),
    }
}

/// Takes over the rules that the process was started with by the larder that it replaces.
pub fn inherit() {
    let text = std::env::var(HANDED_OVER).ok();
    if let Some(rules) = text.and_then(|it| PathRules::read(&serde_json::from_str(&it).ok()?)) {
        set(rules);
    }
}

/// The rules for the new process of an upgrade, which inherits them from the kernel.
pub fn to_hand_over() -> Option<String> {
    IN_FORCE.get().map(|it| it.json().to_string())
}

/// Whether there are rules.
pub fn are_in_force() -> bool {
    IN_FORCE.get().is_some()
}

/// The moment at which a configuration is compared with the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleCheck {
    /// A reload, which keeps the old values of the keys that take effect at a start.
    Reload,
    /// The start of the new process of an upgrade.
    Upgrade,
}

/// Compares the configuration as it is now with the rules. `sandbox_paths` names paths for the next start: those of now stay.
///
/// # Errors
/// A sentence for each path that this process cannot use.
pub fn check(plan: &Plan, at: RuleCheck) -> Result<(), String> {
    let Some(rules) = IN_FORCE.get() else { return Ok(()) };
    let named = plan.named_paths();
    let is_used = |it: &&NamedPath| {
        it.access != PathAccess::ALL && (at == RuleCheck::Upgrade || it.takes == Takes::AtReload)
    };
    let wrong: Vec<String> = named.iter().filter(is_used).filter_map(|it| rules.refusal(it)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn set(rules: PathRules) {
    process_privileges::restricted_by(rules.abi);
    let _ = IN_FORCE.set(rules);
}

/// The paths that no key names.
fn of_process(config: &Config, program: Option<PathBuf>) -> Vec<NamedPath> {
    let folder = |it: PathBuf, mode: u32| {
        // A rule for a directory needs the directory. A failure is noticed by the first file in it.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&it);
        it.exists().then(|| NamedPath::without_key(it, PathAccess::WRITE))
    };
    let state = token::state_place("admin-token").and_then(|it| it.parent().map(Path::to_owned));
    let mut all = Vec::new();
    all.extend(state.and_then(|it| folder(it, 0o700)));
    all.extend(run_file::own_folder().and_then(|it| folder(it, 0o755)));
    all.extend(tiers::temporary_folder(config).map(|it| NamedPath::without_key(it, PathAccess::WRITE)));
    let programs = [program, std::env::current_exe().ok()];
    all.extend(programs.into_iter().flatten().map(|it| NamedPath::without_key(it, PathAccess::RUN)));
    let bundle = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    all.extend(bundle.map(|it| NamedPath::without_key(it, PathAccess::READ)));
    all
}

/// The directories by which a path is allowed; a file, if it has none for itself.
///
/// A file is allowed with its directory, because it is replaced by a new file when it is changed. The directory around the target
/// of a symbolic link is allowed as well: a deployment or a renewal sets the link to another target there. A missing path is allowed with
/// the directory in which it would be created.
fn places(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(path) else { return Vec::new() };
    let mut found = Vec::new();
    let mut add = |it: Option<PathBuf>| found.extend(it.filter(|it| it.parent().is_some()));
    let around = |it: PathBuf| it.parent().map(Path::to_owned);
    for part in path.ancestors().filter(|it| it.is_symlink()) {
        add(part.canonicalize().ok().and_then(around));
    }
    let real = path.canonicalize().ok();
    match path.metadata() {
        Ok(it) if it.is_dir() => add(real),
        Ok(it) if it.file_type().is_char_device() || it.file_type().is_fifo() => add(Some(path)),
        Ok(_) => {
            let folders = [real.clone().and_then(around), around(path).and_then(|it| it.canonicalize().ok())];
            match folders.iter().flatten().any(|it| it.parent().is_none()) {
                true => add(real),
                false => folders.into_iter().for_each(add),
            }
        }
        Err(_) => add(path.ancestors().find(|it| it.is_dir()).and_then(|it| it.canonicalize().ok())),
    }
    found
}

fn allow(rules: &mut BTreeMap<PathBuf, PathAccess>, place: PathBuf, access: PathAccess) {
    rules.entry(place).and_modify(|it| *it = it.and(access)).or_insert(access);
}

impl PathRules {
    fn add(&mut self, named: &NamedPath) {
        for place in places(&named.path) {
            allow(&mut self.named, place, named.access);
        }
    }

    /// Puts the rules in force; returns the version of the kernel's interface.
    fn enforce(&self) -> Result<u32, String> {
        let failed = |it: &dyn std::fmt::Display| it.to_string();
        let ruleset = Ruleset::default().handle_access(AccessFs::from_all(RIGHTS));
        let mut ruleset = ruleset.and_then(Ruleset::create).map_err(|it| failed(&it))?;
        for (place, access) in self.named.iter().chain(&self.system) {
            // Removed meanwhile.
            let Ok(file) = PathFd::new(place) else { continue };
            let rights =
                if place.is_dir() { rights(*access) } else { rights(*access) & AccessFs::from_file(RIGHTS) };
            // A pipe has no place in a file system; it stays open to all.
            let _ = (&mut ruleset).add_rule(PathBeneath::new(file, rights));
        }
        let status = ruleset.restrict_self().map_err(|it| failed(&it))?;
        match (status.ruleset, status.landlock) {
            (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
                Err("Landlock is not enabled (kernel parameter lsm)".to_owned())
            }
            (RulesetStatus::NotEnforced, _) => Err("the kernel has no Landlock".to_owned()),
            (_, LandlockStatus::Available { effective_abi, .. }) => Ok((effective_abi as i32).unsigned_abs()),
            (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => Ok(0),
        }
    }

    /// Why a path cannot be used; `None` if it can.
    fn refusal(&self, named: &NamedPath) -> Option<String> {
        let is_allowed = |place: &PathBuf| {
            let of_system = self.system.iter().filter(|_| !named.access.runs);
            self.named
                .iter()
                .chain(of_system)
                .any(|(it, access)| place.starts_with(it) && access.covers(named.access))
        };
        if places(&named.path).iter().all(is_allowed) {
            return None;
        }
        let verb = match named.access {
            PathAccess { runs: true, .. } => "opened for programs",
            PathAccess { writes: true, .. } => "written",
            PathAccess { .. } => "read",
        };
        let text = format!(
            "{} cannot be {verb} before a restart of larder: its sandbox has the paths of the start (those of sandbox_paths included, as they were then)",
            named.path.display()
        );
        Some(Problem { source: named.source.clone(), key: named.key.clone(), text }.to_string())
    }

    fn json(&self) -> Value {
        let rows = |all: &BTreeMap<PathBuf, PathAccess>| -> Value {
            all.iter().map(|(path, it)| json!([path.to_string_lossy(), it.writes, it.runs])).collect()
        };
        json!({ "abi": self.abi, "named": rows(&self.named), "system": rows(&self.system) })
    }

    fn read(value: &Value) -> Option<Self> {
        let rows = |name: &str| -> Option<BTreeMap<PathBuf, PathAccess>> {
            let row = |it: &Value| {
                let access = PathAccess { writes: it[1].as_bool()?, runs: it[2].as_bool()? };
                Some((PathBuf::from(it[0].as_str()?), access))
            };
            value[name].as_array()?.iter().map(row).collect()
        };
        let abi = u32::try_from(value["abi"].as_u64()?).ok()?;
        Some(Self { abi, named: rows("named")?, system: rows("system")? })
    }
}

/// The rights of the kernel for an access. Devices and links are never created.
fn rights(access: PathAccess) -> BitFlags<AccessFs> {
    let mut all = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    if access.writes {
        all |= make_bitflags!(AccessFs::{
            WriteFile | Truncate | MakeReg | MakeDir | MakeSock | RemoveFile | RemoveDir | Refer
        });
    }
    if access.runs {
        all |= AccessFs::Execute;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind::PermissionDenied;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_allowed_with_its_directory_and_a_link_with_the_directory_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let at = |it: &str| base.join(it);
        for it in ["live", "archive/a", "releases/1/public", "etc"] {
            fs::create_dir_all(at(it)).unwrap();
        }
        fs::write(at("archive/a/cert1.pem"), "").unwrap();
        symlink("../archive/a/cert1.pem", at("live/cert.pem")).unwrap();
        symlink("releases/1", at("current")).unwrap();
        let check = |path: &str, expect: &[&str]| {
            let mut found = places(&at(path));
            found.sort();
            found.dedup();
            assert_eq!(expect.iter().map(|it| at(it)).collect::<Vec<_>>(), found, "{path}");
        };
        check("etc", &["etc"]);
        check("archive/a/cert1.pem", &["archive/a"]);
        check("live/cert.pem", &["archive/a", "live"]);
        check("current/public", &["releases", "releases/1/public"]);
        check("etc/missing", &["etc"]);
        check("etc/missing/below", &["etc"]);
        assert_eq!([PathBuf::from("/dev/null")], *places(Path::new("/dev/null")));
        assert!(places(Path::new("/")).is_empty() && places(Path::new("/missing-here")).is_empty());
    }

    /// On a thread of its own, because the rules stay.
    #[test]
    fn other_paths_can_neither_be_read_nor_written_nor_run() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (inside.path().join("a"), outside.path().join("b"));
        for it in [&a, &b] {
            fs::write(it, "text").unwrap();
        }
        let script = outside.path().join("script");
        fs::copy("/bin/true", &script).unwrap();
        symlink(&b, inside.path().join("link")).unwrap();
        let mut rules = PathRules::default();
        rules.add(&NamedPath::without_key(a.clone(), PathAccess::WRITE));
        for (path, access) in SYSTEM {
            allow(&mut rules.system, path.into(), access);
        }
        let again = PathRules::read(&rules.json());
        assert_eq!(Some(&rules), again.as_ref());
        let refusal = |path: &Path, access| rules.refusal(&NamedPath::without_key(path.to_owned(), access));
        assert_eq!(None, refusal(&a, PathAccess::WRITE));
        assert_eq!(None, refusal(&inside.path().join("new"), PathAccess::READ));
        assert_eq!(None, refusal(Path::new("/etc/hosts"), PathAccess::READ));
        for (path, access, verb) in [
            (&*b, PathAccess::READ, "read"),
            (Path::new("/etc/larder/log"), PathAccess::WRITE, "written"),
            (&*a, PathAccess::RUN, "opened for programs"),
            (Path::new("/usr/lib"), PathAccess::RUN, "opened for programs"),
        ] {
            let report = refusal(path, access).unwrap();
            let begin = format!("{0}: {0} cannot be {verb} before a restart of larder", path.display());
            assert!(report.starts_with(&begin), "{report}");
        }
        let restricted = move || {
            match rules.enforce() {
                Ok(abi) => assert!(abi > 0),
                Err(why) => return println!("skipped: {why}"),
            }
            let denied = |it: std::io::Error| assert_eq!(PermissionDenied, it.kind());
            assert_eq!("text", fs::read_to_string(&a).unwrap());
            fs::write(a.with_file_name("new"), "").unwrap();
            fs::rename(a.with_file_name("new"), &a).unwrap();
            assert!(fs::read_to_string("/etc/hosts").is_ok());
            denied(fs::read_to_string(&b).unwrap_err());
            denied(fs::read_to_string(a.with_file_name("link")).unwrap_err());
            denied(fs::write(&b, "").unwrap_err());
            denied(fs::write(b.with_file_name("new"), "").unwrap_err());
            denied(fs::remove_file(&b).unwrap_err());
            denied(std::process::Command::new(&script).status().unwrap_err());
            assert!(std::process::Command::new("/bin/true").status().unwrap().success());
        };
        std::thread::spawn(restricted).join().unwrap();
    }
}
