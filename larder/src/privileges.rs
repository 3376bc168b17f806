//! The change from root to `user`: missing directories are created, the sockets are bound, and then root is given up, before any other file
//! is opened or a second thread exists. A file that opens at the start opens at a reload, a rotation of logs and an upgrade as well.

use crate::sockets::Sockets;
use larder_config::Config;
use larder_config::plan::Plan;
use larder_config::service_user::{Account, ServiceUser};
use larder_observe::log::{ErrorLog, Level};
use larder_server::process_privileges::ProcessPrivileges;
use larder_stdx::error::plain;
use larder_transport::listener::Listen;
use nix::unistd::{Gid, Uid, initgroups, setgroups, setresgid, setresuid};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::ffi::CString;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The directories of a service that runs as root, each with the variable of systemd and that of XDG which may name another one.
const FOLDERS: [(&str, &str, &str); 2] = [
    ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "/run/larder"),
    ("STATE_DIRECTORY", "XDG_STATE_HOME", "/var/lib/larder"),
];

/// The effect of `user`.
#[derive(Debug, PartialEq, Eq)]
pub enum PrivilegeChange {
    /// The process was root and has changed to this user; with the file of the configuration that another user than root can write.
    Made(ServiceUser, Option<String>),
    /// `user` has no effect, for this reason.
    Without(String),
    /// Nothing was to change: `user` is not set, or the process has this user, such as after an upgrade.
    Unneeded,
}

impl PrivilegeChange {
    /// Logs it.
    pub fn log(&self, errors: &ErrorLog) {
        match self {
            Self::Made(user, writable) => {
                let now = ProcessPrivileges::now();
                let (uid, gid) = (now.uid.to_string(), now.gid.to_string());
                let values = [("user", &*user.shown()), ("uid", &*uid), ("gid", &*gid)];
                errors.event(Level::Info, "root-given-up", &values);
                if let Some(why) = writable {
                    errors.event(Level::Warn, "config-writable", &[("why", why)]);
                }
            }
            Self::Without(why) => errors.event(Level::Warn, "user-ignored", &[("why", why)]),
            Self::Unneeded => {}
        }
    }
}

/// Creates the missing directories that a start as root creates for its user; the sockets may lie in them.
///
/// # Errors
/// One sentence: the user cannot be used.
pub fn prepare(config: &Config) -> Result<(), String> {
    let Some(user) = config.service_user.as_ref().filter(|_| geteuid().is_root()) else { return Ok(()) };
    prepare_folders(config, &user.find().map_err(|it| format!("{it}."))?);
    Ok(())
}

/// Changes to the user of `config`, where this process is root. Returns the configuration as that user reads it.
///
/// # Errors
/// One sentence: the user cannot be used, or may not read the configuration.
pub fn give_up_root(
    config: Config,
    plan: &Plan,
    sockets: &Sockets,
) -> Result<(Config, PrivilegeChange), String> {
    let Some(user) = config.service_user.clone() else { return Ok((config, PrivilegeChange::Unneeded)) };
    let own = geteuid();
    if !own.is_root() {
        let is_there = user.find().is_ok_and(|it| it.uid == own.as_raw());
        let why = format!("user: no effect: larder was not started as root, and keeps user {}", own.as_raw());
        let change = if is_there { PrivilegeChange::Unneeded } else { PrivilegeChange::Without(why) };
        return Ok((config, change));
    }
    let account = user.find().map_err(|it| format!("{it}."))?;
    let writable = writable_configuration(plan);
    hand_over_sockets(&config, &account, sockets);
    become_user(&account).map_err(|it| format!("larder cannot change to user {:?}: {it}.", user.shown()))?;
    // Read again: relative to this user, and to find what a reload could not read.
    let read = plan.load().and_then(Config::fit).map_err(|it| advised(it.to_string(), Some(&user)))?;
    if read.listen != config.listen {
        return Err("The configuration was changed while larder started; start it again.".to_owned());
    }
    Ok((read, PrivilegeChange::Made(user, writable)))
}

