//! The error log: one event per line, with named values; and the watch that reports reached limits.

use super::level::{Level, LogLevels, Subsystem};
use super::sink::LogTarget;
use super::sink::{BatchFate, LogSender, OpenedTarget, Sink, StandardStream};
use super::stamp::Stamp;
use super::{Closed, escape};
use larder_counters::{Counters, Unit};
use larder_stdx::clock::{self, Monotonic};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The error log of the process. Clones write to the same.
#[derive(Clone)]
pub struct ErrorLog(Arc<ErrorLogInner>);

/// The error log of one subsystem.
#[derive(Clone)]
pub struct SubsystemLog {
    log: ErrorLog,
    subsystem: Subsystem,
}

impl SubsystemLog {
    /// Whether an event of this level is logged: if not, its values need not be computed.
    #[must_use]
    pub fn logs(&self, level: Level) -> bool {
        self.log.0.logs(self.subsystem, level)
    }

    /// As [`ErrorLog::event`].
    pub fn event(&self, level: Level, event: &str, values: &[(&str, &str)]) {
        if self.logs(level) {
            self.log.write(level, event, values);
        }
    }

    /// As [`ErrorLog::seldom`].
    pub fn seldom(&self, level: Level, event: &'static str, values: &[(&str, &str)]) {
        if self.logs(level) && self.log.due(event, "", clock::monotonic()).is_some() {
            self.log.write(level, event, values);
        }
    }

    /// As [`SubsystemLog::event`], but at most once a second for each `event` and `of`; `left_out` is the number of
    /// omitted events since the last, if any.
    pub fn seldom_of(&self, level: Level, event: &'static str, of: &str, values: &[(&str, &str)]) {
        if self.logs(level)
            && let Some(left_out) = self.log.due(event, of, clock::monotonic())
        {
            let count = left_out.to_string();
            let count = [("left_out", count.as_str())];
            let count = if left_out == 0 { &[][..] } else { &count[..] };
            self.log.write(level, event, &[values, count].concat());
        }
    }
}

/// A rate-limited event.
struct RepeatedEvent {
    event: &'static str,
    /// Its subject; empty if there is one for all.
    of: Box<str>,
    last: Monotonic,
    left_out: u64,
}

/// The number of rate-limited events whose last time is stored. Their subjects are names of the configuration; with more
/// than these, some may be logged more often.
const REPEATING: usize = 1024;

struct ErrorLogInner {
    sink: Mutex<Option<Sink>>,
    /// Set with the first target other than `off`.
    sender: OnceLock<LogSender>,
    /// Whether the target is other than `off`.
    is_on: AtomicBool,
    stamp: Mutex<Stamp>,
    dropped: AtomicU64,
    /// The last time of each rate-limited event; the most recent are at the back.
    reported: Mutex<Vec<RepeatedEvent>>,
    /// The minimum level of each subsystem, as a number; see [`ErrorLogInner::tells`]. Changed by a reload.
    levels: [AtomicU8; Subsystem::ALL.len()],
}

impl ErrorLogInner {
    fn new(sink: Option<Sink>) -> Arc<Self> {
        Arc::new(Self {
            is_on: AtomicBool::new(sink.is_some()),
            sender: sink.as_ref().map(Sink::sender).map_or_else(OnceLock::new, OnceLock::from),
            sink: Mutex::new(sink),
            stamp: Mutex::default(),
            dropped: AtomicU64::new(0),
            reported: Mutex::default(),
            levels: Subsystem::ALL.map(|_| AtomicU8::new(Level::Info as u8)),
        })
    }

    fn logs(&self, subsystem: Subsystem, level: Level) -> bool {
        self.is_on.load(Relaxed) && level as u8 >= self.levels[subsystem as usize].load(Relaxed)
    }
}

