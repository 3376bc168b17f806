//! The writer thread of a log: one bounded queue of batches, one file or pipe. It does not parse lines.

use super::Closed;
use super::error::ErrorLog;
use super::level::{Level, Subsystem};
use larder_counters::Counters;
use larder_stdx::error::plain;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Batches that wait for the writer; with the limit of a worker's buffer this bounds the log's memory.
const QUEUE: usize = 64;
/// Emptied buffers that are kept for reuse.
const SPARE: usize = 8;
/// A pipe that polls as writable accepts this much without blocking (PIPE_BUF of POSIX and Linux).
const PIPE_ATOM: usize = 4096;
/// The interval at which a writer that waits for a pipe checks whether to stop or to reopen.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The target of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output or standard error.
    Standard,
    /// A file, appended to.
    File(PathBuf),
    /// The system log, by its datagram socket (RFC 3164, as local daemons accept it).
    Syslog(PathBuf),
}

/// The socket of the system log.
pub const SYSLOG: &str = "/dev/log";
/// The largest line that is sent to the system log; the rest of a longer one is cut.
const SYSLOG_LINE: usize = 8 << 10;

/// The standard stream of the target `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// A target that is open already, so that a log can switch to it without failing.
pub(super) enum OpenedTarget {
    /// For the writer that the log has.
    Next(Out),
    /// With the first writer of the log.
    First(Sink),
}

impl OpenedTarget {
    /// Opens `target` for a log with this sink, or with the `first` one.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or the thread not started.
    pub fn open(
        present: Option<&Sink>,
        target: &LogTarget,
        stream: StandardStream,
        first: impl FnOnce() -> io::Result<Sink>,
    ) -> io::Result<Self> {
        match present {
            Some(_) => Out::open(target, stream).map(Self::Next),
            None => first().map(Self::First),
        }
    }

    /// Lets the log of this sink write there.
    pub fn switch(self, present: &mut Option<Sink>) {
        match (self, &*present) {
            (Self::Next(out), Some(sink)) => sink.switch(out),
            (Self::Next(_), None) => {}
            (Self::First(sink), _) => *present = Some(sink),
        }
    }
}

/// A log's file and its writer.
pub struct Sink {
    sender: LogSender,
    shared: Arc<SinkShared>,
    done: Receiver<()>,
}

/// A worker's end of the queue.
#[derive(Clone)]
pub struct LogSender {
    queue: SyncSender<Message>,
    shared: Arc<SinkShared>,
}

/// The result of sending a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFate {
    /// It is in the queue, and the buffer is empty.
    Taken,
    /// The queue is full; the buffer is unchanged.
    Full,
    /// The writer has ended; the buffer is unchanged.
    Closed,
}

enum Message {
    Batch {
        bytes: Vec<u8>,
        lines: u64,
    },
    /// Check the flags.
    Wake,
}

struct SinkShared {
    reopen: AtomicBool,
    /// The target to switch to with the next reopening.
    next: Mutex<Option<Out>>,
    stop: AtomicBool,
    /// The shutdown no longer waits for the writer: waiting batches are lost.
    abandon: AtomicBool,
    /// Buffers that the writer has emptied, for reuse; at most [`SPARE`].
    empty: Mutex<Vec<Vec<u8>>>,
    /// Why the last batch was not written, if so.
    failure: Mutex<Option<String>>,
}

impl LogSender {
    /// Hands the buffer over, in exchange for an empty one. Never waits.
    pub fn send(&self, buffer: &mut Vec<u8>, lines: u64) -> BatchFate {
        let fresh = self.shared.empty.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = std::mem::replace(buffer, fresh.unwrap_or_default());
        match self.queue.try_send(Message::Batch { bytes, lines }) {
            Ok(()) => BatchFate::Taken,
            Err(error) => {
                let (message, sent) = match error {
                    TrySendError::Full(message) => (message, BatchFate::Full),
                    TrySendError::Disconnected(message) => (message, BatchFate::Closed),
                };
                if let Message::Batch { bytes, .. } = message {
                    self.shared.recycle(std::mem::replace(buffer, bytes));
                }
                sent
            }
        }
    }
}

impl SinkShared {
    fn set_failure(&self, why: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if empty.len() < SPARE {
            empty.push(buffer);
        }
    }
}

