//! larder as a service of systemd: sockets that it is given at the start, and the messages by which it reports its state.

use crate::harness::command::wait;
use crate::harness::server::{Setup, activation};
use crate::harness::{Client, Larder, Origin, TIMEOUT, until};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

fn config(listen: &str, origin: &Origin) -> String {
    format!(
        "listen = [{listen}]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    )
}

fn origin() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nserved")
}

/// A socket of the service manager, and its address in a list of addresses.
fn socket() -> (TcpListener, String) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("{:?}", socket.local_addr().unwrap().to_string());
    (socket, address)
}

fn fetch(clients: &mut [Client]) {
    for it in clients {
        it.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
}

/// The error of a start with these sockets.
fn refused(sockets: &[BorrowedFd<'_>], names: &str, listen: &str) -> String {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let file = folder.path().join("larder.toml");
    let text = config(listen, &origin) + "[admin]\nenabled = false\n";
    std::fs::write(&file, text).unwrap();
    let mut command = activation(sockets, names);
    let output = command.args(["run", "-c"]).arg(&file).stdin(Stdio::null()).output().unwrap();
    assert_eq!(Some(2), output.status.code(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn requests_wait_in_a_passed_socket_until_larder_serves_them() {
    let (origin, (socket, listen)) = (origin(), socket());
    let address = socket.local_addr().unwrap();
    // Connected before there is any larder.
    let mut early: Vec<Client> = (0..8).map(|_| Client::connect(address)).collect();
    fetch(&mut early);
    for _ in 0..2 {
        let setup = Setup { config: config(&listen, &origin), env: Vec::new() };
        let mut larder = Larder::start_by(activation(&[socket.as_fd()], "web"), setup);
        assert_eq!(address, larder.address);
        for mut client in std::mem::take(&mut early) {
            assert_eq!("served", client.read().text());
        }
        // Both workers take connections from the one queue; a reload keeps it.
        assert_eq!("served", larder.get("/").text());
        larder.signal(libc::SIGHUP);
        until("the reload", || larder.counter("config_reloads") >= 1);
        assert_eq!("served", larder.get("/").text());
        larder.signal(libc::SIGTERM);
        assert!(wait(&mut larder.child).success());
        // The service manager still listens: these are served by the next one.
        early = (0..8).map(|_| Client::connect(address)).collect();
        fetch(&mut early);
    }
}

#[test]
fn several_sockets_are_identified_by_their_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let (origin, (first, one), (second, two), (admin, at)) = (origin(), socket(), socket(), socket());
    let listen = format!("{two}, {one}, \"unix:{}\"", path.display());
    let config = format!("{}[admin]\nlisten = {at}\n", config(&listen, &origin));
    let sockets = [admin.as_fd(), unix.as_fd(), first.as_fd(), second.as_fd()];
    let mut larder =
        Larder::start_by(activation(&sockets, "admin:unix:one:two"), Setup { config, env: Vec::new() });
    assert_eq!((second.local_addr().unwrap(), admin.local_addr().unwrap()), (larder.address, larder.admin));
    assert_eq!("served", Client::connect(first.local_addr().unwrap()).get("/").text());
    assert_eq!("served", larder.get("/").text());
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("served"), "{text}");
    larder.signal(libc::SIGTERM);
    assert!(wait(&mut larder.child).success());
    assert!(path.exists(), "the file belongs to the service manager");
}

#[test]
fn a_socket_without_an_address_and_an_address_without_a_socket_are_errors() {
    let ((first, one), (second, two)) = (socket(), socket());
    let at = |it: &TcpListener| it.local_addr().unwrap();
    let why = refused(&[first.as_fd(), second.as_fd()], "web:other", &one);
    let place = at(&second);
    let expect = format!(
        "larder: The service manager passed a socket for {place} (other), which is not in listen: add \"{place}\" to listen, or remove \
         ListenStream={place} from the socket unit.\n"
    );
    assert_eq!(expect, why);
    let why = refused(&[first.as_fd()], "web", &format!("{one}, {two}"));
    let expect = format!(
        "larder: The service manager passed sockets, but none for {place}, which is in listen: add ListenStream={place} to the socket \
         unit, or remove the address from listen.\n"
    );
    assert_eq!(expect, why);
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let why = refused(&[datagrams.as_fd()], "dns", &one);
    let port = datagrams.local_addr().unwrap();
    let expect = format!(
        "\"dns\" of the service manager cannot be used: it is the UDP port {port}, which larder binds itself"
    );
    assert!(why.contains(&expect) && why.contains("remove ListenDatagram="), "{why}");
    let why = refused(&[UnixDatagram::unbound().unwrap().as_fd()], "log", &one);
    assert!(why.contains("\"log\"") && why.contains("is no socket that listens for streams"), "{why}");
}

/// The messages to a service manager.
struct Messages(UnixDatagram);

impl Messages {
    /// The next one that is no sign of life.
    fn next(&self) -> String {
        loop {
            let mut bytes = [0; 4096];
            let length = self.0.recv(&mut bytes).expect("a message comes in time");
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text != "WATCHDOG=1" {
                return text;
            }
        }
    }

    /// The sockets of the next message that stores some; those before are forgotten first.
    fn stored(&self) -> Vec<TcpListener> {
        let mut is_forgotten = false;
        loop {
            let (mut bytes, mut sockets) = ([0; 4096], Vec::<OwnedFd>::new());
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut room = [IoSliceMut::new(&mut bytes)];
            let length = recvmsg(&self.0, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC);
            let length = length.expect("a message comes in time").bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(all) = message {
                    sockets.extend(all);
                }
            }
            match std::str::from_utf8(&bytes[..length]).unwrap() {
                "FDSTOREREMOVE=1\nFDNAME=larder-stored" => is_forgotten = true,
                "FDSTORE=1\nFDNAME=larder-stored" if is_forgotten => {
                    return sockets.into_iter().map(TcpListener::from).collect();
                }
                _ => assert!(sockets.is_empty()),
            }
        }
    }
}

/// The addresses of some sockets, each once.
fn addresses(sockets: &[TcpListener]) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The messages of a larder to a service manager that stores sockets, and the variables for it.
fn storing(folder: &Path) -> (Messages, Vec<(String, String)>) {
    let path = folder.join("notify");
    let messages = Messages(UnixDatagram::bind(&path).unwrap());
    messages.0.set_read_timeout(Some(TIMEOUT)).unwrap();
    let env = [("NOTIFY_SOCKET", path.display().to_string()), ("FDSTORE", "100".to_owned())];
    (messages, env.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

/// Starts larder with sockets that an earlier process left with the service manager.
fn restarted(sockets: &[TcpListener], config: String, env: &[(String, String)]) -> Larder {
    let names = vec!["larder-stored"; sockets.len()].join(":");
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(TcpListener::as_fd).collect();
    Larder::start_by(activation(&sockets, &names), Setup { config, env: env.to_vec() })
}

#[test]
fn connections_wait_in_stored_sockets_while_larder_is_killed_and_started() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let (messages, env) = storing(folder.path());
    let mut larder = Larder::start(Setup { config: config("\"127.0.0.1:0\"", &origin), env: env.clone() });
    let (address, admin) = (larder.address, larder.admin);
    let listen = format!("\"{address}\"");
    let text = config(&listen, &origin) + &format!("[admin]\nlisten = \"{admin}\"\n");
    for _ in 0..2 {
        let sockets = messages.stored();
        let mut expect = vec![address, admin];
        expect.sort_unstable();
        // One of each worker, and that of the admin.
        assert_eq!((3, expect), (sockets.len(), addresses(&sockets)));
        larder.signal(libc::SIGKILL);
        wait(&mut larder.child);
        let mut early: Vec<Client> = (0..8).map(|_| Client::connect(address)).collect();
        fetch(&mut early);
        larder = restarted(&sockets, text.clone(), &env);
        assert_eq!((address, admin), (larder.address, larder.admin));
        for mut client in early {
            assert_eq!("served", client.read().text());
        }
    }
}

#[test]
fn stored_sockets_follow_the_configuration() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let (messages, env) = storing(folder.path());
    let both = config("\"127.0.0.1:0\", \"127.0.0.2:0\"", &origin) + "[admin]\nenabled = false\n";
    let one = config("\"127.0.0.1:0\"", &origin) + "[admin]\nenabled = false\n";
    let mut larder = Larder::start(Setup { config: both, env: env.clone() });
    let first = messages.stored();
    assert_eq!((4, 2), (first.len(), addresses(&first).len()));
    std::fs::write(larder.config(), one).unwrap();
    larder.signal(libc::SIGHUP);
    let second = messages.stored();
    assert_eq!((2, vec![larder.address]), (second.len(), addresses(&second)));
    larder.signal(libc::SIGTERM);
    assert!(wait(&mut larder.child).success());
    // Another configuration: the sockets of an address that it does not name are closed, and forgotten.
    let (reserved, listen) = socket();
    drop(reserved);
    let config = config(&listen, &origin) + "[admin]\nenabled = false\n";
    let larder = restarted(&first, config, &env);
    let third = messages.stored();
    assert_eq!((2, vec![larder.address]), (third.len(), addresses(&third)));
    let closed = addresses(&first);
    drop((first, second));
    for it in closed {
        until("the address is closed", || std::net::TcpStream::connect(it).is_err());
    }
}

#[test]
fn start_reloads_and_stop_are_reported() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let path = folder.path().join("notify");
    let messages = Messages(UnixDatagram::bind(&path).unwrap());
    messages.0.set_read_timeout(Some(TIMEOUT)).unwrap();
    let env = vec![
        ("NOTIFY_SOCKET".to_owned(), path.display().to_string()),
        ("WATCHDOG_USEC".to_owned(), "20000".to_owned()),
    ];
    let mut larder = Larder::start(Setup { config: config("\"127.0.0.1:0\"", &origin), env });
    let serving = format!("STATUS=serving on http://{}", larder.address);
    assert_eq!(format!("READY=1\n{serving}"), messages.next());
    let mut bytes = [0; 100];
    let length = messages.0.recv(&mut bytes).unwrap();
    assert_eq!(b"WATCHDOG=1", &bytes[..length]);
    larder.signal(libc::SIGHUP);
    let reloading = messages.next();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&reloading);
    assert!(since.parse::<u64>().unwrap() > 0);
    assert_eq!(format!("READY=1\n{serving}"), messages.next());
    std::fs::write(larder.config(), "listne = 1").unwrap();
    larder.signal(libc::SIGHUP);
    assert!(messages.next().starts_with("RELOADING=1\n"));
    let rejected = messages.next();
    assert!(
        rejected.starts_with(&format!("READY=1\n{serving}; a new configuration was rejected: ")),
        "{rejected}"
    );
    assert_eq!(2, rejected.lines().count(), "{rejected}");
    larder.signal(libc::SIGTERM);
    // The change of the file may have been noticed, too.
    while !messages.next().starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=") {}
    assert!(wait(&mut larder.child).success());
}

#[test]
fn programs_of_a_route_know_nothing_of_the_service_manager() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("env.cgi");
    std::fs::write(&program, "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; env\n").unwrap();
    let status = Command::new("chmod").arg("755").arg(&program).status().unwrap();
    assert!(status.success());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\ncgi = {{ program = {program:?} }}\n"
    );
    let env = vec![("NOTIFY_SOCKET".to_owned(), "/nowhere".to_owned())];
    let text = Larder::start(Setup { config, env }).get("/").text();
    assert!(text.contains("REQUEST_METHOD=GET") && !text.contains("NOTIFY_SOCKET"), "{text}");
}
