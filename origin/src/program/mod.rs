//! CGI (RFC 3875): one process for each request, whose input and output are pipes. The variables of a request are in
//! `semantics`, the response is that of an application.
//!
//! ```text
//! Idle ── Starting (on a thread that may block) ── Running ── Ended
//! ```

mod launch;
mod process;

use crate::application::response::{ApplicationOutput, TakenOutput};
use crate::connection::ConnectionShare;
use crate::deadline::{Alarms, after, now};
use crate::error::OriginError;
use crate::process_slots::ProcessSlot;
use crate::program_settings::ProgramSettings;
use crate::protocol::{Closing, Event};
use crate::request::OutgoingRequest;
use crate::send_buffer::{BodyRetention, SLICES, SendBuffer};
use bytes::{Bytes, BytesMut};
use larder_semantics::cgi::{ProgramPath, Script};
use launch::{LaunchRequest, Launched, NotLaunched, launch};
use process::{ProgramEnd, UnreadOutput, supervise};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

/// Room for a read: the size of a pipe.
const READ: usize = 64 * 1024;
/// Room for a read of bytes that are not taken soon.
const SMALL_READ: usize = 16 * 1024;
/// Bytes of one part of the error output.
const ERRORS: usize = 4096;
/// Parts of the error output that are read at a time.
const MOST_ERRORS: usize = 16;
/// How long the output of a program that has ended may be silent before it is at its end: a process that the program left behind
/// may hold it open for ever.
const HELD_OPEN: Duration = Duration::from_secs(2);
/// How long after the end of the output a program may end by a signal and so spoil it.
const AFTER_OUTPUT: Duration = Duration::from_secs(1);

/// An exchange with its program.
pub(crate) struct ProgramExchange {
    settings: Arc<ProgramSettings>,
    shared: Rc<ConnectionShare>,
    /// For how long it may run, its response included.
    limit: Duration,
    stage: ProgramStage,
    /// The program and its end, once its output has ended.
    end: Option<String>,
    output: ApplicationOutput,
    /// Read and not taken yet.
    buffer: BytesMut,
    read_size: usize,
    pub(crate) alarms: Alarms,
}

/// The state of the program.
enum ProgramStage {
    Idle(ProcessSlot),
    Starting(JoinHandle<Result<Launched, NotLaunched>>),
    Running(Box<RunningProgram>),
    /// All of its output was taken, or larder answers in its place.
    Ended,
    Failed(OriginError),
}

/// A running program.
struct RunningProgram {
    name: String,
    /// `None` once the body is written, or the program reads no more.
    input: Option<pipe::Sender>,
    output: Option<pipe::Receiver>,
    errors: Option<pipe::Receiver>,
    reported: oneshot::Receiver<ProgramEnd>,
    end: Option<ProgramEnd>,
    /// Dropping it stops the program.
    done: Option<oneshot::Sender<UnreadOutput>>,
    /// Set while an end is awaited.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ProgramExchange {
    pub(crate) fn new(
        settings: Arc<ProgramSettings>,
        slot: ProcessSlot,
        shared: Rc<ConnectionShare>,
        limit: Duration,
    ) -> Self {
        Self {
            settings,
            shared,
            limit,
            stage: ProgramStage::Idle(slot),
            end: None,
            output: ApplicationOutput::of_program(),
            buffer: BytesMut::new(),
            read_size: READ,
            alarms: Alarms::default(),
        }
    }

    /// Starts the program. It may have an effect from now on: the request is not repeated.
    pub(crate) fn write_head(&mut self, request: &OutgoingRequest, unsent: &mut SendBuffer) {
        unsent.begin(Bytes::new(), 1, BodyRetention::Nothing);
        let ProgramStage::Idle(slot) = std::mem::replace(&mut self.stage, ProgramStage::Ended) else {
            return;
        };
        let order = LaunchRequest {
            path: ProgramPath::new(request.line.target(), &self.settings.strip),
            variables: request.variables_for(&Script::default()),
            has_input: request.has_body(),
        };
        let settings = self.settings.clone();
        let starting = tokio::task::spawn_blocking(move || launch(&settings, order, slot));
        self.stage = ProgramStage::Starting(starting);
    }

    /// Whether the end of the body is not written yet.
    pub(crate) fn owes_end(&self) -> bool {
        match &self.stage {
            ProgramStage::Idle(_) | ProgramStage::Starting(_) => true,
            ProgramStage::Running(it) => it.input.is_some(),
            ProgramStage::Ended | ProgramStage::Failed(_) => false,
        }
    }

