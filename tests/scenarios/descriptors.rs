//! An accepted client finds a descriptor for its request, however slowly the others read; further clients wait to be
//! accepted.

use super::limits::set_descriptors;
use crate::harness::{Client, Larder, Origin, until};

/// Larger than what two sockets hold of it.
const LARGE: u64 = 24 << 20;

/// The beginning of what has come, or nothing.
fn beginning(client: &Client) -> String {
    let mut bytes = [0; 12];
    client.stream.set_nonblocking(true).unwrap();
    let count = client.stream.peek(&mut bytes).unwrap_or(0);
    client.stream.set_nonblocking(false).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn an_accepted_client_gets_a_descriptor_for_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..80 {
        let file = std::fs::File::create(folder.path().join(number.to_string())).unwrap();
        file.set_len(LARGE).unwrap();
    }
    let root = folder.path().to_str().unwrap();
    let arguments = ["serve", root, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"];
    let larder = Larder::within("ulimit -n 120", &arguments);
    let mut clients: Vec<Client> = (0..80).map(|_| larder.client()).collect();
    for (number, it) in clients.iter_mut().enumerate() {
        it.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    let mut readers = Vec::new();
    let mut rest = clients.into_iter();
    let first_at_the_door = loop {
        let client = rest.next().expect("not all are let in");
        let answered = readers.len() as u64;
        let is_at_the_door =
            || larder.counter("accept_errors") > 0 && larder.counter("connections_open") == answered;
        until("it is answered, or at the door", || !beginning(&client).is_empty() || is_at_the_door());
        match beginning(&client).as_str() {
            "" => break client,
            status => assert_eq!("HTTP/1.1 200", status, "{answered}"),
        }
        readers.push(client);
    };
    assert!(readers.len() >= 20, "{} are let in", readers.len());
    drop(readers);
    for client in std::iter::once(first_at_the_door).chain(rest) {
        until("it is let in", || !beginning(&client).is_empty());
        assert_eq!("HTTP/1.1 200", beginning(&client));
    }
    assert_eq!(0, larder.counter("files_busy"));
}

/// The resolver opens files and sockets, too; and says that the name is not known where it cannot.
#[test]
fn a_name_is_looked_up_when_there_are_descriptors() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\nok");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"] }}\n[log]\naccess = \"off\"\nerror = \"errors.log\"\n",
        origin.url().replace("127.0.0.1", "localhost")
    ));
    let mut client = larder.client();
    until("it is let in", || larder.counter("connections_open") == 1);
    // None that is given back now is below that.
    set_descriptors(&larder, larder.descriptors() as u64 - 4);
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let log = larder.folder.path().join("errors.log");
    until("it is answered, or waits", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        !beginning(&client).is_empty() || log.contains("limit=origin_descriptor_waits")
    });
    set_descriptors(&larder, 1024);
    let it = client.read();
    assert_eq!((200, "ok".to_owned()), (it.status, it.text()), "{it:?}");
}