impl ErrorLog {
    /// Opens the log and starts its writer.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(target: &LogTarget) -> io::Result<Self> {
        let sink = match target {
            LogTarget::Off => None,
            target => Some(Sink::open(target, StandardStream::Error, "error-log", Arc::default(), None)?),
        };
        Ok(Self(ErrorLogInner::new(sink)))
    }

    /// Opens another target. The result switches every clone to it.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn prepare<'a>(&'a self, target: &LogTarget) -> io::Result<impl FnOnce() + use<'a>> {
        let sink = || self.0.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || Sink::open(target, StandardStream::Error, "error-log", Arc::default(), None);
        let (is_on, now) = (*target != LogTarget::Off, sink());
        let open = || OpenedTarget::open(now.as_ref(), target, StandardStream::Error, first);
        let opened = (is_on || now.is_some()).then(open).transpose()?;
        drop(now);
        Ok(move || {
            let mut now = sink();
            if let Some(opened) = opened {
                opened.switch(&mut now);
            }
            if let Some(sink) = &*now {
                let _ = self.0.sender.set(sink.sender());
            }
            self.0.is_on.store(is_on, Relaxed);
        })
    }

    /// A log that discards every event.
    #[must_use]
    pub fn off() -> Self {
        Self(ErrorLogInner::new(None))
    }

    /// The log of `subsystem`. Events without one belong to the server.
    #[must_use]
    pub fn of(&self, subsystem: Subsystem) -> SubsystemLog {
        SubsystemLog { log: self.clone(), subsystem }
    }

    /// Whether an event of this subsystem and level is logged.
    #[must_use]
    pub fn logs(&self, subsystem: Subsystem, level: Level) -> bool {
        self.0.logs(subsystem, level)
    }

    /// Sets the minimum levels, in every clone.
    pub fn set_levels(&self, levels: LogLevels) {
        for (now, least) in self.0.levels.iter().zip(levels.0) {
            now.store(least.map_or(u8::MAX, |it| it as u8), Relaxed);
        }
    }

    /// Writes one event: a stable name with dashes, and values. Never waits; events that do not fit into the queue are
    /// counted in [`ErrorLog::dropped`].
    pub fn event(&self, level: Level, event: &str, values: &[(&str, &str)]) {
        if self.0.logs(Subsystem::Server, level) {
            self.write(level, event, values);
        }
    }

    fn write(&self, level: Level, event: &str, values: &[(&str, &str)]) {
        let Some(sender) = self.0.sender.get() else { return };
        let mut line = Vec::with_capacity(128);
        let mut stamp = self.0.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        line.extend_from_slice(stamp.rfc3339(clock::wall()));
        drop(stamp);
        line.extend_from_slice(format!(" {} {event}", level.name()).as_bytes());
        for (name, value) in values {
            line.extend_from_slice(format!(" {name}=").as_bytes());
            let plain = |it: u8| it.is_ascii_graphic() && it != b'"' && it != b'=' && it != b'\\';
            if !value.is_empty() && value.bytes().all(plain) {
                line.extend_from_slice(value.as_bytes());
            } else {
                escape::json(value.as_bytes(), &mut line);
            }
        }
        line.push(b'\n');
        if sender.send(&mut line, 1) != BatchFate::Taken {
            self.0.dropped.fetch_add(1, Relaxed);
        }
    }

    /// As [`ErrorLog::event`], but at most once a second for each `event`.
    pub fn seldom(&self, level: Level, event: &'static str, values: &[(&str, &str)]) {
        self.of(Subsystem::Server).seldom(level, event, values);
    }

    /// The number of omitted events since `event` was last logged for `of`, if that was a second ago or more; it then
    /// counts as logged now, otherwise as omitted.
    pub(super) fn due(&self, event: &'static str, of: &str, now: Monotonic) -> Option<u64> {
        let mut reported = self.0.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let at = reported.iter().position(|it| it.event == event && *it.of == *of);
        match at {
            Some(at) if now.0.saturating_sub(reported[at].last.0) < 1000 => {
                reported[at].left_out += 1;
                return None;
            }
            Some(at) => {
                let left_out = reported.remove(at).left_out;
                reported.push(RepeatedEvent { event, of: of.into(), last: now, left_out: 0 });
                return Some(left_out);
            }
            None if reported.len() >= REPEATING => drop(reported.remove(0)),
            None => {}
        }
        reported.push(RepeatedEvent { event, of: of.into(), last: now, left_out: 0 });
        Some(0)
    }

    /// Events that were dropped because the log could not be written fast enough.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Reopens the file. Does not wait.
    pub fn reopen(&self) {
        if let Some(sink) = &*self.0.sink.lock().unwrap_or_else(PoisonError::into_inner) {
            sink.reopen();
        }
    }

    /// Writes queued events and stops the writer; waits at most `bound`.
    pub fn close(&self, bound: Duration) -> Closed {
        let sink = self.0.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        sink.map_or(Closed::Written, |it| it.close(bound))
    }
}