/// The sentence of a failure, with the remedy where the user of the process may not use a file.
pub fn advised(sentence: String, user: Option<&ServiceUser>) -> String {
    let (Some(user), false) = (user, geteuid().is_root()) else { return sentence };
    if !["permission denied", "permission is denied", "not permitted", "not accessible", "belongs to user"]
        .iter()
        .any(|it| sentence.contains(it))
    {
        return sentence;
    }
    let (name, shown) = (&user.user, user.shown());
    let sentence = sentence.trim_end();
    if sentence.contains("cannot listen on") {
        return format!(
            "{sentence}\nlarder has given up root and runs as user {shown}: a port below 1024 is bound at a restart of larder."
        );
    }
    format!(
        "{sentence}\nlarder runs as user {shown}, which opens every file but the sockets: let it read this one, by \
         \"setfacl -m u:{name}:r PATH\", or give it the directories and logs that it writes, by \"chown -R {name}: PATH\". The \
         configuration stays a file of root: a user that can write it has the rights of the next start."
    )
}

/// The first file or directory of the configuration that another user than root can write, with that reason; `None` where none is.
fn writable_configuration(plan: &Plan) -> Option<String> {
    let main = plan.file()?.canonicalize().ok()?;
    let files = plan.included().into_iter().filter_map(|it| it.path.canonicalize().ok());
    let paths = std::iter::once(main).chain(files);
    paths.flat_map(|it| [it.parent().map(Path::to_owned), Some(it)]).flatten().find_map(|path| {
        let about = path.metadata().ok()?;
        let is_open = |bits: u32| about.mode() & bits != 0;
        // In a directory such as /tmp (sticky), only the owner of a file replaces it.
        let by_others = is_open(0o002) && !(about.is_dir() && is_open(0o1000));
        let why = match (about.uid(), about.gid()) {
            (0, _) if by_others => "by every user".to_owned(),
            (0, gid) if gid != 0 && is_open(0o020) => format!("by the group {gid}"),
            (0, _) => return None,
            (uid, _) => format!("by the user {uid}"),
        };
        Some(format!("{} can be written {why}", path.display()))
    })
}

/// Creates the missing directories that a start as root creates by itself. Those that exist keep their owner: in a directory of the
/// user, a link of its own could name any file of the system.
fn prepare_folders(config: &Config, account: &Account) {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    for (variable, xdg, default) in FOLDERS {
        let is_own = |it: &PathBuf| it.metadata().is_ok_and(|it| it.uid() == account.uid);
        if named(variable).is_some() || named(xdg).is_some_and(|it| is_own(&it)) {
            continue;
        }
        create_for(Path::new(default), account);
        // SAFETY: no other thread runs yet, which could read the environment meanwhile.
        unsafe { std::env::set_var(variable, default) };
    }
    if let Some(disk) = &config.disk {
        create_for(&disk.path, account);
    }
}

/// Creates a directory for the user, where only root can have made its path. Otherwise the user creates it, or the start fails then.
fn create_for(path: &Path, account: &Account) {
    let Ok(path) = std::path::absolute(path) else { return };
    let is_of_root = |it: &Path| {
        let about = it.symlink_metadata();
        about.is_ok_and(|it| it.uid() == 0 && (it.is_symlink() || it.mode() & 0o022 == 0))
    };
    let Some(parent) = path.parent() else { return };
    let Ok(real) = parent.canonicalize() else { return };
    if parent.ancestors().chain(real.ancestors()).all(is_of_root)
        && std::fs::DirBuilder::new().mode(0o755).create(&path).is_ok()
    {
        // A failure is noticed by the first file in it.
        let _ = std::os::unix::fs::lchown(&path, Some(account.uid), Some(account.gid));
    }
}

/// Gives the files of the Unix sockets that were just bound to the user, whose commands connect to them.
fn hand_over_sockets(config: &Config, account: &Account, sockets: &Sockets) {
    let clients = config.listen.iter().filter_map(|it| match &it.at {
        Listen::Unix(path) => Some(path),
        Listen::Tcp(_) | Listen::Tls(_) => None,
    });
    let admin = config.admin.socket.as_ref().filter(|_| !sockets.admin.is_empty());
    for path in clients.chain(admin) {
        let _ = hand_over_socket(path, account);
    }
}

