//! The side of a service in its contract with systemd: the sockets of a socket unit (`LISTEN_FDS`), the listening sockets that it
//! holds while larder restarts (`FDSTORE`), reports of the state of this process (`NOTIFY_SOCKET`), and the signs of life of a
//! watchdog (`WATCHDOG_USEC`). See sd_listen_fds(3), sd_notify(3), sd_pid_notify_with_fds(3) and sd_watchdog_enabled(3).

use larder_server::inherited::InheritedSockets;
use larder_stdx::clock;
use larder_transport::listener::{SocketHandle, SocketPlace};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The first descriptor that a service manager passes.
const FIRST: RawFd = 3;
/// The most sockets that are accepted from a service manager; systemd has the same limit for a unit's store.
const MOST: usize = 4096;
/// The name of the sockets that the service manager holds.
const STORED: &str = "larder-stored";
/// The most sockets of one message; the kernel takes 253.
const MOST_OF_A_MESSAGE: usize = 200;

/// The sockets that this process was started with, and their names; none where it was started without. Those of a socket unit
/// are the same ones that were stored, or newer.
///
/// # Errors
/// One sentence: the variables of socket activation are invalid, or a socket cannot be used.
pub fn passed_sockets() -> Result<InheritedSockets, String> {
    let named = passed(|it| std::env::var_os(it), std::process::id())?;
    if named.is_empty() {
        return Ok(InheritedSockets::none());
    }
    let (mut sockets, mut stored) = (Vec::new(), Vec::new());
    for (descriptor, name) in (FIRST..).zip(named) {
        // SAFETY: the call takes no pointers, and only reads a flag.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            return Err(format!("LISTEN_FDS names descriptor {descriptor}, which is not open."));
        }
        // SAFETY: it is open, and LISTEN_PID says that this process owns it; no other code here names it, as this runs once, before anything
        // is opened that stays open.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        match &*name {
            STORED => stored.push(socket),
            _ => sockets.push((socket, name)),
        }
    }
    if !stored.is_empty() {
        // An address that this start cannot open, because one of them is open, is free for the next one.
        ServiceManager::of_environment().forget_sockets();
    }
    match sockets.is_empty() {
        true => Ok(InheritedSockets::of_store(stored)),
        false => InheritedSockets::of_service_manager(sockets),
    }
}

/// The names of the passed sockets, in the order of their descriptors. Variables for another process count for nothing.
fn passed(variable: impl Fn(&str) -> Option<OsString>, process: u32) -> Result<Vec<String>, String> {
    let text = |name: &str| variable(name).map(|it| it.to_string_lossy().into_owned());
    let Some(count) = text("LISTEN_FDS").filter(|_| text("LISTEN_PID") == Some(process.to_string())) else {
        return Ok(Vec::new());
    };
    let Some(count) = count.parse().ok().filter(|it: &usize| *it <= MOST) else {
        return Err(format!("LISTEN_FDS is {count:?}; it must be a number up to {MOST}."));
    };
    let names = text("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat("unknown".to_owned()));
    Ok(names.take(count).collect())
}

/// The service manager of this process, if it wants to know of its state.
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Whether it holds sockets while larder restarts.
    stores: bool,
    /// The interval within which it expects a sign of life.
    pub watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The one that the environment names.
    #[must_use]
    pub fn of_environment() -> Self {
        let watchdog = watchdog(|it| std::env::var_os(it), std::process::id());
        let stores = std::env::var("FDSTORE").is_ok_and(|it| it.parse().is_ok_and(|most: usize| most > 0));
        Self { socket: std::env::var_os("NOTIFY_SOCKET").and_then(|it| open(&it)), stores, watchdog }
    }

    /// Requests are served; `status` is a line for people.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\n{}", status_line(status)));
    }

    /// A new configuration is being read; [`ServiceManager::ready`] ends it.
    pub fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", clock::kernel_micros()));
    }

    /// Another process is the service from now on. To be called by the process that is it now.
    pub fn replaced(&self, process: u32, status: &str) {
        self.send(&format!("MAINPID={process}\nREADY=1\n{}", status_line(status)));
    }

    /// larder stops when the requests in progress are finished, at the latest after `within`.
    pub fn stopping(&self, within: Duration) {
        // It must not kill larder before; a second is for the logs.
        let most = (within + Duration::from_secs(1)).as_micros();
        let status = status_line("stopping: requests in progress are finished");
        self.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={most}\n{status}"));
    }

    /// The service manager holds these TCP sockets from now on, and no others, until larder is stopped and not restarted. Unix
    /// sockets lose their files at the end of a process, and UDP sockets their connections.
    pub fn store_sockets<'h>(&self, handles: impl Iterator<Item = &'h SocketHandle>) {
        if !self.stores {
            return;
        }
        self.forget_sockets();
        let is_tcp = |it: &OwnedFd| matches!(SocketPlace::of(it.as_fd()), Ok(SocketPlace::Tcp(_)));
        let sockets: Vec<OwnedFd> = handles.filter_map(SocketHandle::duplicate).filter(is_tcp).collect();
        sockets.chunks(MOST_OF_A_MESSAGE).for_each(|it| self.send_sockets(it));
    }

    /// The service manager holds no socket any more.
    fn forget_sockets(&self) {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={STORED}"));
    }

    fn send_sockets(&self, sockets: &[OwnedFd]) {
        let Some((socket, to)) = &self.socket else { return };
        let text = format!("FDSTORE=1\nFDNAME={STORED}");
        let sockets: Vec<_> = sockets.iter().map(OwnedFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_OF_A_MESSAGE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        // Errors are ignored, as for every message.
        if control.push(SendAncillaryMessage::ScmRights(&sockets)) && socket.connect_addr(to).is_ok() {
            let _ = sendmsg(socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL);
        }
    }

    /// A sign of life.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, text: &str) {
        if let Some((socket, to)) = &self.socket {
            // Never waited for: a service manager that is restarting must not stop the server.
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }
}

