//! The program that an upgrade starts: the file that this process was started from, as it is on disk by then.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The file by which this process was started. It may be a link that is set to another version later, so it is not resolved.
pub fn of_this_process() -> Option<PathBuf> {
    let running = std::env::current_exe().ok()?;
    let called = std::env::args_os().next().unwrap_or_default();
    Some(named(&called, std::env::var_os("PATH"), &running).unwrap_or(running))
}

/// The path by which `called` names the running file; `None` where it names another one.
fn named(called: &OsStr, path: Option<OsString>, running: &Path) -> Option<PathBuf> {
    let is_it = |it: &PathBuf| it.canonicalize().is_ok_and(|it| it == running);
    if Path::new(called).components().count() > 1 {
        return std::path::absolute(called).ok().filter(is_it);
    }
    std::env::split_paths(&path?).map(|it| it.join(called)).find(is_it)
}

/// Why this process cannot be replaced; `None` where it can.
pub fn obstacle() -> Option<&'static str> {
    if std::env::args_os().nth(1).is_some_and(|it| it == "demo") {
        return Some("larder demo cannot be upgraded: stop it, and start it again.");
    }
    if std::process::id() == 1 {
        return Some(
            "larder is process 1 of its container, which ends with it: start a container of the new image instead.",
        );
    }
    let is_main = std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|it| it == std::process::id().to_string());
    if is_main && std::env::var_os("NOTIFY_SOCKET").is_none() {
        return Some(
            "systemd would stop the new process with this one: set Type=notify in the service unit, and restart larder once.",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_and_a_name_in_the_path_are_kept_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |it: &str| folder.path().join(it);
        let (first, second) = (at("larder-1"), at("larder-2"));
        std::fs::write(&first, "").unwrap();
        std::fs::write(&second, "").unwrap();
        std::fs::create_dir(at("bin")).unwrap();
        std::os::unix::fs::symlink(&first, at("bin/larder")).unwrap();
        let running = first.canonicalize().unwrap();
        let path = Some(std::env::join_paths([at("none"), at("bin")]).unwrap());
        assert_eq!(Some(at("bin/larder")), named(at("bin/larder").as_os_str(), None, &running));
        assert_eq!(Some(at("bin/larder")), named(OsStr::new("larder"), path.clone(), &running));
        assert_eq!(None, named(second.as_os_str(), path.clone(), &running));
        assert_eq!(None, named(OsStr::new("sh"), path, &running));
        assert_eq!(None, named(OsStr::new("larder"), None, &running));
    }
}
