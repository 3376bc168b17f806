//! The nodes of a fleet, as each of them lists the others: real larders and real memcached servers, some of which end, are stopped, or have
//! records that other programs wrote. Time is real here, since reports are.

use super::purge::purge;
use crate::harness::command::{run, wait};
use crate::harness::{Larder, Memcached, Origin, begun, until};
use larder_wire::node_status::NodeStatus;
use larder_wire::purge_entry::{NodeReport, Numbered};
use serde_json::{Value, json};
use std::cell::Cell;

fn page() -> Origin {
    Origin::new(|it| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", it.target()))
}

/// A node with these servers and more settings of the fleet.
fn node(origin: &Origin, servers: &[&Memcached], more: &str) -> Larder {
    let names: Vec<String> = servers.iter().map(|it| format!("{:?}", it.name())).collect();
    let fleet = format!(
        "[cache.fleet]\nservers = [{}]\ntimeout = \"500ms\"\npoll = \"50ms\"\nlease = \"2500ms\"\n{more}\n",
        names.join(", ")
    );
    Larder::before_with(origin, "", &fleet)
}

fn fleet(larder: &Larder) -> Value {
    let answer = larder.admin_get("/api/v1/nodes");
    assert_eq!(200, answer.status, "{answer:?}");
    serde_json::from_str(&answer.text()).unwrap()
}

/// The row of a node whose name ends so; null without one.
fn row(of: &Value, name: &str) -> Value {
    let mut rows = of["nodes"].as_array().unwrap().iter();
    rows.find(|it| it["name"].as_str().unwrap().ends_with(name)).cloned().unwrap_or_default()
}

/// The row of another larder.
fn row_of(larder: &Larder, other: &Larder) -> Value {
    row(&fleet(larder), &other.address.to_string())
}

fn findings(larder: &Larder) -> Vec<String> {
    let health: Value = serde_json::from_str(&larder.admin_get("/api/v1/health").text()).unwrap();
    let all = health["findings"].as_array().unwrap().iter();
    all.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

fn command(larder: &Larder, arguments: &[&str]) -> String {
    let admin = larder.admin.to_string();
    run(larder.folder.path(), &[arguments, &["--admin", &admin]].concat()).out
}

#[test]
fn each_node_lists_all_nodes_with_their_state_and_a_receipt_names_when_they_applied_it() {
    let origin = page();
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::start()).collect();
    let servers: Vec<&Memcached> = servers.iter().collect();
    let nodes: Vec<Larder> = (0..3).map(|_| node(&origin, &servers, "")).collect();
    let is_well = |it: &Value| {
        it["presence"] == "live"
            && it["status"] == "known"
            && it["state"] == "healthy"
            && it["in_sync"] == true
    };
    for one in &nodes {
        until("all are listed", || nodes.iter().all(|it| is_well(&row_of(one, it))));
    }
    (0..20).for_each(|_| drop(nodes[1].get("/a")));
    let report = Cell::new(Value::Null);
    until("its figures are there", || {
        let row = row_of(&nodes[0], &nodes[1]);
        let ratio = row["hit_ratio"].as_f64().unwrap_or(0.0);
        report.set(row);
        (0.9..1.0).contains(&ratio)
    });
    let report = report.take();
    assert_eq!((&json!(false), &json!(nodes[1].pid())), (&report["self"], &report["pid"]), "{report}");
    assert_eq!(json!(env!("CARGO_PKG_VERSION")), report["version"]);
    assert_eq!((&json!([]), &Value::Null), (&report["differs"], &report["clock_off"]), "{report}");
    assert!(report["requests_per_second"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(
        json!([{ "entries": 0, "ms": 0 }, { "entries": 0, "ms": 0 }, { "entries": 0, "ms": 0 }]),
        report["lags"]
    );
    let all = fleet(&nodes[0]);
    assert_eq!((&json!(true), 3), (&all["nodes"][0]["self"], all["nodes"].as_array().unwrap().len()));
    assert!(
        all["servers"].as_array().unwrap().iter().all(|it| it["followed"] == true && it["in_use"] == true)
    );
    let table = command(&nodes[0], &["nodes"]);
    assert!(table.lines().next().unwrap().starts_with("node "), "{table}");
    for it in &nodes {
        assert_eq!(1, table.lines().filter(|line| line.contains(&it.address.to_string())).count(), "{table}");
    }
    assert_eq!(
        json!(true),
        serde_json::from_str::<Value>(&command(&nodes[0], &["nodes", "--json"])).unwrap()["shared"]
    );

    let done = purge(&nodes[0], json!({ "url": "http://h/a", "wait": true }));
    let receipts = done["receipts"].as_array().unwrap();
    let of_fleet = receipts.iter().find(|it| it["of"] == "fleet").unwrap();
    assert_eq!((&json!(3), &json!(3)), (&of_fleet["nodes"]["past"], &of_fleet["nodes"]["of"]), "{done}");
    assert!(of_fleet["detail"].as_str().unwrap().contains("all 3 nodes past it after "), "{done}");
    let of_nodes: Vec<u64> = receipts.iter().filter_map(|it| it["after_ms"].as_u64()).collect();
    let last = of_nodes.iter().max();
    assert_eq!(
        (3, Some(&0), of_fleet["nodes"]["after_ms"].as_u64().as_ref()),
        (of_nodes.len(), of_nodes.iter().min(), last)
    );
    let report = command(&nodes[1], &["purge", "--tag", "none", "--wait"]);
    assert!(report.contains("  fleet: applied; all 3 nodes past it after "), "{report}");
    assert_eq!(
        3,
        report.lines().filter(|it| it.contains("  node ") && it.contains(": applied after ")).count(),
        "{report}"
    );
}

#[test]
fn a_killed_node_is_silent_and_one_that_stopped_has_left() {
    let (origin, memcached) = (page(), Memcached::start());
    let mut nodes: Vec<Larder> = (0..3).map(|_| node(&origin, &[&memcached], "")).collect();
    until("all are live", || nodes.iter().all(|it| row_of(&nodes[0], it)["presence"] == "live"));
    let (mut killed, mut left) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let watcher = &nodes[0];
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    left.signal(libc::SIGTERM);
    assert!(wait(&mut left.child).success());
    until("it has left", || row_of(watcher, &left)["presence"] == "left");
    until("it is silent", || row_of(watcher, &killed)["presence"] == "silent");
    let row = row_of(watcher, &killed);
    assert!(row["since_is_exact"] == true && row["since_ms"].as_u64().unwrap() >= 8_000, "{row}");
    assert_eq!("known", row["status"], "what was known of it stays");
    until("the state names it", || findings(watcher) == ["node-silent"]);
    let stats = command(watcher, &["stats"]);
    let name = row["name"].as_str().unwrap();
    assert!(stats.starts_with(&format!("Healthy. Notice: node {name} does not report since ")), "{stats}");
    let table = command(watcher, &["nodes"]);
    assert!(
        table.contains(&format!("{name}: does not report; a purge with --wait takes a lease")),
        "{table}"
    );
    let done = purge(watcher, json!({ "url": "http://h/a", "wait": true }));
    let outcome = done.to_string();
    assert!(
        outcome.contains("1 of 2 nodes past it after ") && outcome.contains("1 does not report"),
        "{outcome}"
    );
    assert!(
        outcome.contains("no report for ") && outcome.contains("the node validates every stored response"),
        "{outcome}"
    );
    // Its next run is there under the same name only if it has the same address; here it is another node.
    let next = node(&origin, &[&memcached], "");
    until("the next run is live", || row_of(watcher, &next)["presence"] == "live");
}

#[test]
fn a_server_that_is_stopped_is_named_and_the_nodes_stay() {
    let origin = page();
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::start()).collect();
    let all: Vec<&Memcached> = servers.iter().collect();
    let nodes: Vec<Larder> = (0..2).map(|_| node(&origin, &all, "")).collect();
    let followed = || -> Vec<bool> {
        let report = fleet(&nodes[0]);
        report["servers"].as_array().unwrap().iter().map(|it| it["followed"] == true).collect()
    };
    until("both are live", || row_of(&nodes[0], &nodes[1])["presence"] == "live" && followed() == [true; 3]);
    servers[1].stop();
    until("it is named", || followed() == [true, false, true]);
    let row = row_of(&nodes[0], &nodes[1]);
    assert_eq!(("live", &json!([])), (row["presence"].as_str().unwrap(), &row["differs"]), "{row}");
    servers.iter().for_each(Memcached::stop);
    until("nothing is said of others", || row_of(&nodes[0], &nodes[1])["presence"] == "unknown");
    assert_eq!("live", row_of(&nodes[0], &nodes[0])["presence"], "this node runs");
    servers.iter().for_each(Memcached::go_on);
    until("all is well", || row_of(&nodes[0], &nodes[1])["presence"] == "live" && followed() == [true; 3]);
}

#[test]
fn a_clock_that_is_off_is_named_and_its_node_is_not_silent() {
    let (origin, memcached) = (page(), Memcached::start());
    let nodes: Vec<Larder> = (0..2).map(|_| node(&origin, &[&memcached], "")).collect();
    nodes[1].advance(-300);
    let off = |of: &Larder, other: &Larder| row_of(of, other)["clock_off"].as_i64().unwrap_or(0);
    until("it is behind", || off(&nodes[0], &nodes[1]) == -300 && off(&nodes[1], &nodes[0]) == 300);
    let row = row_of(&nodes[0], &nodes[1]);
    assert_eq!("live", row["presence"], "{row}");
    assert!(row["since_ms"].as_u64().unwrap() < 8_000 && row["reported"] == begun(), "{row}");
    assert!(command(&nodes[0], &["nodes"]).contains(": its clock is 300 s behind this node's\n"));
    until("the state names it", || findings(&nodes[0]) == ["node-clock-off"]);
}

#[test]
fn nodes_with_other_servers_or_keys_are_findings() {
    let origin = page();
    let [a, b, c] = [(); 3].map(|()| Memcached::start());
    let watcher = node(&origin, &[&a, &b], "");
    let others = node(&origin, &[&a, &c], "");
    let keys = node(&origin, &[&a, &b], "hash = \"md5\"");
    until("the other servers are noticed", || row_of(&watcher, &others)["differs"] == json!(["servers"]));
    until("the other hash is noticed", || row_of(&watcher, &keys)["differs"] == json!(["keys"]));
    until("both are findings", || {
        let found = findings(&watcher);
        found.contains(&"node-servers-differ".to_owned()) && found.contains(&"node-keys-differ".to_owned())
    });
    let same = node(&origin, &[&a, &b], "");
    until("a node that agrees has none", || row_of(&watcher, &same)["status"] == "known");
    assert_eq!(json!([]), row_of(&watcher, &same)["differs"]);
}

/// A number of the nodes' series that no larder has.
fn slot(memcached: &Memcached) -> Numbered {
    let value = memcached.command("incr !log:nodes 1\r\n");
    Numbered::read(value.trim().as_bytes()).unwrap_or_else(|| panic!("{value:?}"))
}

#[test]
fn records_of_other_programs_and_versions_are_shown_as_damaged() {
    let (origin, memcached) = (page(), Memcached::start());
    let larder = node(&origin, &[&memcached], "");
    until("it is registered", || {
        row_of(&larder, &larder)["status"] == "known" && fleet(&larder)["read_ms"].is_u64()
    });
    let key = |what: &str, it: Numbered| format!("!{what}:{:x}:{}", it.name, it.number);
    let [garbage, older, odd] = [(); 3].map(|()| slot(&memcached));
    memcached.write(&key("status", garbage), b"<script>alert(1)</script>");
    let wall = Cell::new(begun());
    let log = Numbered::read(&memcached.read("!log:head")).unwrap();
    let report = |id: u64, name: &str| NodeReport {
        id,
        servers: 1,
        wall: wall.get(),
        left: false,
        name: name.into(),
        followed: vec![(log.name, log.number)],
    };
    let number = Cell::new(1);
    let live = || {
        wall.set(wall.get() + 1);
        number.set(number.get() + 1);
        memcached.write(&key("node", older), &report(11, "older").write());
        memcached.write(&key("node", odd), &report(12, "<b>odd</b>").write());
        let status = NodeStatus {
            run: 12,
            number: number.get(),
            wall: begun(),
            keys: 5,
            version: "0.0.1".into(),
            name: "<b>odd</b>".into(),
            envelope: 9,
            ..NodeStatus::default()
        };
        memcached.write(&key("status", odd), &status.write());
    };
    let row = |name: &str| row(&fleet(&larder), name);
    until("the older version is named", || {
        live();
        row("older")["status"] == "older-version"
    });
    assert_eq!((&json!("live"), &Value::Null), (&row("older")["presence"], &row("older")["state"]));
    until("the odd one is compared", || {
        live();
        row("<b>odd</b>")["differs"] == json!(["keys", "envelope", "version"])
    });
    assert!(fleet(&larder)["damaged_records"].as_u64().unwrap() >= 1);
    assert!(larder.counter("node_statuses_damaged") > 0);
    let table = command(&larder, &["nodes"]);
    assert!(
        table.contains("no status (older version)") && table.contains("1 records there are damaged"),
        "{table}"
    );
    // A number belongs to one node: a status of another one is not used.
    memcached.write(&key("status", older), &NodeStatus { run: 99, ..NodeStatus::default() }.write());
    until("it is refused", || row("older")["status"] == "damaged");
    let row = row("older");
    assert_eq!((&Value::Null, &Value::Null), (&row["version"], &row["pid"]), "{row}");
    assert!(larder.get("/a").complete && larder.get("/a").is_hit());
}

/// A node of an older release, which another program plays: it reports as the others do.
#[test]
fn nodes_of_different_versions_are_a_notice_after_a_minute() {
    let (origin, memcached) = (page(), Memcached::start());
    let larder = node(&origin, &[&memcached], "");
    until("it is registered", || {
        row_of(&larder, &larder)["status"] == "known" && fleet(&larder)["read_ms"].is_u64()
    });
    let older = slot(&memcached);
    let key = |what: &str| format!("!{what}:{:x}:{}", older.name, older.number);
    let log = Numbered::read(&memcached.read("!log:head")).unwrap();
    let mut wall = begun();
    let mut report = || {
        wall += 1;
        let (followed, name) = (vec![(log.name, log.number)], "older".to_owned());
        let report =
            NodeReport { id: 11, servers: 1, wall, left: false, name: name.as_str().into(), followed };
        memcached.write(&key("node"), &report.write());
        let status = NodeStatus {
            run: 11,
            number: wall,
            wall,
            version: "0.0.1".into(),
            name: name.as_str().into(),
            ..NodeStatus::default()
        };
        memcached.write(&key("status"), &status.write());
    };
    let is_found = || findings(&larder).contains(&"node-versions-differ".to_owned());
    until("its version is known", || {
        report();
        row(&fleet(&larder), "older")["version"] == "0.0.1"
    });
    assert!(!is_found(), "nodes are upgraded one after the other");
    until("a minute has passed", || {
        report();
        larder.pass(500);
        is_found()
    });
    let health: Value = serde_json::from_str(&larder.admin_get("/api/v1/health").text()).unwrap();
    let of_versions = health["findings"].as_array().unwrap().iter();
    let found = of_versions.into_iter().find(|it| it["name"] == "node-versions-differ").unwrap();
    assert!(found["evidence"].as_str().unwrap().contains("0.0.1: older"), "{found}");
}

#[test]
fn nodes_without_a_fleet_get_one_sentence_with_the_remedy() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let report = fleet(&larder);
    assert_eq!((&json!(false), &json!([])), (&report["shared"], &report["nodes"]), "{report}");
    let table = command(&larder, &["nodes"]);
    assert!(table.starts_with("cache.fleet.servers is not set: ") && table.lines().count() == 1, "{table}");
    let memcached = Memcached::start();
    let alone = node(&origin, &[&memcached], "purge_log = false");
    assert!(fleet(&alone)["why"].as_str().unwrap().starts_with("cache.fleet.purge_log is false: "));
}
