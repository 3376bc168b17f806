//! Failures of php-fpm: killed children, a restart, and more requests than children.

use super::{PhpSite, script, site, site_with};
use crate::harness::http2::Http2;
use crate::harness::php::PhpFpm;
use crate::harness::{Client, Larder, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Children are killed while requests are in flight: a GET is answered, unless two children died with it, a POST is answered or 502, and
/// no permit is lost.
#[test]
fn killed_children() {
    let keys = "proxy = { connections = 4 }\n[log]\naccess = \"off\"\nerror = \"off\"";
    let PhpSite { larder, fpm, .. } = &site_with(4, "", keys);
    let (is_over, kills) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failed = [AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                fpm.kill_child(kills.fetch_add(1, SeqCst));
                // The next kill comes when requests were answered: the pace is that of the machine.
                (0..5).for_each(|_| drop(larder.get("/env.php")));
            }
        });
        let clients: Vec<_> = (0..8)
            .map(|number| {
                let failed = &failed;
                scope.spawn(move || {
                    // A kill between two requests fails none: they go on until one was sent again.
                    let goes_on = |turn| turn < 60 || turn < 6000 && larder.counter("origin_retries") == 0;
                    for turn in (0..).take_while(|it| it % 20 != 0 || goes_on(*it)) {
                        let target = format!("/env.php?{number}.{turn}");
                        for (method, failed) in ["GET", "POST"].iter().zip(failed) {
                            let answer = larder.client().request(method, &target, "", "");
                            assert!(matches!(answer.status, 200 | 502) && answer.complete, "{answer:?}");
                            failed.fetch_add(usize::from(answer.status == 502), SeqCst);
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, SeqCst);
        ended.into_iter().for_each(|it| it.unwrap());
    });
    let [kills, gets, posts] = [&kills, &failed[0], &failed[1]].map(|it| it.load(SeqCst));
    assert!(gets <= kills / 20, "{gets} GET failed by {kills} kills");
    assert!(posts <= kills, "{posts} POST failed by {kills} kills: each kill fails one at most");
    assert!(larder.counter("origin_retries") > 0, "requests were sent again");
    // Every permit is free: as many requests as there are run at once.
    until("php-fpm has its children again", || fpm.children().len() == 4);
    std::thread::scope(|scope| {
        for number in 0..16 {
            scope.spawn(move || assert_eq!(200, larder.get(&format!("/env.php?after={number}")).status));
        }
    });
    until("no request holds a permit", || {
        let stats = larder.admin_get("/api/v1/stats").text();
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats["origins"][0]["in_flight"] == 0
    });
}

#[test]
fn a_restart() {
    let PhpSite { larder, mut fpm, folder } = site_with(1, "", "proxy = { connect_timeout = \"200ms\" }");
    assert_eq!(200, larder.get("/env.php").status);
    fpm.stop();
    assert_eq!(502, larder.get("/env.php").status);
    // Files do not need it.
    assert_eq!(200, larder.get("/style.css").status);
    fpm.start_again();
    until("the script is run again", || larder.get("/env.php").status == 200);
    drop(folder);
}

/// A busy device takes minutes for the spool: neither the last request nor the first client may time out meanwhile.
const PATIENT: &str = "proxy = { first_byte_timeout = \"10m\", between_bytes_timeout = \"10m\" }\n[limits]\nwrite_timeout = \"10m\"\n\
                       min_rate = \"0\"";

/// A client with a small window that has asked for `/large.php`, and reads nothing yet.
fn slow_client(larder: &Larder) -> Client {
    let mut client = larder.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(64 * 1024).unwrap();
    client.send("GET /large.php HTTP/1.1\r\nHost: h\r\n\r\n");
    client
}

/// A slow reader occupies no child: the rest of its page is in the spool.
#[test]
fn slow_readers_of_large_pages() {
    let PhpSite { larder, folder, .. } = &site_with(1, "", PATIENT);
    let large = "<?php header('Cache-Control: private'); for ($i = 0; $i < 1000; $i++) echo str_repeat(chr(65 + $i % 26), 12000);";
    std::fs::write(folder.path().join("large.php"), large).unwrap();
    let mut slow = [slow_client(larder), slow_client(larder)];
    let mut stalled = Http2::connect(larder);
    let id = stalled.send_get("/large.php");
    until("all are in the spool", || larder.counter("fill_spooled") == 3);
    assert_eq!("/env.php -", script(&larder.get("/env.php")));
    let expect: Vec<u8> =
        (0..1000u32).flat_map(|it| vec![b'A' + u8::try_from(it % 26).unwrap(); 12_000]).collect();
    for client in &mut slow {
        let page = client.read();
        assert!(page.complete && page.body == expect, "{} bytes", page.body.len());
    }
    stalled.allow(0, 20_000_000);
    stalled.allow(id, 20_000_000);
    assert!(stalled.answer(id).body == expect);
}

/// The same while the application makes the page in small pieces: larder waits for the next one when the client takes no more.
#[test]
fn slow_readers_of_pages_in_pieces() {
    let PhpSite { larder, folder, .. } = &site_with(1, "", PATIENT);
    let large = "<?php header('Cache-Control: no-store'); for ($i = 0; $i < 2000; $i++) { echo str_repeat('x', 4000); flush(); usleep(100); }";
    std::fs::write(folder.path().join("large.php"), large).unwrap();
    let mut slow = [slow_client(larder), slow_client(larder)];
    until("both are in the spool", || larder.counter("fill_spooled") == 2);
    assert_eq!("/env.php -", script(&larder.get("/env.php")));
    for client in &mut slow {
        let page = client.read();
        assert!(page.complete && page.body == [b'x'; 8_000_000], "{} bytes", page.body.len());
    }
}

/// Without a spool a slow reader is waited for, and others get their turn as before.
#[test]
fn slow_readers_without_a_spool() {
    let PhpSite { larder, folder, .. } = &site_with(2, "", "[cache.spool]\nsize = \"off\"");
    std::fs::write(
        folder.path().join("large.php"),
        "<?php header('Cache-Control: private'); echo str_repeat('x', 12000000);",
    )
    .unwrap();
    let mut client = slow_client(larder);
    until("it gave up the spool", || {
        larder.counter("fill_spool_given_up") == 1 || larder.counter("fill_hurried") == 1
    });
    assert_eq!("/env.php -", script(&larder.get("/env.php")));
    // A worker that asked again and again would use all of this time.
    until("it waits", || {
        let before = larder.processor_time();
        std::thread::park_timeout(std::time::Duration::from_millis(200));
        larder.processor_time() - before < 100
    });
    assert_eq!(12_000_000, client.read().body.len());
}

/// Idle connections occupy children: they are counted over all workers.
#[test]
fn idle_connections_of_all_workers() {
    let PhpSite { larder, fpm, .. } = &site_with(
        6,
        "",
        "cache = { enabled = false }\nproxy = { idle_connections = 2, idle_timeout = \"1m\" }",
    );
    std::thread::scope(|scope| {
        for number in 0..24 {
            scope.spawn(move || assert_eq!(200, larder.get(&format!("/env.php?{number}")).status));
        }
    });
    // The accepted ends have the name of the socket.
    let socket = fpm.socket().display().to_string();
    let connected = || {
        let all = std::fs::read_to_string("/proc/net/unix").unwrap();
        let is_one = |it: &&str| it.ends_with(&socket) && it.split_ascii_whitespace().nth(5) == Some("03");
        all.lines().filter(is_one).count()
    };
    until("two are kept", || connected() == 2);
    until("one is reused", || {
        assert_eq!(200, larder.get("/env.php").status);
        larder.counter("origin_reuses") > 0
    });
    until("two are kept", || connected() == 2);
}

/// More requests at once than there are children wait for one.
#[test]
fn one_php_child_serves_many_requests() {
    let PhpSite { larder, .. } = &site_with(1, "", "");
    std::thread::scope(|scope| {
        for number in 0..12 {
            scope.spawn(move || assert_eq!("/env.php -", script(&larder.get(&format!("/env.php?{number}")))));
        }
    });
}

/// A script that ends in the middle, or exits with an error, is never passed off as whole.
#[test]
fn scripts_that_fail() {
    let PhpSite { larder, folder, .. } = &site();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("fatal.php", "<?php header('Cache-Control: max-age=60'); nothing_of_this_name();");
    write(
        "status.php",
        "<?php http_response_code(418); header('Cache-Control: max-age=60'); echo 'tea'; exit(3);",
    );
    write(
        "die.php",
        "<?php header('Content-Length: 100'); header('Cache-Control: max-age=60'); echo 'part'; flush(); posix_kill(getmypid(), 9);",
    );
    assert_eq!(500, larder.get("/fatal.php").status);
    let tea = larder.get("/status.php");
    assert_eq!((418, "tea".to_owned()), (tea.status, tea.text()));
    for _ in 0..2 {
        let answer = larder.get("/die.php");
        assert!(!answer.complete || answer.status == 502, "{answer:?}");
        assert!(!answer.is_hit());
    }
}

/// Two pools of php-fpm share the requests by their weights; one that fails is ejected, and gets its part again after it has answered.
#[test]
fn two_pools_with_weights() {
    let (folder, mut first, second) = (tempfile::tempdir().unwrap(), PhpFpm::start(2), PhpFpm::start(2));
    std::fs::write(folder.path().join("index.php"), "<?php header('X-Pid: ' . getmypid());").unwrap();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         php = {{ root = {:?}, to = [\"{} weight=3\", \"{}\"] }}\nproxy = {{ balance = \"round_robin\", eject_after = 2, eject_time = \"10s\" }}\n",
        folder.path(),
        first.name(),
        second.name()
    ));
    let of = |pool: &PhpFpm, count: usize| {
        let children = pool.children();
        let answers = (0..count).map(|_| larder.get("/"));
        let pids = answers.map(|it| {
            assert_eq!(200, it.status, "{it:?}");
            it.field("x-pid").unwrap().parse::<libc::pid_t>().unwrap()
        });
        pids.filter(|it| children.contains(it)).count()
    };
    assert_eq!(6, of(&first, 8), "by their weights");
    first.stop();
    assert_eq!(8, of(&second, 8), "a GET is sent to the other pool");
    assert_eq!(1, larder.counter("origin_ejections"));
    first.start_again();
    larder.advance(11);
    until("it is asked again", || of(&first, 1) == 1);
    until("it has its part again", || of(&first, 4) == 3);
}
