//! Thousands of requests while a child of php-fpm is killed every 50 ms: no answer is another one's, and each kill costs one request at most.
//! `LARDER_PHP_REQUESTS=100000` sends more.

use super::{PhpSite, site_with};
use crate::harness::{Client, Larder, Response, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Clients that ask at the same time: twice the children.
const CLIENTS: usize = 8;
/// The time between two kills.
const PAUSE: Duration = Duration::from_millis(50);

/// A page that only this request has, in several pieces, so that a child may die between them.
const PAGE: &str = "<?php header('Cache-Control: no-store'); header('X-Of: ' . $_GET['of']);
$line = $_SERVER['REQUEST_METHOD'] . ' ' . $_GET['of'] . ' ' . file_get_contents('php://input') . \"\\n\";
for ($i = 0; $i < $_GET['lines']; $i++) { echo $line; if ($i % 500 == 499) flush(); }";

/// The requests that had no whole answer.
#[derive(Default)]
struct Failures {
    gets: AtomicUsize,
    posts: AtomicUsize,
    cut: AtomicUsize,
}

impl Failures {
    /// Checks an answer; returns whether the connection of the client goes on.
    fn check(&self, of: &str, method: &str, lines: usize, answer: &Response) -> bool {
        let expect = format!("{method} {of} {}\n", if method == "POST" { of } else { "" }).repeat(lines);
        if answer.status == 502 {
            let failed = if method == "GET" { &self.gets } else { &self.posts };
            failed.fetch_add(1, SeqCst);
            return answer.complete;
        }
        assert_eq!((200, Some(of)), (answer.status, answer.field("x-of")), "{method} {of}: {answer:?}");
        match answer.complete {
            true => assert!(expect.as_bytes() == answer.body, "{method} {of}: a wrong body"),
            false => {
                assert!(expect.as_bytes().starts_with(&answer.body), "{method} {of}: a wrong part");
                self.cut.fetch_add(1, SeqCst);
            }
        }
        answer.complete
    }
}

/// Sends requests of one client: three GETs, then a POST.
fn requests(larder: &Larder, client: usize, count: usize, failures: &Failures) {
    let mut connection: Option<Client> = None;
    for turn in 0..count {
        let (of, method) = (format!("{client}.{turn}"), if turn % 4 == 3 { "POST" } else { "GET" });
        let lines = if turn % 5 == 4 { 3000 } else { 1 + turn % 50 };
        let body = if method == "POST" { of.as_str() } else { "" };
        let target = format!("/page.php?of={of}&lines={lines}");
        let mut open = connection.take().unwrap_or_else(|| larder.client());
        let answer = open.request(method, &target, "", body);
        connection = failures.check(&of, method, lines, &answer).then_some(open);
    }
}

fn check(idle: usize, count: usize) {
    let keys = format!(
        "proxy = {{ connections = 4, idle_connections = {idle}, connect_timeout = \"60s\" }}\n[log]\naccess = \"off\"\nerror = \"off\""
    );
    let PhpSite { larder, fpm, folder } = &site_with(4, "", &keys);
    std::fs::write(folder.path().join("page.php"), PAGE).unwrap();
    let (is_over, kills, failures) = (AtomicBool::new(false), AtomicUsize::new(0), Failures::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                fpm.kill_child(kills.fetch_add(1, SeqCst));
                std::thread::park_timeout(PAUSE);
            }
        });
        let failures = &failures;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|it| scope.spawn(move || requests(larder, it, count / CLIENTS, failures)))
            .collect();
        let ended: Vec<_> = clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, SeqCst);
        ended.into_iter().for_each(|it| it.unwrap());
    });
    let kills = kills.load(SeqCst);
    let [gets, posts, cut] = [&failures.gets, &failures.posts, &failures.cut].map(|it| it.load(SeqCst));
    println!(
        "{count} requests, {idle} idle connections, {kills} kills: {gets} GET and {posts} POST are 502, {cut} responses are cut"
    );
    assert!(kills > 1, "children were killed");
    // A GET fails with two children, a POST and a response that has begun with one.
    assert!(2 * gets + posts + cut <= kills, "{gets} GET, {posts} POST, {cut} cut by {kills} kills");
    let stats =
        || serde_json::from_str::<serde_json::Value>(&larder.admin_get("/api/v1/stats").text()).unwrap();
    until("no request holds a permit", || stats()["origins"][0]["in_flight"] == 0);
    until("each failure is counted once", || {
        let stats = stats();
        let routes = stats["routes"].as_array().unwrap();
        let failed = routes.iter().filter_map(|it| it["counters"]["errors_5xx"].as_u64()).sum::<u64>();
        failed == (gets + posts + cut) as u64
    });
}

#[test]
fn requests_while_children_are_killed() {
    let count = std::env::var("LARDER_PHP_REQUESTS").map_or(5000, |it| it.parse().unwrap());
    check(0, count / 2);
    check(2, count / 2);
}