/// By its descriptor: no link is followed, and no file is handed over that was put in its place.
fn hand_over_socket(path: &Path, account: &Account) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let about = rustix::fs::fstat(&file)?;
    let is_socket = FileType::from_raw_mode(about.st_mode) == FileType::Socket;
    if is_socket && about.st_uid == 0 && about.st_nlink == 1 {
        let (uid, gid) = (rustix::fs::Uid::from_raw(account.uid), rustix::fs::Gid::from_raw(account.gid));
        rustix::fs::chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// Gives up root: groups, user, capabilities, and the means to get them back.
fn become_user(account: &Account) -> Result<(), String> {
    let failed = |what: &'static str| move |it: nix::Error| format!("{what}: {}", plain(&it.into()));
    let failed_by =
        |what: &'static str| move |it: rustix::io::Errno| format!("{what}: {}", plain(&it.into()));
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    debug_assert_eq!(1, threads, "privileges are those of a thread");
    // Needs CAP_SETPCAP, which root of a container may lack; without new privileges the set is not used anyway.
    for capability in CapabilitySet::all().iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    match &account.name {
        Some(name) => {
            let name = CString::new(name.as_str()).map_err(|_| "its name contains a zero byte".to_owned())?;
            initgroups(&name, gid).map_err(failed("its groups cannot be set"))?;
        }
        None => setgroups(&[gid]).map_err(failed("its groups cannot be set"))?,
    }
    setresgid(gid, gid, gid).map_err(failed("its group cannot be set"))?;
    setresuid(uid, uid, uid).map_err(failed("its number cannot be set"))?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(failed_by("capabilities cannot be dropped"))?;
    set_no_new_privs(true).map_err(failed_by("new privileges cannot be refused"))?;
    let root = Uid::from_raw(0);
    let now = ProcessPrivileges::now();
    let is_root_again = setresuid(root, root, root).is_ok();
    if is_root_again || now.uid != account.uid || now.gid != account.gid || !now.capabilities.is_empty() {
        return Err("the kernel let it keep privileges of root".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_named_where_the_user_lacks_a_right() {
        let user = ServiceUser { user: "larder".to_owned(), group: None };
        let same = "The access log a cannot be opened: no such file or directory.";
        assert_eq!(same, advised(same.to_owned(), Some(&user)));
        let denied = "The access log a cannot be opened: permission denied.";
        assert_eq!(denied, advised(denied.to_owned(), None));
        if !geteuid().is_root() {
            assert!(advised(denied.to_owned(), Some(&user)).contains("chown -R larder: PATH"));
        }
    }

    #[test]
    fn directories_are_created_only_below_directories_of_root() {
        if !geteuid().is_root() {
            println!("skipped: not root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let account = Account { name: None, uid: 65_534, gid: 65_534 };
        // Beneath /tmp, which everyone may write to.
        create_for(&folder.path().join("below"), &account);
        assert!(!folder.path().join("below").exists());
    }

    #[test]
    fn only_a_socket_of_root_is_handed_over() {
        if !geteuid().is_root() {
            println!("skipped: not root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |it: &str| folder.path().join(it);
        let account = Account { name: None, uid: 65_534, gid: 65_534 };
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("socket"), at("link")).unwrap();
        let owner = |it: &str| at(it).metadata().unwrap().uid();
        for name in ["file", "link"] {
            hand_over_socket(&at(name), &account).unwrap();
            assert_eq!((0, 0), (owner("file"), owner("socket")), "{name}");
        }
        std::fs::hard_link(at("socket"), at("second")).unwrap();
        hand_over_socket(&at("socket"), &account).unwrap();
        assert_eq!(0, owner("socket"), "it has a second name");
        std::fs::remove_file(at("second")).unwrap();
        hand_over_socket(&at("socket"), &account).unwrap();
        assert_eq!(65_534, owner("socket"));
    }
}
