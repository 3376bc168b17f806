//! The run file of a server: the addresses of its admin and its listeners, for the commands that contact it. It contains
//! no secret, and is ignored after its server has ended.
//!
//! A server holds a lock on its file as long as it runs: a process id could belong to another process by now, or to
//! another container. The name has no meaning.

use crate::address;
use crate::token::{self, Token, TokenPlace};
use larder_stdx::error::plain;
use larder_transport::listener::Listen;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The folder for run files of root, and of a service.
const SYSTEM: &str = "/run/larder";
/// The most bytes of a run file.
const MOST: u64 = 64 << 10;

/// The run file of this server. It is removed with this value.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Drop for RunFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A larder that runs on this machine, from its run file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFileEntry {
    /// The addresses of its admin; never empty.
    pub admin: Vec<Listen>,
    /// Its client addresses, as printed.
    pub serves: Vec<String>,
    /// The file of its configuration, if any.
    pub configuration: Option<PathBuf>,
    /// The file of its token, if any.
    token_file: Option<PathBuf>,
    /// The user that runs it.
    owner: u32,
}

impl RunFileEntry {
    /// Its token, if this user may read it.
    ///
    /// # Errors
    /// One sentence: there is none, or it cannot be read.
    pub fn token(&self) -> Result<Token, String> {
        if self.token_file.is_none() {
            self.check_user(rustix::process::geteuid().as_raw(), token::is_given())?;
        }
        token::of_client(self.token_file.as_deref(), self.token_file.as_ref().map(|_| self.owner))
    }

    /// A service could name no file, and make root send the content of its own.
    fn check_user(&self, own: u32, is_given: bool) -> Result<(), String> {
        if self.owner == own || is_given {
            return Ok(());
        }
        Err(format!(
            "The larder of user {} names no token file, and the token of this user is for no other larder; set {} to its token.",
            self.owner,
            token::VARIABLE
        ))
    }
}

/// The address by which a server that listens at `address` is reached from this machine.
#[must_use]
pub fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, it.port()).into(),
        other => other,
    }
}

/// Writes the run file of a server: its admin's addresses, its listeners, the file of its configuration, and the file of
/// its token. `None` if there is no folder for such files.
///
/// # Errors
/// One sentence: it cannot be written.
pub fn write(
    admin: &[Listen],
    serves: &[String],
    configuration: Option<&Path>,
    kept: &TokenPlace,
) -> Result<Option<RunFile>, String> {
    let Some(folder) = own_folder() else { return Ok(None) };
    let absolute = |it: &Path| std::path::absolute(it).unwrap_or_else(|_| it.to_owned());
    let text = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "admin": admin.iter().map(Listen::spelled).collect::<Vec<_>>(),
        "listen": serves,
        "configuration": configuration.map(absolute),
        "token_file": match kept {
            TokenPlace::File(file) => Some(absolute(file)),
            TokenPlace::Variable | TokenPlace::Nowhere(_) => None,
        },
    });
    write_into(&folder, &format!("{text:#}\n"))
        .map(Some)
        .map_err(|it| format!("No run file can be written to {}: {}.", folder.display(), plain(&it)))
}

/// The folder for the run file of this process.
#[must_use]
pub fn own_folder() -> Option<PathBuf> {
    folder_of_server(|it| std::env::var_os(it), rustix::process::geteuid().is_root())
}

fn write_into(folder: &Path, text: &str) -> std::io::Result<RunFile> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    sweep(folder);
    let name = Token::random::<9>()?;
    let draft = folder.join(format!(".{}", name.text()));
    let path = folder.join(format!("{}.json", name.text()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&draft, flags, Mode::RUSR | Mode::WUSR)?);
    // Locked before it has its name: it is never visible without the lock.
    let written = flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&draft, &path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&draft);
        return Err(error);
    }
    Ok(RunFile { path, _file: file })
}

/// Removes the files of servers that were killed.
fn sweep(folder: &Path) {
    for path in files(folder) {
        let own = rustix::process::geteuid().as_raw();
        let Some(file) = open(&path).filter(|it| it.metadata().is_ok_and(|it| it.uid() == own)) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Every larder with a trusted run file: of the user itself, and of root; root trusts all.
#[must_use]
pub fn find() -> Vec<RunFileEntry> {
    let mut all: Vec<RunFileEntry> = Vec::new();
    for it in folders().iter().flat_map(|it| read_all(it)) {
        // For a moment of an upgrade two processes have the same addresses.
        if !all.iter().any(|known| known.admin == it.admin) {
            all.push(it);
        }
    }
    all
}

/// The folders that [`find`] searches.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    folders_of_client(|it| std::env::var_os(it))
}

fn read_all(folder: &Path) -> Vec<RunFileEntry> {
    files(folder).iter().filter_map(|it| read(it)).collect()
}

/// The run files of a folder, in a fixed order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|it| it.path());
    let mut all: Vec<PathBuf> = entries.filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
    all.sort();
    all
}

