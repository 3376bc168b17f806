//! Lines as they are written, a full pipe, rotation, and limits.

use super::*;
use larder_semantics::field::Field;
use larder_stdx::clock::{Monotonic, WallTime};
use std::io::{BufRead, BufReader};
use std::path::Path;

const BOUND: Duration = Duration::from_secs(20);

const HEAD: &[Field<'static>] = &[
    Field { name: "User-Agent", value: b"test/1\n" },
    Field { name: "X-Forwarded-For", value: b"10.0.0.1 forged" },
    Field { name: "x-forwarded-for", value: b"10.0.0.2" },
];

fn entry() -> LogEntry<'static> {
    LogEntry {
        time: WallTime(1_795_246_926),
        client: Some([192, 0, 2, 1].into()),
        method: b"GET",
        target: b"/a?b=\"c\"",
        protocol: "HTTP/1.1",
        host: b"www.example.com",
        status: 200,
        bytes: 1795,
        end: ResponseEnd::Whole,
        duration: 123,
        fields: HEAD,
        cache: "hit",
        reason: "expired",
        route: "larder.toml:7",
        origin_duration: None,
        origin_protocol: "",
        tls: None,
        request_id: b"0193-a",
        origin: "",
        origin_status: None,
        scheme: "https",
        site: "www.example.com",
        listener: "https://[::]:443",
        user: "",
    }
}

#[track_caller]
fn check(format: LogFormat, expect: &str) {
    let mut out = Vec::new();
    entry().write(&format, &mut Stamp::default(), &mut out);
    assert_eq!(expect, str::from_utf8(&out).unwrap());
}

#[test]
fn a_line_of_the_error_log_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = ErrorLog::open(&LogTarget::File(path.clone())).unwrap();
    let before = larder_stdx::clock::wall().0;
    let values = [("who", "a"), ("empty", ""), ("odd", "a \"b\" \\ \n\u{1b}[31m ü = c"), ("plain", "/x?a:b")];
    log.event(Level::Warn, "some-event", &values);
    log.event(Level::Warn, "bare", &[]);
    let _ = log.close(Duration::from_secs(60));
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<_> =
        text.lines().map(|it| larder_wire::event_line::EventLine::parse(it).unwrap()).collect();
    let found: Vec<(&str, &str)> = lines[0].values.iter().map(|it| (it.0, &*it.1)).collect();
    assert_eq!(values.to_vec(), found);
    assert_eq!(("warn", "some-event", "bare"), (lines[0].level, lines[0].event, lines[1].event));
    assert!((before..=before + 60).contains(&lines[0].time), "{}", lines[0].time);
}

#[test]
fn the_three_forms() {
    let common = r#"192.0.2.1 - - [21/Nov/2026:07:42:06 +0000] "GET /a?b=\x22c\x22 HTTP/1.1" 200 1795"#;
    check(LogFormat::Common, &format!("{common}\n"));
    check(LogFormat::Combined, &format!("{common} \"-\" \"test/1\\x0a\"\n"));
    check(
        LogFormat::Json,
        "{\"time\":\"2026-11-21T07:42:06Z\",\"client\":\"192.0.2.1\",\"method\":\"GET\",\"host\":\"www.example.com\",\
         \"target\":\"/a?b=\\\"c\\\"\",\"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":1795,\"end\":\"whole\",\"duration_us\":123,\
         \"referer\":\"\",\"user_agent\":\"test/1\\u000a\",\"cache\":\"hit\",\"route\":\"larder.toml:7\",\
         \"origin_us\":null,\"origin_protocol\":\"\",\"tls_version\":\"\",\"tls_cipher\":\"\",\"tls_name\":\"\",\"tls_client\":\"\",\
         \"request_id\":\"0193-a\",\"origin\":\"\",\"origin_status\":null,\"user\":\"\",\"reason\":\"expired\"}\n",
    );
}

#[test]
fn a_form_of_ones_own() {
    #[track_caller]
    fn own(text: &str, expect: &str) {
        check(text.parse().unwrap(), &format!("{expect}\n"));
    }
    own("{status}", "200");
    own("{time}\t{client} {route}|{end}", "2026-11-21T07:42:06Z\t192.0.2.1 larder.toml:7|whole");
    own("{{{status}}} {protocol} {bytes} {duration_us}us", "{200} HTTP/1.1 1795 123us");
    own("{request_id} {scheme} {site} {origin} {user}", "0193-a https www.example.com - -");
    own("{referer} \"{referer}\" {origin_us} {header:Cookie}", "- \"-\" - -");
    // Nobody adds a word to the line, or ends a quoted one.
    own("{header:X-Forwarded-For} {target}", "10.0.0.1\\x20forged,\\x2010.0.0.2 /a?b=\\x22c\\x22");
    own("\"{header:X-Forwarded-For}\" {user_agent}", "\"10.0.0.1 forged, 10.0.0.2\" test/1\\x0a");
    // The named ones can be said in it.
    let mut common = Vec::new();
    entry().write(&LogFormat::Common, &mut Stamp::default(), &mut common);
    let same = "{client} - - [{time:common}] \"{method} {target} {protocol}\" {status} {bytes}";
    own(same, str::from_utf8(&common).unwrap().trim_end());
}

