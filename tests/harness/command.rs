//! A command of larder that ends by itself: its output and exit code.

use super::{TIMEOUT, server};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `larder ARGS…` in `folder` to its end.
///
/// # Panics
/// If it does not end: a server was started that should not have been.
#[track_caller]
pub fn run(folder: &Path, arguments: &[&str]) -> Ended {
    run_with(folder, arguments, &[])
}

/// The same with variables of the environment.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_with(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    run_into(folder, arguments, variables, Stdio::piped())
}

/// The exit code and standard error of a command whose standard output is a pipe without a reader.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_unread(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = run_into(folder, arguments, &[], writer.into());
    (ended.code, ended.err)
}

#[track_caller]
fn run_into(folder: &Path, arguments: &[&str], variables: &[(&str, &str)], to: Stdio) -> Ended {
    let mut command = Command::new(server::binary());
    command.envs(variables.iter().copied()).args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env("LARDER_ADMIN_TOKEN", server::TOKEN).env("XDG_RUNTIME_DIR", folder);
    let child = command.stdout(to).stderr(Stdio::piped()).spawn().unwrap();
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    let (done_sender, ended) = mpsc::channel();
    std::thread::spawn(move || done_sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(TIMEOUT) else {
        // SAFETY: kill takes no pointers; the process is our child, and the thread has not seen it end.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        panic!("larder {} does not end", arguments.join(" "));
    };
    let output = output.unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits for a process that was told to end.
#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    super::until("the process ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}