/// Logs reached limits: each at once, then once a minute with the count while it continues, and once after
/// a minute without. So a limit that is reached all day causes one line a minute.
#[derive(Debug, Default)]
pub struct LimitWatch {
    limits: Vec<Limit>,
    looked: Option<Monotonic>,
}

/// The state of one limit.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    /// The total at the last check, and the time of its last increase.
    last: u64,
    grew: Monotonic,
    /// The total and the time of the last line; `None` if the limit is not being reached.
    reported: Option<(u64, Monotonic)>,
    /// The total before it was first reached.
    before: u64,
}

/// Milliseconds between two lines about a limit that is still being reached, and without an increase until it is cleared.
const LIMIT_EVERY: u64 = 60_000;

impl Limit {
    /// Takes the current total; returns the event to log, with the number of times since the line before, or since the
    /// first time.
    fn next_event(&mut self, total: u64, now: Monotonic) -> Option<(&'static str, u64)> {
        if total > self.last {
            (self.last, self.grew) = (total, now);
            if self.reported.is_none() {
                return self.report("limit-reached", total, now);
            }
        }
        let (reported, at) = self.reported?;
        let passed = |since: Monotonic| now.0.saturating_sub(since.0) >= LIMIT_EVERY;
        if passed(self.grew) {
            let times = total - self.before;
            (self.reported, self.before) = (None, total);
            return Some(("limit-cleared", times));
        }
        if passed(at) && total > reported { self.report("limit-reached", total, now) } else { None }
    }

    fn report(&mut self, event: &'static str, total: u64, now: Monotonic) -> Option<(&'static str, u64)> {
        let reported = self.reported.map_or(self.before, |it| it.0);
        self.reported = Some((total, now));
        Some((event, total - reported))
    }
}

impl LimitWatch {
    /// Checks the totals of all workers, in the order of [`Counters::TABLE`]; to be called about once a second, and does
    /// nothing if called again within one.
    pub fn log_changes(&mut self, now: Monotonic, totals: impl Iterator<Item = u64>, errors: &ErrorLog) {
        if self.looked.is_some_and(|it| now.0.saturating_sub(it.0) < 1000) {
            return;
        }
        self.looked = Some(now);
        self.limits.resize(Counters::TABLE.len(), Limit::default());
        let rows = Counters::TABLE.iter().zip(totals).zip(&mut self.limits);
        for ((row, total), limit) in rows.filter(|it| it.0.0.unit == Unit::Limit) {
            let Some((event, times)) = limit.next_event(total, now) else { continue };
            let (times, total) = (times.to_string(), total.to_string());
            let values = [("limit", row.name), ("times", &times), ("total", &total), ("meaning", row.help)];
            match event {
                "limit-cleared" => errors.event(Level::Info, event, &values[..3]),
                _ => errors.event(Level::Warn, event, &values),
            }
        }
    }
}
