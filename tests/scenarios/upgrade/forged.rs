//! Starts as the new process of an upgrade without a larder that is to be replaced: one sentence, and no second larder.

use crate::harness::command::wait;
use crate::harness::server::binary;
use crate::scenarios::privileges::is_root;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// The end of a larder that this process seems to upgrade, with this standard input: its code and what it wrote.
fn started(input: impl Into<Stdio>, user: Option<u32>) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("larder.toml");
    std::fs::write(
        &config,
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nrespond = { status = 204 }\n",
    )
    .unwrap();
    let mut command = Command::new(binary());
    command.args(["run", "-c"]).arg(&config).env("LARDER_UPGRADE_OF", std::process::id().to_string());
    if let Some(user) = user {
        command.uid(user);
    }
    command.stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Its ends of sockets must not be open here.
    drop(command);
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (wait(&mut child).code(), errors)
}

#[track_caller]
fn check((code, errors): (Option<i32>, String), expect: &str) {
    assert_eq!((Some(2), 1), (code, errors.lines().count()), "{errors}");
    assert!(errors.contains(expect), "{errors}");
}

#[test]
fn standard_input_must_be_a_connection() {
    const NONE: &str = "names the parent process, but standard input is no connection to it";
    check(started(Stdio::null(), None), NONE);
    check(started(File::open("/etc/hostname").unwrap(), None), NONE);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    check(started(OwnedFd::from(tcp), None), NONE);
    let (folder, socket) = (tempfile::tempdir().unwrap(), "socket");
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join(socket)).unwrap();
    check(started(OwnedFd::from(listener), None), NONE);
}

#[test]
fn the_connection_must_be_of_the_same_user_and_carry_an_offer() {
    let (mut here, there) = UnixStream::pair().unwrap();
    here.write_all(&[b'x'; 64]).unwrap();
    check(
        started(OwnedFd::from(there), None),
        "The running larder sent other bytes instead of a valid message.",
    );
    if is_root() {
        let (_here, there) = UnixStream::pair().unwrap();
        check(started(OwnedFd::from(there), Some(65_534)), "standard input is a connection of another user");
    }
}

/// The other end may continue to serve, with other purges.
#[test]
fn a_closed_connection_alone_does_not_make_a_second_larder() {
    let (here, there) = UnixStream::pair().unwrap();
    drop(here);
    check(started(OwnedFd::from(there), None), "The running larder closed the connection.");
}