impl Sink {
    /// Opens the target and starts the writer, a thread called `name`. `counters` are the writer's own.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or the thread not started.
    pub fn open(
        target: &LogTarget,
        stream: StandardStream,
        name: &'static str,
        counters: Arc<Counters>,
        errors: Option<ErrorLog>,
    ) -> io::Result<Sink> {
        let out = Out::open(target, stream)?;
        let (queue, batches) = mpsc::sync_channel(QUEUE);
        let (sender, done) = mpsc::channel();
        let shared = Arc::new(SinkShared {
            reopen: AtomicBool::new(false),
            next: Mutex::default(),
            stop: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
            empty: Mutex::new(Vec::new()),
            failure: Mutex::default(),
        });
        let mut writer = SinkWriter { out, name, shared: shared.clone(), counters, errors };
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            writer.run(&batches);
            let _ = sender.send(());
        })?;
        Ok(Sink { sender: LogSender { queue, shared: shared.clone() }, shared, done })
    }

    /// A sender.
    #[must_use]
    pub fn sender(&self) -> LogSender {
        self.sender.clone()
    }

    /// Why the last batch was not written, if so.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests the file to be reopened. Does not wait.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, SeqCst);
        // A full queue means that the writer is busy, and it checks the flag by itself.
        let _ = self.sender.queue.try_send(Message::Wake);
    }

    /// Lets the writer switch to another target before its next batch. Does not wait for the writer.
    fn switch(&self, out: Out) {
        *self.shared.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(out);
        self.reopen();
    }

    /// Lets the writer write the whole queue and end; waits at most `bound`.
    pub fn close(self, bound: Duration) -> Closed {
        self.shared.stop.store(true, SeqCst);
        let _ = self.sender.queue.try_send(Message::Wake);
        match self.done.recv_timeout(bound) {
            Ok(()) => Closed::Written,
            Err(_) => {
                self.shared.abandon.store(true, SeqCst);
                Closed::Late
            }
        }
    }
}

struct SinkWriter {
    out: Out,
    name: &'static str,
    shared: Arc<SinkShared>,
    counters: Arc<Counters>,
    errors: Option<ErrorLog>,
}

impl SinkWriter {
    /// Runs until every sender is gone, or a stop is requested and the queue is empty.
    fn run(&mut self, batches: &Receiver<Message>) {
        loop {
            let message =
                if self.shared.stop.load(SeqCst) { batches.try_recv().ok() } else { batches.recv().ok() };
            let Some(message) = message else { return };
            self.reopen_if_asked();
            if let Message::Batch { bytes, lines } = message {
                self.write(&bytes, lines);
                self.shared.recycle(bytes);
            }
        }
    }

    fn write(&mut self, bytes: &[u8], lines: u64) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wrote = match self.out.ready() {
                Ready::Now(most) => self.out.write(&rest[..most.min(rest.len())]),
                Ready::Later => Ok(0),
            };
            match wrote {
                Ok(0) if self.shared.abandon.load(SeqCst) => return self.lose(rest, lines),
                Ok(0) => self.reopen_if_asked(),
                Ok(wrote) => rest = &rest[wrote.min(rest.len())..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.complain("log-not-written", &error);
                    self.shared.set_failure(Some(plain(&error)));
                    return self.lose(rest, lines);
                }
            }
        }
        self.shared.set_failure(None);
    }

    /// Counts the lines of `rest`, which is not written; the batch had `lines`.
    fn lose(&self, rest: &[u8], lines: u64) {
        let lost = rest.iter().filter(|it| **it == b'\n').count() as u64;
        self.counters.log_lines_dropped.add_shared(lost.min(lines));
    }

    fn reopen_if_asked(&mut self) {
        if !self.shared.reopen.swap(false, SeqCst) {
            return;
        }
        let next = self.shared.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        match next {
            Some(out) => self.out = out,
            None => {
                if let Err(error) = self.out.reopen() {
                    self.complain("log-not-reopened", &error);
                }
            }
        }
    }

    fn complain(&self, event: &'static str, error: &io::Error) {
        if let Some(errors) = &self.errors {
            let errors = errors.of(Subsystem::Log);
            let help = match error.kind() {
                io::ErrorKind::FileTooLarge => {
                    "; it has reached the file size limit (`ulimit -f`) or the disk is full: move it away and send \
                     SIGUSR1, or raise the limit"
                }
                _ => "",
            };
            errors.seldom(
                Level::Error,
                event,
                &[("log", self.name), ("error", &format!("{}{help}", plain(error)))],
            );
        }
    }
}

