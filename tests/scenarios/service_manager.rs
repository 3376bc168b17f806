//! larder as a service of systemd: sockets that it is given at the start, and the messages by which it reports its state.

use crate::harness::command::wait;
use crate::harness::server::{Setup, activation};
use crate::harness::{Client, Larder, Origin, PATIENCE, until};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
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

fn ask(clients: &mut [Client]) {
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
    ask(&mut early);
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
        until("the reload", || larder.counter("config_reloads") == 1);
        assert_eq!("served", larder.get("/").text());
        larder.signal(libc::SIGTERM);
        assert!(wait(&mut larder.child).success());
        // The service manager still listens: these are served by the next one.
        early = (0..8).map(|_| Client::connect(address)).collect();
        ask(&mut early);
    }
}

#[test]
fn several_sockets_are_told_apart_by_their_addresses() {
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
}

#[test]
fn start_reloads_and_stop_are_reported() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let path = folder.path().join("notify");
    let messages = Messages(UnixDatagram::bind(&path).unwrap());
    messages.0.set_read_timeout(Some(PATIENCE)).unwrap();
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