/// One line, as the service manager requires.
fn status_line(status: &str) -> String {
    let mut line = String::from("STATUS=");
    for char in status.chars() {
        let _ = line.write_char(if char.is_control() { ' ' } else { char });
    }
    line
}

/// A socket to the address, if it has a known form.
fn open(address: &OsStr) -> Option<(UnixDatagram, SocketAddr)> {
    let to = match address.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            SocketAddr::from_abstract_name(name).ok()?
        }
        [b'/', ..] => SocketAddr::from_pathname(address).ok()?,
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, to))
}

/// The interval of the watchdog, if it watches this process.
fn watchdog(variable: impl Fn(&str) -> Option<OsString>, process: u32) -> Option<Duration> {
    let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
    let is_ours = variable("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(process.into());
    number("WATCHDOG_USEC").filter(|it| is_ours && *it > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(variables: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| variables.iter().find(|it| it.0 == name).map(|it| OsString::from(it.1))
    }

    #[test]
    fn sockets_are_for_the_process_that_they_name() {
        let check = |variables: &[(&str, &str)], expect: Result<&[&str], &str>| {
            let expect = expect.map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
            assert_eq!(
                expect,
                passed(of(variables), 7).as_deref().map(<[String]>::to_vec).map_err(String::as_str)
            );
        };
        let ours = ("LISTEN_PID", "7");
        check(&[], Ok(&[]));
        check(&[ours], Ok(&[]));
        check(&[("LISTEN_FDS", "2"), ("LISTEN_PID", "8")], Ok(&[]));
        check(&[("LISTEN_FDS", "2")], Ok(&[]));
        check(&[("LISTEN_FDS", "0"), ours], Ok(&[]));
        check(&[("LISTEN_FDS", "2"), ours, ("LISTEN_FDNAMES", "web:")], Ok(&["web", ""]));
        check(&[("LISTEN_FDS", "2"), ours, ("LISTEN_FDNAMES", "web")], Ok(&["web", "unknown"]));
        check(&[("LISTEN_FDS", "-1"), ours], Err("LISTEN_FDS is \"-1\"; it must be a number up to 4096."));
        check(
            &[("LISTEN_FDS", "5000"), ours],
            Err("LISTEN_FDS is \"5000\"; it must be a number up to 4096."),
        );
    }

    #[test]
    fn a_watchdog_is_for_the_process_that_it_names() {
        let usec = ("WATCHDOG_USEC", "3000000");
        assert_eq!(Some(Duration::from_secs(3)), watchdog(of(&[usec]), 7));
        assert_eq!(Some(Duration::from_secs(3)), watchdog(of(&[usec, ("WATCHDOG_PID", "7")]), 7));
        assert_eq!(None, watchdog(of(&[usec, ("WATCHDOG_PID", "8")]), 7));
        assert_eq!(None, watchdog(of(&[("WATCHDOG_USEC", "0")]), 7));
        assert_eq!(None, watchdog(of(&[]), 7));
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!("STATUS=a  READY=1", status_line("a\r\nREADY=1"));
    }

    #[test]
    fn addresses_are_paths_or_abstract_names() {
        assert!(open(OsStr::new("vsock:2:1")).is_none() && open(OsStr::new("")).is_none());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager { socket: open(path.as_os_str()), stores: false, watchdog: None };
        manager.ready("serving");
        let mut bytes = [0; 100];
        let length = receiver.recv(&mut bytes).unwrap();
        assert_eq!("READY=1\nSTATUS=serving", std::str::from_utf8(&bytes[..length]).unwrap());
    }
}
