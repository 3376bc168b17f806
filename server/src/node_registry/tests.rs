use super::*;
use larder_wire::purge_entry::Numbered;

/// Unix seconds of this node's clock at its start.
const WALL: u64 = 1_700_000_000;

fn report(id: u64, wall: u64, entry: u64) -> NodeReport {
    NodeReport {
        id,
        servers: 1,
        wall,
        left: false,
        name: format!("node {id}").into(),
        followed: vec![(7, entry)],
    }
}

fn status(run: u64, number: u64, wall: u64) -> NodeStatus {
    NodeStatus { run, number, wall, name: format!("node {run}").into(), ..NodeStatus::default() }
}

fn both(report: NodeReport, status: NodeStatus) -> SurveyedNode {
    SurveyedNode { report: Some(report), status: Some(ReadStatus::Status(status)) }
}

/// A server whose log 7 has entries up to `head`.
fn server(head: u64, nodes: Vec<SurveyedNode>) -> Option<ServerSurvey> {
    Some(ServerSurvey { head: Some(Numbered { name: 7, number: head }), nodes })
}

/// A registry of one server that is read every two seconds from zero on.
struct Reader {
    registry: NodeRegistry,
    now: u64,
}

impl Reader {
    fn new() -> Self {
        Self { registry: NodeRegistry::new(1), now: 0 }
    }

    fn read(&mut self, server: Option<ServerSurvey>) -> Vec<NodeView> {
        self.registry.take(&[server], self.now, WALL + self.now / 1000);
        self.now += EACH;
        self.registry.views(self.now)
    }

    fn only(&mut self, server: Option<ServerSurvey>) -> NodeView {
        let mut views = self.read(server);
        assert_eq!(1, views.len(), "{views:?}");
        views.remove(0)
    }
}

/// A node that reports and whose clock is off by so many seconds.
fn living(number: u64, off: i64) -> Option<ServerSurvey> {
    let wall = (WALL + 2 * number).saturating_add_signed(off);
    server(0, vec![both(report(1, wall, 0), status(1, number, wall))])
}

/// A clock that is wrong makes a node neither silent nor newer; it is named.
#[test]
fn a_wrong_clock_is_named_and_the_node_is_not_silent() {
    for (off, expect) in [(-300, Some(-300..=-295)), (300, Some(295..=300)), (3, None), (-3, None)] {
        let mut reader = Reader::new();
        let first = reader.only(living(0, off));
        assert_eq!((Presence::Found, None), (first.presence, first.clock_off), "it may be old");
        for number in 1..10 {
            let view = reader.only(living(number, off));
            assert_eq!(Presence::Live(EACH), view.presence);
            match &expect {
                Some(range) => assert!(view.clock_off.is_some_and(|it| range.contains(&it)), "{view:?}"),
                None => assert_eq!(None, view.clock_off),
            }
        }
    }
}

#[test]
fn a_node_that_reports_no_more_is_silent_since_its_last_report() {
    let mut reader = Reader::new();
    reader.read(living(1, 0));
    reader.read(living(2, 0));
    for _ in 0..2 {
        assert!(matches!(reader.only(living(2, 0)).presence, Presence::Live(_)));
    }
    let view = reader.only(living(2, 0));
    assert_eq!(
        (Presence::Silent { millis: SILENT, is_exact: true }, WALL + 2),
        (view.presence, view.reported)
    );
    // Its records expire; what was known of it stays for an hour.
    let view = reader.only(server(0, Vec::new()));
    assert!(matches!((view.presence, view.status), (Presence::Silent { .. }, KnownStatus::Known(_))));
    reader.now += LISTED;
    assert!(reader.read(server(0, Vec::new())).is_empty());
}

/// A node that was silent before this one began to read.
#[test]
fn a_node_that_never_reported_is_silent_after_the_time_of_watching() {
    let mut reader = Reader::new();
    for _ in 0..3 {
        assert_eq!(Presence::Found, reader.only(living(1, -300)).presence);
    }
    let view = reader.only(living(1, -300));
    assert_eq!((Presence::Silent { millis: SILENT, is_exact: false }, None), (view.presence, view.clock_off));
}

#[test]
fn a_node_that_appears_later_has_just_begun() {
    let mut reader = Reader::new();
    reader.read(server(0, Vec::new()));
    assert_eq!(Presence::Live(EACH), reader.only(living(1, 0)).presence);
    // Not after a reading without an answer: it may have been there before.
    let mut reader = Reader::new();
    reader.read(server(0, Vec::new()));
    assert!(reader.read(None).is_empty());
    assert_eq!(Presence::Found, reader.only(living(1, 0)).presence);
}