/// Whether a write would block.
enum Ready {
    /// It accepts this many bytes without blocking.
    Now(usize),
    /// Not within the time that the writer waits.
    Later,
}

pub(super) enum Out {
    File { path: PathBuf, file: File, waits: bool },
    Stream { stream: StandardStream, waits: bool },
    Syslog { path: PathBuf, socket: UnixDatagram },
    Nowhere,
}

impl Out {
    fn open(target: &LogTarget, stream: StandardStream) -> io::Result<Out> {
        Ok(match target {
            LogTarget::Off => Out::Nowhere,
            LogTarget::Syslog(path) => Out::Syslog { path: path.clone(), socket: syslog(path)? },
            LogTarget::File(path) => {
                let (file, waits) = open_file(path)?;
                Out::File { path: path.clone(), file, waits }
            }
            LogTarget::Standard => {
                let file = match stream {
                    StandardStream::Out => io::stdout().as_fd().try_clone_to_owned(),
                    StandardStream::Error => io::stderr().as_fd().try_clone_to_owned(),
                };
                let waits = File::from(file?).metadata().map_or(true, |it| !it.is_file());
                Out::Stream { stream, waits }
            }
        })
    }

    /// Reopens a rotated file under its name; streams are kept. After a failure the old file is kept.
    fn reopen(&mut self) -> io::Result<()> {
        if let Out::File { path, file, waits } = self {
            (*file, *waits) = open_file(path)?;
        }
        Ok(())
    }

    /// Waits a moment for pipes and terminals. A regular file is always ready.
    fn ready(&self) -> Ready {
        fn pipe(fd: BorrowedFd<'_>) -> Ready {
            let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
            match poll(&mut fds, Some(&LOOK)) {
                Ok(0) | Err(_) => Ready::Later,
                Ok(_) => Ready::Now(PIPE_ATOM), // An error of the pipe shows when it is written to.
            }
        }
        match self {
            Out::File { file, waits: true, .. } => pipe(file.as_fd()),
            // A line is one datagram: it is sent whole or not at all.
            Out::Syslog { socket, .. } => match pipe(socket.as_fd()) {
                Ready::Now(_) => Ready::Now(usize::MAX),
                Ready::Later => Ready::Later,
            },
            Out::Stream { stream: StandardStream::Out, waits: true } => pipe(io::stdout().as_fd()),
            Out::Stream { stream: StandardStream::Error, waits: true } => pipe(io::stderr().as_fd()),
            Out::File { .. } | Out::Stream { .. } | Out::Nowhere => Ready::Now(usize::MAX),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::File { file, .. } => file.write(bytes),
            // Bypasses the standard library's own buffer: batches are complete.
            Out::Stream { stream: StandardStream::Out, .. } => Ok(rustix::io::write(io::stdout(), bytes)?),
            Out::Stream { stream: StandardStream::Error, .. } => Ok(rustix::io::write(io::stderr(), bytes)?),
            Out::Syslog { path, socket } => send_line(path, socket, bytes),
            Out::Nowhere => Ok(bytes.len()),
        }
    }
}

fn syslog(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    Ok(socket)
}

/// Sends the first line of `bytes` as one message of the facility `local0` and the severity `info`; connects again to a
/// system log that was restarted. Returns the bytes that are done.
fn send_line(path: &Path, socket: &mut UnixDatagram, bytes: &[u8]) -> io::Result<usize> {
    let end = bytes.iter().position(|it| *it == b'\n').unwrap_or(bytes.len());
    let line = &bytes[..end.min(SYSLOG_LINE)];
    let message = [format!("<134>larder[{}]: ", std::process::id()).as_bytes(), line].concat();
    let sent = match socket.send(&message) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::ConnectionReset
            ) =>
        {
            *socket = syslog(path)?;
            socket.send(&message)
        }
        sent => sent,
    };
    match sent {
        Ok(_) => Ok((end + 1).min(bytes.len())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}

/// Opens a file for appending, and returns whether writes to it may block. A FIFO is opened for reading as well: so the
/// open does not wait for a reader, and a reader that leaves does not break the log.
fn open_file(path: &Path) -> io::Result<(File, bool)> {
    let is_fifo = std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo());
    let mut options = OpenOptions::new();
    if is_fifo {
        options.read(true).write(true);
    } else {
        options.append(true).create(true).mode(0o640);
    }
    let file = options.open(path)?;
    let waits = !file.metadata()?.is_file();
    Ok((file, waits))
}