fn open(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

fn read(path: &Path) -> Option<RunFileEntry> {
    let file = open(path)?;
    let about = file.metadata().ok()?;
    let us = rustix::process::geteuid().as_raw();
    let is_believed = us == 0 || about.uid() == us || about.uid() == 0;
    if !about.is_file() || !is_believed || about.mode() & 0o022 != 0 {
        return None;
    }
    // A successful lock shows that the server of the file has ended.
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(rustix::io::Errno::WOULDBLOCK) {
        return None;
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let texts = |name: &str| -> Vec<String> {
        let list = value[name].as_array().into_iter().flatten();
        list.filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let admin: Vec<Listen> = texts("admin").iter().filter_map(|it| address::listen(it)).collect();
    let path = |name: &str| value[name].as_str().map(PathBuf::from);
    (!admin.is_empty()).then(|| RunFileEntry {
        admin,
        serves: texts("listen"),
        configuration: path("configuration"),
        token_file: path("token_file"),
        owner: about.uid(),
    })
}

/// The folder for a server: the one created by systemd, or the user's, or that of the system.
fn folder_of_server(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Option<PathBuf> {
    let of = |name: &str| variable(name).map(PathBuf::from).filter(|it| it.is_absolute());
    of("RUNTIME_DIRECTORY")
        .or_else(|| of("XDG_RUNTIME_DIR").map(|it| it.join("larder")))
        .or_else(|| root.then(|| PathBuf::from(SYSTEM)))
}

/// The folders that a command searches.
fn folders_of_client(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let users = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_absolute());
    let system = PathBuf::from(SYSTEM);
    users.map(|it| it.join("larder")).filter(|it| *it != system).into_iter().chain([system.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn written(folder: &Path) -> RunFile {
        let text = r#"{"admin":["127.0.0.1:9","unix:/a"],"listen":["http://127.0.0.1:80"],"configuration":"/c","token_file":null}"#;
        write_into(folder, text).unwrap()
    }

    #[test]
    fn no_token_of_this_user_goes_to_the_larder_of_another() {
        let admin = vec![address::listen("127.0.0.1:9").unwrap()];
        let (serves, configuration) = (Vec::new(), None);
        let it = RunFileEntry { admin, serves, configuration, token_file: None, owner: 7 };
        assert_eq!(Ok(()), it.check_user(7, false));
        assert_eq!(Ok(()), it.check_user(0, true), "the operator has set it");
        let why = it.check_user(0, false).unwrap_err();
        assert!(why.contains("user 7 names no token file"), "{why}");
    }

    /// Root may read every file, so a service could name one of root.
    #[test]
    fn a_token_file_of_another_user_than_the_server_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "k".repeat(32)).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let own = file.metadata().unwrap().uid();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let token = |place: &Path, owner| {
            let admin = vec![address::listen("127.0.0.1:9").unwrap()];
            let (serves, configuration, token_file) = (Vec::new(), None, Some(place.to_owned()));
            RunFileEntry { admin, serves, configuration, token_file, owner }.token()
        };
        for place in [&file, &link] {
            assert!(token(place, own).unwrap().is(&"k".repeat(32)));
            // Another user than root reads only files of its own.
            if own == 0 {
                let why = token(place, 7).unwrap_err();
                assert!(why.contains("belongs to user 0, but larder runs as user 7"), "{why}");
            }
        }
    }

    #[test]
    fn running_processes_are_found_and_ended_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("larder");
        assert_eq!(Vec::<RunFileEntry>::new(), read_all(&folder));
        let running = written(&folder);
        assert_eq!(0o600, running.path.metadata().unwrap().permissions().mode() & 0o777);
        let found = read_all(&folder);
        let admin = ["127.0.0.1:9", "unix:/a"].map(|it| address::listen(it).unwrap()).to_vec();
        assert_eq!((1, admin), (found.len(), found[0].admin.clone()));
        assert_eq!(Some(PathBuf::from("/c")), found[0].configuration);
        // One that was killed leaves its file, without the lock.
        let RunFile { path, .. } = &running;
        let left = folder.join("left.json");
        std::fs::copy(path, &left).unwrap();
        assert_eq!(1, read_all(&folder).len(), "a stale file counts for nothing");
        let second = written(&folder);
        assert!(!left.exists() && running.path.exists(), "the next start removes it, and no other");
        assert_eq!(2, read_all(&folder).len());
        drop((running, second));
        assert_eq!(0, files(&folder).len(), "a stop removes its own");
    }

    #[test]
    fn a_run_file_that_other_users_may_write_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let running = written(folder.path());
        std::fs::set_permissions(&running.path, std::fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(Vec::<RunFileEntry>::new(), read_all(folder.path()));
        let link = folder.path().join("link.json");
        std::fs::set_permissions(&running.path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&running.path, link).unwrap();
        assert_eq!(1, read_all(folder.path()).len(), "nor is a link followed");
        assert_eq!(1, running.path.metadata().unwrap().nlink());
    }

    #[test]
    fn the_folder_is_the_services_or_the_users() {
        let check = |variables: &[(&str, &str)], root, expect: Option<&str>| {
            let variable =
                |name: &str| variables.iter().find(|it| it.0 == name).map(|it| OsString::from(it.1));
            assert_eq!(expect.map(PathBuf::from), folder_of_server(variable, root));
        };
        check(&[], true, Some("/run/larder"));
        check(&[], false, None);
        check(&[("XDG_RUNTIME_DIR", "/run/user/1")], false, Some("/run/user/1/larder"));
        check(&[("XDG_RUNTIME_DIR", "run")], false, None);
        let service = [("RUNTIME_DIRECTORY", "/run/larder"), ("XDG_RUNTIME_DIR", "/run/user/1")];
        check(&service, false, Some("/run/larder"));
        let of = |it: &str| (it == "XDG_RUNTIME_DIR").then(|| OsString::from("/run/user/1"));
        assert_eq!(["/run/user/1/larder", "/run/larder"].map(PathBuf::from)[..], folders_of_client(of));
    }
}