#[test]
fn a_form_may_need_an_identifier() {
    let check = |text: &str| text.parse::<LogFormat>().unwrap().reads_identifier();
    assert!(check("{status} {request_id}"));
    for text in
        ["json", "combined", "{status}", "request_id {{request_id}} {status}", "{header:X-Request-Id}"]
    {
        assert!(!check(text), "{text}");
    }
}

#[test]
fn a_log_format_without_fields_or_with_unknown_fields_is_rejected() {
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let why = text.parse::<LogFormat>().unwrap_err();
        assert!(why.contains(expect), "{text}: {why}");
    }
    check("xml", "\"combined\", \"common\", \"json\", or a template");
    check("", "or a template");
    check("{{status}}", "or a template");
    check("{staus}", "for {staus} one of time, client,");
    check("{status", "closed by a \"}\"");
    check("status}", "closed by a \"}\"");
    check("{header:}", "the name of a header field");
    check("{header:a b}", "the name of a header field");
    check("{status}\n{target}", "without control characters");
    check(&"{status}".repeat(600), "4096 bytes at most");
}

#[test]
fn dates() {
    #[track_caller]
    fn check(seconds: u64, expect: &str) {
        assert_eq!(expect, str::from_utf8(Stamp::default().rfc3339(WallTime(seconds))).unwrap());
    }
    check(0, "1970-01-01T00:00:00Z");
    check(951_782_399, "2000-02-28T23:59:59Z");
    check(951_782_400, "2000-02-29T00:00:00Z");
    check(4_107_542_399, "2100-02-28T23:59:59Z");
    check(4_107_542_400, "2100-03-01T00:00:00Z");
}

fn open(path: &Path) -> AccessLog {
    let target = LogTarget::File(path.to_owned());
    AccessLog::open(&target, LogFormat::Common, Arc::default(), ErrorLog::off()).unwrap()
}

#[test]
fn a_full_pipe_drops_and_counts_and_never_waits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let (log, counters) = (open(&path), Arc::new(Counters::default()));
    let handle = log.worker(counters.clone());
    let total = 200_000;
    for bytes in 1..=total {
        handle.record(&LogEntry { bytes, ..entry() }); // Nobody reads: far more than pipe and queue hold.
    }
    let reader = BufReader::new(std::fs::File::open(&path).unwrap());
    let (sender, report) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in reader.lines() {
            let _ = sender.send(line.unwrap());
        }
    });
    // With a reader there, the rest of the buffer goes out in the end.
    while !handle.buffer.borrow().is_empty() {
        handle.flush();
        std::thread::yield_now();
    }
    drop(handle);
    assert_eq!(Closed::Written, log.close(BOUND));
    let dropped = counters.log_lines_dropped.get();
    assert!(dropped > 0, "the pipe never filled");
    let mut last = 0;
    for _ in 0..total - dropped {
        let line = report.recv_timeout(BOUND).unwrap();
        let bytes: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(line.starts_with("192.0.2.1 - - [") && bytes > last, "whole and in order: {line}");
        last = bytes;
    }
    assert!(report.try_recv().is_err(), "neither written nor counted, or both");
}

#[test]
fn closing_a_stuck_log_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let log = open(&path);
    let handle = log.worker(Arc::default());
    for _ in 0..10_000 {
        handle.record(&entry());
    }
    assert_eq!(Closed::Late, log.close(Duration::from_millis(1)));
}

#[test]
fn a_rotated_log_file_is_reopened() {
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = (directory.path().join("log"), directory.path().join("log.1"));
    let log = open(&path);
    let handle = log.worker(Arc::default());
    handle.record(&entry());
    handle.flush();
    while std::fs::metadata(&path).unwrap().len() == 0 {
        std::thread::yield_now();
    }
    std::fs::rename(&path, &old).unwrap();
    log.reopen();
    handle.record(&entry());
    drop(handle);
    assert_eq!(Closed::Written, log.close(BOUND));
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
    assert_eq!((1, 1), (lines(&old), lines(&path)));
}