    /// Writes once from the unsent bytes. A program need not read its input: the rest is dropped.
    pub(crate) fn poll_write(
        &mut self,
        unsent: &mut SendBuffer,
        closing: Closing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        ready!(self.poll_start(cx))?;
        let running = match &mut self.stage {
            ProgramStage::Running(it) => it,
            _ => {
                unsent.clear();
                return Poll::Ready(Ok(()));
            }
        };
        if let Some(input) = &mut running.input
            && !unsent.is_empty()
        {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = unsent.slices(&mut slices);
            match ready!(Pin::new(input).poll_write_vectored(cx, &slices[..count])) {
                Ok(length) => {
                    self.shared.counters.origin_bytes_sent.add(length as u64);
                    unsent.took(length);
                }
                Err(_) => running.input = None,
            }
        }
        if running.input.is_none() {
            unsent.clear();
        }
        if unsent.is_empty() && closing == Closing::End {
            running.input = None;
        }
        Poll::Ready(Ok(()))
    }

    /// The next event of the response: from the buffer, otherwise from one read.
    pub(crate) fn poll_read(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, OriginError>> {
        ready!(self.poll_start(cx))?;
        if let Some(event) = self.take(method, limit)? {
            return Poll::Ready(Ok(event));
        }
        Poll::Ready(match ready!(self.poll_output(cx))? {
            0 => self.output.end().map(|it| Event::End(it, None)).map_err(|it| match self.end.take() {
                Some(end) => OriginError::ProgramEnded(end),
                None => it,
            }),
            _ => Ok(Event::More),
        })
    }

    /// Waits until a part of the response is here, and leaves it in place.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        ready!(self.poll_start(cx))?;
        Poll::Ready(match ready!(self.poll_output(cx))? {
            0 => Err(OriginError::Disconnected),
            _ => Ok(()),
        })
    }

    /// From now on reads are small.
    pub(crate) fn limit_reads(&mut self) {
        self.read_size = SMALL_READ;
    }

    /// Whether the response is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.output.is_whole()
    }

    fn take(&mut self, method: &str, limit: usize) -> Result<Option<Event>, OriginError> {
        loop {
            match self.output.take(method, limit)? {
                TakenOutput::Head(head) => return Ok(Some(Event::Head(head))),
                TakenOutput::Body(bytes) => return Ok(Some(Event::Body(bytes))),
                TakenOutput::Nothing if self.buffer.is_empty() => return Ok(None),
                TakenOutput::Nothing => self.output.add(self.buffer.split().freeze()),
            }
        }
    }

    /// Ready once the program runs, or is known not to.
    fn poll_start(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let starting = match &mut self.stage {
            ProgramStage::Starting(it) => it,
            ProgramStage::Failed(error) => return Poll::Ready(Err(error.clone())),
            ProgramStage::Idle(_) | ProgramStage::Running(_) | ProgramStage::Ended => {
                return Poll::Ready(Ok(()));
            }
        };
        let begun = match ready!(Pin::new(starting).poll(cx)) {
            Ok(Ok(launched)) => RunningProgram::new(launched, self.limit)
                .map_err(|it| OriginError::Connect(larder_stdx::error::plain(&it))),
            Ok(Err(NotLaunched::NotFound)) => {
                self.output.has_no_program();
                self.buffer = BytesMut::from(NOT_FOUND);
                self.stage = ProgramStage::Ended;
                return Poll::Ready(Ok(()));
            }
            Ok(Err(NotLaunched::Fault(error))) => Err(error),
            Err(_) => Err(OriginError::Disconnected), // The runtime stops.
        };
        Poll::Ready(match begun {
            Ok(running) => {
                self.stage = ProgramStage::Running(Box::new(running));
                Ok(())
            }
            Err(error) => {
                self.stage = ProgramStage::Failed(error.clone());
                Err(error)
            }
        })
    }

    /// Reads once into the buffer; 0 is the end of a response whose program no signal has ended.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, OriginError>> {
        let ProgramStage::Running(running) = &mut self.stage else { return Poll::Ready(Ok(0)) };
        running.poll_errors(&self.shared, cx);
        self.buffer.reserve(self.read_size);
        let length =
            ready!(running.poll_output(&mut self.buffer, cx)).map_err(|_| OriginError::Disconnected)?;
        self.shared.counters.origin_bytes_received.add(length as u64);
        if length > 0 {
            return Poll::Ready(Ok(length));
        }
        let end = ready!(running.poll_spoiled(cx));
        running.poll_errors(&self.shared, cx);
        let how = format!("{} {}", running.name, how(end));
        if let Some(ProgramEnd::Killed(_)) = end {
            return Poll::Ready(Err(OriginError::ProgramEnded(how)));
        }
        self.end = Some(how);
        // Before the end of the head, or of the announced length, it is truncated.
        running.done.take().into_iter().for_each(|it| drop(it.send(None)));
        self.stage = ProgramStage::Ended;
        Poll::Ready(Ok(0))
    }
}

