//! The access log and the error log. Requests never wait for either: lines that cannot be written in time are dropped and
//! counted.
//!
//! ```text
//! worker ─ record ─▶ its buffer ─ by size or tick ─▶ one bounded queue ─▶ writer thread ─▶ file or pipe
//! ```

pub mod error;
pub mod escape;
pub mod events;
pub mod fields;
pub mod form;
mod level;
pub mod sink;
pub mod sites;
mod stamp;
#[cfg(test)]
mod tests;

pub use error::{ErrorLog, LimitWatch, SubsystemLog};
pub use fields::{LogEntry, ResponseEnd};
pub use form::LogFormat;
pub use level::{Level, LogLevels, Subsystem};
pub use sink::LogTarget;

use larder_counters::Counters;
use sink::{BatchFate, LogSender, OpenedTarget, Sink, StandardStream};
use stamp::Stamp;
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A worker's buffer is sent whenever it has grown by this many bytes.
const SEND_AT: usize = 32 << 10;
/// A worker's buffer holds at most this many bytes; while it is full, lines are dropped.
const FULL_AT: usize = 128 << 10;

/// The access log of the process. A reload may give it another target and another format.
pub struct AccessLog {
    now: Mutex<AccessLogTarget>,
    counters: Arc<Counters>,
    errors: ErrorLog,
}

/// The present target of the access log.
struct AccessLogTarget {
    target: LogTarget,
    format: LogFormat,
    /// Opened with the first target other than `off`.
    sink: Option<Sink>,
}

impl AccessLog {
    /// Opens the log and starts its writer. `counters` are the writer's own, which no worker writes; later errors are
    /// logged to `errors`.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(
        target: &LogTarget,
        format: LogFormat,
        counters: Arc<Counters>,
        errors: ErrorLog,
    ) -> io::Result<Self> {
        let now = AccessLogTarget { target: LogTarget::Off, format: format.clone(), sink: None };
        let log = Self { now: Mutex::new(now), counters, errors };
        log.prepare(target, format)?();
        Ok(log)
    }

    /// Opens another target. The result switches to it and to another format; workers follow with [`LogHandle::follow`].
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn prepare<'a>(
        &'a self,
        target: &LogTarget,
        format: LogFormat,
    ) -> io::Result<impl FnOnce() + use<'a>> {
        let first = || {
            let (counters, errors) = (self.counters.clone(), self.errors.clone());
            Sink::open(target, StandardStream::Out, "access-log", counters, Some(errors))
        };
        let now = self.now();
        let open = || OpenedTarget::open(now.sink.as_ref(), target, StandardStream::Out, first);
        let opened = (now.target != *target).then(open).transpose()?;
        drop(now);
        let target = target.clone();
        Ok(move || {
            let mut now = self.now();
            if let Some(opened) = opened {
                opened.switch(&mut now.sink);
                now.target = target;
            }
            now.format = format;
        })
    }

    /// The handle of one worker; `counters` are that worker's.
    #[must_use]
    pub fn worker(&self, counters: Arc<Counters>) -> LogHandle {
        let handle = LogHandle {
            format: RefCell::new(LogFormat::Combined),
            sender: RefCell::new(None),
            counters,
            buffer: RefCell::new(Vec::new()),
            lines: Cell::new(0),
            stamp: RefCell::new(Stamp::default()),
        };
        handle.follow(self);
        handle
    }

    /// Its target, as a name.
    #[must_use]
    pub fn target_name(&self) -> String {
        match &self.now().target {
            LogTarget::Off => "off".to_owned(),
            LogTarget::Standard => "on standard output".to_owned(),
            LogTarget::File(path) | LogTarget::Syslog(path) => path.display().to_string(),
        }
    }

    /// Why the last batch was not written, if so.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.now().sink.as_ref().and_then(Sink::failure)
    }

    /// Reopens the file, at the next batch or at once if there is none: after a rotation. Does not wait.
    pub fn reopen(&self) {
        if let Some(sink) = &self.now().sink {
            sink.reopen();
        }
    }

    /// Writes the queued lines and stops the writer; waits at most `bound`. Workers flush first.
    pub fn close(&self, bound: Duration) -> Closed {
        let sink = self.now().sink.take();
        sink.map_or(Closed::Written, |it| it.close(bound))
    }

    fn now(&self) -> MutexGuard<'_, AccessLogTarget> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// All queued lines are written.
    Written,
    /// The bound passed first, and the remaining lines are lost.
    Late,
}

/// One worker's end of the access log.
pub struct LogHandle {
    format: RefCell<LogFormat>,
    /// `None` where the log is off.
    sender: RefCell<Option<LogSender>>,
    counters: Arc<Counters>,
    buffer: RefCell<Vec<u8>>,
    lines: Cell<u64>,
    stamp: RefCell<Stamp>,
}

impl LogHandle {
    /// Whether lines are written: if not, a [`LogEntry`] need not be made.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.sender.borrow().is_some()
    }

    /// Takes over the present target and format; lines in the old format are sent first.
    pub fn follow(&self, log: &AccessLog) {
        let format = log.now().format.clone();
        self.follow_as(log, format);
    }

    /// As [`LogHandle::follow`], with a format of its own.
    pub fn follow_as(&self, log: &AccessLog, format: LogFormat) {
        self.flush();
        let now = log.now();
        let sink = now.sink.as_ref().filter(|_| now.target != LogTarget::Off);
        self.sender.replace(sink.map(Sink::sender));
        self.format.replace(format);
    }

    /// Appends a line to the buffer. Never waits, and allocates only while the buffer grows to its size.
    pub fn record(&self, entry: &LogEntry<'_>) {
        if !self.is_on() {
            return;
        }
        let mut buffer = self.buffer.borrow_mut();
        if buffer.len() >= FULL_AT {
            self.counters.log_lines_dropped.add(1); // The next tick tries again.
            return;
        }
        let before = buffer.len();
        entry.write(&self.format.borrow(), &mut self.stamp.borrow_mut(), &mut buffer);
        self.lines.set(self.lines.get() + 1);
        let is_due = before / SEND_AT != buffer.len() / SEND_AT; // Once for each such number of bytes.
        drop(buffer);
        if is_due {
            self.flush();
        }
    }

    /// Sends the buffer. To be called at every tick of the worker, and before it ends.
    pub fn flush(&self) {
        let sender = self.sender.borrow();
        let Some(sender) = &*sender else { return };
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            return;
        }
        match sender.send(&mut buffer, self.lines.get()) {
            BatchFate::Taken => self.lines.set(0),
            BatchFate::Full => {}
            BatchFate::Closed => {
                self.counters.log_lines_dropped.add(self.lines.take());
                buffer.clear();
            }
        }
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        self.flush();
        self.counters.log_lines_dropped.add(self.lines.take());
    }
}
