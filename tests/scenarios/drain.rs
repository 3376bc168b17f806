//! A stop and a reload while clients send one request after another: no request is left without its answer.

use crate::harness::command::wait;
use crate::harness::server::Setup;
use crate::harness::{Client, Larder, Origin, until};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const CLIENTS: usize = 50;

/// An origin of one page that is kept and others that are not.
fn origin() -> Origin {
    Origin::new(|request| match request.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nfrom the origin".to_owned(),
    })
}

/// How the requests of one client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Each had its answer, the last one with `Connection: close`.
    Announced,
    /// Each had its answer, and more would have.
    Open,
    /// One had none.
    Unanswered,
}

/// Sends one request after another, for the cache and the origin in turn, until larder announces the close or `enough` is set.
fn fetch(mut client: Client, number: usize, answered: &AtomicUsize, enough: &AtomicBool) -> Ended {
    let mut asked = 0;
    loop {
        let (target, text) =
            if (asked + number) % 3 == 0 { ("/passed", "from the origin") } else { ("/kept", "kept") };
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let answer = client.read();
        if (answer.status, answer.text().as_str()) != (200, text) {
            return Ended::Unanswered;
        }
        asked += 1;
        if asked == 2 {
            answered.fetch_add(1, SeqCst);
        }
        if answer.field("connection") == Some("close") {
            return if client.is_closed() { Ended::Announced } else { Ended::Unanswered };
        }
        if enough.load(SeqCst) {
            return Ended::Open;
        }
    }
}

/// Has clients of `larder` ask all the while that `then` runs, and a little before; how it ended for each.
fn under_load(larder: &mut Larder, then: impl FnOnce(&mut Larder, &AtomicBool)) -> Vec<Ended> {
    let (answered, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS).map(|_| larder.client()).collect();
    std::thread::scope(|scope| {
        let (answered, enough) = (&answered, &enough);
        let begin = |(number, client)| scope.spawn(move || fetch(client, number, answered, enough));
        let asking: Vec<_> = clients.into_iter().enumerate().map(begin).collect();
        until("all are answered", || answered.load(SeqCst) == CLIENTS);
        then(larder, enough);
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn a_stop_under_load_fails_no_request() {
    let origin = origin();
    for _ in 0..4 {
        let mut larder = Larder::before(&origin, "");
        let ended = under_load(&mut larder, |larder, _| {
            larder.signal(libc::SIGTERM);
            assert!(larder.child.wait().unwrap().success());
        });
        assert_eq!([Ended::Announced; CLIENTS], ended[..]);
    }
}

#[test]
fn a_reload_under_load_fails_no_request_and_closes_nothing() {
    let origin = origin();
    let mut larder = Larder::before(&origin, "");
    let ended = under_load(&mut larder, |larder, enough| {
        for round in 1..=4 {
            let text = std::fs::read_to_string(larder.config()).unwrap();
            std::fs::write(larder.config(), text.replace("cache = {", "cache = { ")).unwrap();
            larder.signal(libc::SIGHUP);
            until("it is taken over", || larder.counter("config_reloads") >= round);
        }
        enough.store(true, SeqCst);
    });
    assert_eq!([Ended::Open; CLIENTS], ended[..]);
}

/// A request that was on its way when the stop came has its answer, and the close is announced with that.
#[test]
fn an_idle_connection_is_read_from_for_a_moment() {
    let origin = origin();
    let mut larder = Larder::before(&origin, "");
    let mut clients: Vec<_> = (0..4).map(|_| larder.client()).collect();
    for client in &mut clients {
        assert_eq!("kept", client.get("/kept").text());
    }
    larder.hold();
    larder.signal(libc::SIGTERM);
    until("it stops", || TcpStream::connect(larder.address).is_err());
    for (client, target) in clients.iter_mut().zip(["/kept", "/passed", "/kept", "/passed"]) {
        let answer = client.get(target);
        assert_eq!((200, Some("close")), (answer.status, answer.field("connection")), "{answer:?}");
        assert!(client.is_closed());
    }
    drop(clients); // A close lingers until its client closes as well, and larder's clock stands still.
    assert!(larder.child.wait().unwrap().success());
}

/// A panic of a worker ends the process, so that its service manager starts it again: nothing listens without an answer.
#[test]
fn the_process_ends_when_a_worker_fails() {
    let origin = origin();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[log]\naccess = \"off\"\nerror = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    let mut larder = Larder::start(Setup { config, env: vec![("LARDER_TEST_PANIC".into(), "1".into())] });
    assert_eq!("kept", larder.get("/kept").text());
    larder.signal(libc::SIGHUP);
    assert_eq!(Some(1), wait(&mut larder.child).code());
    let log = std::fs::read_to_string(larder.folder.path().join("error.log")).unwrap();
    let line = log.lines().find(|it| it.contains(" error worker-failed ")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("why=\"a test demands a panic at a reload\""), "{line}");
    assert!(TcpStream::connect(larder.address).is_err(), "nothing listens");
}