#[test]
fn a_node_that_left_is_listed_until_its_next_run_reports() {
    let mut reader = Reader::new();
    reader.read(living(1, 0));
    let gone = NodeReport { left: true, ..report(1, WALL + 4, 0) };
    let view = reader.only(server(0, vec![both(gone, status(1, 1, WALL))]));
    assert_eq!(Presence::Left(EACH), view.presence);
    let next =
        |number| both(NodeReport { id: 2, ..report(1, WALL + number, 0) }, status(2, number, WALL + number));
    assert_eq!(2, reader.only(server(0, vec![next(1)])).run, "it has the same name");
}

#[test]
fn a_server_that_cannot_be_read_changes_no_node() {
    let mut reader = Reader::new();
    reader.read(living(1, 0));
    reader.read(living(2, 0));
    for _ in 0..8 {
        reader.read(None);
    }
    let views = reader.read(None);
    assert_eq!(Presence::Unknown, views[0].presence);
    assert_eq!(Some(10 * EACH), reader.registry.age(reader.now));
}

#[test]
fn records_of_all_servers_are_joined_and_the_latest_counts() {
    let old = both(report(1, WALL, 3), status(1, 1, WALL));
    let new = both(NodeReport { followed: vec![(8, 9)], ..report(1, WALL + 5, 0) }, status(1, 4, WALL + 5));
    for servers in [[&old, &new], [&new, &old]] {
        let mut registry = NodeRegistry::new(2);
        let servers = servers.map(|it| server(5, vec![it.clone()]));
        registry.take(&servers, 0, WALL);
        let view = registry.views(0).remove(0);
        assert!(matches!(view.status, KnownStatus::Known(it) if it.number == 4));
        let mut followed = view.report.unwrap().followed;
        followed.sort_unstable();
        assert_eq!(vec![(7, 3), (8, 9)], followed);
    }
}

#[test]
fn the_distance_to_the_end_of_a_log_is_in_entries_and_in_time() {
    let mut reader = Reader::new();
    let at = |head, number, entry| {
        server(head, vec![both(report(1, WALL + number, entry), status(1, number, WALL))])
    };
    let lag = |view: NodeView| view.lags[0];
    assert_eq!(Some(LogLag::default()), lag(reader.only(at(5, 1, 5))));
    assert_eq!(Some(LogLag { entries: 2, millis: EACH }), lag(reader.only(at(7, 2, 5))));
    assert_eq!(
        Some(LogLag { entries: 4, millis: 2 * EACH }),
        lag(reader.only(at(9, 3, 5))),
        "since the first of them"
    );
    assert_eq!(Some(LogLag { entries: 1, millis: 2 * EACH }), lag(reader.only(at(9, 4, 8))));
    assert_eq!(Some(LogLag::default()), lag(reader.only(at(9, 5, 10))), "its report was read after the end");
    // Another log has begun, which it does not follow yet.
    let other = ServerSurvey { head: Some(Numbered { name: 9, number: 1 }), ..at(9, 6, 10).unwrap() };
    assert_eq!(None, lag(reader.only(Some(other))));
}

#[test]
fn records_that_are_not_those_of_a_node_are_counted() {
    let mut reader = Reader::new();
    let damaged = |report| SurveyedNode { report, status: Some(ReadStatus::Damaged) };
    assert!(reader.read(server(0, vec![damaged(None)])).is_empty());
    assert_eq!(1, reader.registry.damaged);
    assert_eq!(KnownStatus::Damaged, reader.only(server(0, vec![damaged(Some(report(1, WALL, 0)))])).status);
    // A valid status of another run under the number of a node.
    let view = reader.only(server(0, vec![both(report(1, WALL, 0), status(2, 9, WALL))]));
    assert_eq!((KnownStatus::Damaged, 1), (view.status, reader.registry.damaged));
    let older = SurveyedNode { report: Some(report(1, WALL, 0)), status: None };
    let mut reader = Reader::new();
    assert_eq!(KnownStatus::Awaited, reader.only(server(0, vec![older.clone()])).status);
    for at in 1..5 {
        let older = SurveyedNode { report: Some(report(1, WALL + at, 0)), status: None };
        reader.read(server(0, vec![older]));
    }
    let view = reader.only(server(0, vec![older]));
    assert_eq!(KnownStatus::OlderVersion, view.status);
    let later = SurveyedNode { report: Some(report(1, WALL + 9, 0)), status: Some(ReadStatus::OtherVersion) };
    assert_eq!(KnownStatus::LaterVersion, reader.only(server(0, vec![later])).status);
}

#[test]
fn the_list_is_bounded() {
    let mut reader = Reader::new();
    for batch in 0..4_u64 {
        let nodes =
            (0..100).map(|it| both(report(100 * batch + it, WALL, 0), status(100 * batch + it, 1, WALL)));
        reader.read(server(0, nodes.collect()));
    }
    assert_eq!(MOST, reader.registry.views(reader.now).len());
}