impl Drop for ProgramExchange {
    /// A response without a body needs no more output. The program ends nevertheless as it would for GET.
    fn drop(&mut self) {
        let is_answered = self.output.is_dropped();
        if let ProgramStage::Running(running) = &mut self.stage
            && is_answered
            && let Some(done) = running.done.take()
        {
            let _ = done.send(running.output.take());
        }
    }
}

impl RunningProgram {
    /// Runs inside a `LocalSet`.
    fn new(launched: Launched, limit: Duration) -> io::Result<Self> {
        let Launched { name, process, input, output, errors } = launched;
        let input = input.map(pipe::Sender::from_owned_fd).transpose()?;
        let (output, errors) =
            (pipe::Receiver::from_owned_fd(output)?, pipe::Receiver::from_owned_fd(errors)?);
        let (report, reported) = oneshot::channel();
        let (done, is_done) = oneshot::channel();
        tokio::task::spawn_local(supervise(process, report, is_done, after(now(), limit)));
        let (output, errors, done) = (Some(output), Some(errors), Some(done));
        Ok(Self { name, input, output, errors, reported, end: None, done, timer: None })
    }

    /// Reads once; 0 is the end.
    fn poll_output(&mut self, buffer: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Asked first: everything that the program has written is in the pipe then.
        let has_ended = self.poll_end(cx).is_ready();
        let Some(output) = &mut self.output else { return Poll::Ready(Ok(0)) };
        let read = pin!(output.read_buf(buffer)).poll(cx);
        let read = match read {
            Poll::Pending if has_ended => read_now(output, buffer)?,
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => Some(read?),
        };
        let length = match read {
            Some(length) => length,
            None => {
                ready!(self.poll_patience(HELD_OPEN, cx));
                0
            }
        };
        self.timer = None;
        if length == 0 {
            self.output = None;
        }
        Poll::Ready(Ok(length))
    }

    /// How the program ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<ProgramEnd> {
        let end = match self.end {
            Some(end) => end,
            // Without a report the runtime stops.
            None => ready!(Pin::new(&mut self.reported).poll(cx)).unwrap_or(ProgramEnd::Killed(None)),
        };
        self.end = Some(end);
        Poll::Ready(end)
    }

    /// How the program ended after its output; `None` where it runs on.
    fn poll_spoiled(&mut self, cx: &mut Context<'_>) -> Poll<Option<ProgramEnd>> {
        if let Poll::Ready(end) = self.poll_end(cx) {
            return Poll::Ready(Some(end));
        }
        self.poll_patience(AFTER_OUTPUT, cx).map(|()| None)
    }

    fn poll_patience(&mut self, time: Duration, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.get_or_insert_with(|| Box::pin(sleep(time))).as_mut().poll(cx)
    }

    /// Reports the error output that is here.
    fn poll_errors(&mut self, shared: &ConnectionShare, cx: &mut Context<'_>) {
        for _ in 0..MOST_ERRORS {
            let Some(errors) = &mut self.errors else { return };
            let mut buffer = [0; ERRORS];
            let mut part = ReadBuf::new(&mut buffer);
            match Pin::new(errors).poll_read(cx, &mut part) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if !part.filled().is_empty() => shared.note_error_output(part.filled()),
                Poll::Ready(_) => self.errors = None,
            }
        }
        cx.waker().wake_by_ref(); // There may be more.
    }
}

/// The end of a program, as the end of a clause.
fn how(end: Option<ProgramEnd>) -> String {
    match end {
        None | Some(ProgramEnd::Exited(None)) => "closed its output".to_owned(),
        Some(ProgramEnd::Exited(Some(status))) => format!("ended with status {status}"),
        Some(ProgramEnd::Killed(Some(signal))) => format!("was ended by signal {signal}"),
        Some(ProgramEnd::Killed(None)) => "was ended by a signal".to_owned(),
    }
}

/// Reads what is in a pipe; `None` where it is empty and has writers. The runtime may not know yet that it is not empty.
fn read_now(output: &pipe::Receiver, buffer: &mut BytesMut) -> io::Result<Option<usize>> {
    let mut bytes = vec![0; READ];
    match rustix::io::read(output, &mut bytes) {
        Ok(length) => {
            buffer.extend_from_slice(&bytes[..length]);
            Ok(Some(length))
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// larder's answer in place of a program's, the same for a file that is none: no client learns of it. It is not stored: a program may be
/// there a moment later.
const NOT_FOUND: &str = "Status: 404 Not Found\r\nCache-Control: no-store\r\nContent-Type: text/plain\r\n\r\nNo program has this path.\n";