#[test]
fn a_full_disk_is_counted() {
    let counters = Arc::new(Counters::default());
    let target = LogTarget::File("/dev/full".into());
    let log = AccessLog::open(&target, LogFormat::Common, counters.clone(), ErrorLog::off()).unwrap();
    let handle = log.worker(Arc::default());
    handle.record(&entry());
    handle.record(&entry());
    drop(handle);
    assert_eq!(Closed::Written, log.close(BOUND));
    assert_eq!(2, counters.log_lines_dropped.get());
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error() {
    let target = LogTarget::File("/nowhere/log".into());
    let opened = AccessLog::open(&target, LogFormat::Common, Arc::default(), ErrorLog::off());
    assert_eq!(Some(io::ErrorKind::NotFound), opened.err().map(|it| it.kind()));
}

#[test]
fn limits_are_logged_when_reached_each_minute_and_when_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("errors");
    let errors = ErrorLog::open(&LogTarget::File(path.clone())).unwrap();
    let counters = Counters::default();
    let mut watch = LimitWatch::default();
    watch.log_changes(Monotonic(0), counters.values(), &errors);
    counters.head_too_large.add(3);
    counters.requests.add(9);
    watch.log_changes(Monotonic(999), counters.values(), &errors);
    watch.log_changes(Monotonic(1000), counters.values(), &errors);
    for second in 2..=100 {
        counters.head_too_large.add(2);
        watch.log_changes(Monotonic(1000 * second), counters.values(), &errors);
    }
    for second in 101..=400 {
        watch.log_changes(Monotonic(1000 * second), counters.values(), &errors);
    }
    counters.head_too_large.add(1);
    watch.log_changes(Monotonic(401_000), counters.values(), &errors);
    errors.event(Level::Info, "stopping", &[("why", "SIGTERM"), ("note", "two words"), ("empty", "")]);
    assert_eq!(Closed::Written, errors.close(BOUND));
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<&str> = text.lines().map(|it| &it["2026-11-21T07:42:06Z ".len()..]).collect();
    let [reached, goes_on, still, over, again, stopping] = events.as_slice() else { panic!("{events:?}") };
    let begins = |line: &str, with: &str| assert!(line.starts_with(with), "{line}");
    begins(reached, "warn limit-reached limit=head_too_large times=3 total=3 meaning=\"");
    begins(goes_on, "warn limit-reached limit=head_too_large times=120 total=123 meaning=\"");
    begins(still, "warn limit-reached limit=head_too_large times=78 total=201 meaning=\"");
    assert_eq!("info limit-cleared limit=head_too_large times=201 total=201", *over);
    begins(again, "warn limit-reached limit=head_too_large times=1 total=202 meaning=\"");
    assert_eq!("info stopping why=SIGTERM note=\"two words\" empty=\"\"", *stopping);
}

#[test]
fn a_repeated_event_is_logged_once_a_second_for_each_source() {
    let errors = ErrorLog::off();
    let due = |of: &str, now| errors.due("failed", of, Monotonic(now));
    assert_eq!(Some(0), due("a", 0));
    assert_eq!(None, due("a", 1));
    assert_eq!(Some(0), due("b", 1));
    assert_eq!(None, due("a", 999));
    assert_eq!(Some(2), due("a", 1000), "those that were left out");
    assert_eq!(None, due("b", 1000));
    assert_eq!(Some(1), due("b", 1001));
    assert_eq!(Some(0), due("a", 2000));
    assert_eq!(Some(0), errors.due("another", "a", Monotonic(2000)));
    for number in 0..5000 {
        assert_eq!(Some(0), due(&format!("o{number}"), 2000));
    }
    assert_eq!(Some(0), due("a", 2001), "of so many it is not known any more");
}

#[test]
fn each_subsystem_has_a_least_level_that_changes_live() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("errors");
    let errors = ErrorLog::open(&LogTarget::File(path.clone())).unwrap();
    let (disk, fleet) = (errors.of(Subsystem::Disk), errors.of(Subsystem::Fleet));
    fleet.event(Level::Debug, "a", &[]);
    errors.set_levels(LogLevels::new(|it| (it == Subsystem::Fleet).then_some(Level::Debug)));
    assert!(fleet.logs(Level::Debug) && !disk.logs(Level::Error));
    fleet.event(Level::Debug, "b", &[("key", "k")]);
    disk.event(Level::Error, "c", &[]);
    errors.event(Level::Error, "d", &[]);
    errors.set_levels(LogLevels::default());
    fleet.event(Level::Debug, "e", &[]);
    disk.seldom(Level::Info, "f", &[]);
    disk.seldom(Level::Info, "f", &[]);
    assert_eq!(Closed::Written, errors.close(BOUND));
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<&str> = text.lines().map(|it| &it["2026-11-21T07:42:06Z ".len()..]).collect();
    assert_eq!(["debug b key=k", "info f"], events.as_slice());
}
