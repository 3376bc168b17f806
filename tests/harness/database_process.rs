//! The processes of database servers: with the user that a server accepts, and ended by the kernel together with the test run.

use std::path::Path;
use std::process::Command;

/// A program that gets this signal once the thread that started it has ended: a test run that is killed leaves no server behind. In a test that
/// runs as root it has these numbers of a user and a group. The kernel forgets the signal where a program changes its user itself.
pub(super) fn ends_with_test(program: &Path, signal: &str, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]);
    if let Some((user, group)) = user {
        command.args(["--reuid", &user.to_string(), "--regid", &group.to_string(), "--clear-groups"]);
    }
    command.arg(program);
    command
}
