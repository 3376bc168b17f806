//! A running CGI program: its process group and its end. `launch` starts it.

use crate::process_slots::ProcessSlot;
use crate::stalled_exchanges::notify_queued;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a program has to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// How long this process waits, while it stops, for the end of a killed program: seconds.
const AT_STOP: i64 = 1;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    /// It exited, with any status: CGI has no meaning for it. `None` where it is not known.
    Exited(Option<i32>),
    /// This signal ended it: its output may be cut. `None` where it is not known.
    Killed(Option<i32>),
}

/// A started program. Dropping it kills its process group.
#[derive(Debug)]
pub(super) struct ProgramProcess {
    pidfd: Arc<OwnedFd>,
    /// It leads a process group, whose number stays its own until it is reaped.
    pid: Pid,
    is_reaped: bool,
    slot: ProcessSlot,
}

impl ProgramProcess {
    /// The process `pid`, a child of this process that was not reaped.
    ///
    /// # Errors
    /// There is no descriptor for it. It is killed.
    pub(super) fn new(pid: Pid, slot: ProcessSlot) -> io::Result<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { pidfd: Arc::new(pidfd), pid, is_reaped: false, slot }),
            Err(error) => {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                Err(error.into())
            }
        }
    }

    /// How it ended; `None` while it runs. It is not reaped.
    fn end(&self) -> Option<ProgramEnd> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(None) => None,
            Ok(Some(status)) => Some(match status.terminating_signal() {
                None => ProgramEnd::Exited(status.exit_status()),
                signal => ProgramEnd::Killed(signal),
            }),
            // The kernel has reaped it where SIGCHLD is ignored.
            Err(_) => Some(ProgramEnd::Exited(None)),
        }
    }

    /// Waits until it has ended.
    async fn ended(&self, watch: &AsyncFd<Arc<OwnedFd>>) -> ProgramEnd {
        loop {
            let readable = watch.readable().await;
            match (self.end(), readable) {
                (Some(end), _) => return end,
                (None, Ok(mut guard)) => guard.clear_ready(),
                (None, Err(_)) => return ProgramEnd::Killed(None), // The runtime stops.
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Ends its process group.
    async fn stop(&self, watch: &AsyncFd<Arc<OwnedFd>>) {
        self.signal(Signal::TERM);
        let _ = timeout(GRACE, self.ended(watch)).await;
        // Those that it started may ignore SIGTERM, too.
        self.signal(Signal::KILL);
        self.ended(watch).await;
    }

    fn reap(mut self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        self.is_reaped = waitid(WaitId::PidFd(self.pidfd.as_fd()), options).is_ok();
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        self.signal(Signal::KILL);
        let timeout = Timespec { tv_sec: AT_STOP, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&timeout));
        let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// The rest of an output that no exchange reads.
pub(super) type UnreadOutput = Option<pipe::Receiver>;

/// Looks after a program: reports its end, and reaps it. `done` says that its response is whole: it may run on until
/// `deadline`. Without that it is stopped.
pub(super) async fn supervise(
    process: ProgramProcess,
    report: oneshot::Sender<ProgramEnd>,
    done: oneshot::Receiver<UnreadOutput>,
    deadline: Instant,
) {
    // SAFETY: the descriptor is owned by the `Arc`, of which the `AsyncFd` has one; nothing closes or replaces it before.
    let watched = unsafe { AsyncFd::register_with_interest(process.pidfd.clone(), Interest::READABLE) };
    let Ok(watch) = watched else { return };
    let slots = process.slot.slots().clone();
    // Its client may be gone, and a request of another worker may wait for its slot.
    let passes_on = async {
        loop {
            slots.wanted().await;
            notify_queued();
        }
    };
    tokio::select! {
        biased;
        () = until_over(&process, &watch, report, done, deadline) => {}
        () = passes_on => {}
    }
    process.reap();
}

/// Waits until the program may be reaped.
async fn until_over(
    process: &ProgramProcess,
    watch: &AsyncFd<Arc<OwnedFd>>,
    report: oneshot::Sender<ProgramEnd>,
    mut done: oneshot::Receiver<UnreadOutput>,
    deadline: Instant,
) {
    tokio::select! {
        biased;
        end = process.ended(watch) => {
            let _ = report.send(end);
            // Processes that it started may hold its output open. They belong to it unless its response is whole.
            if done.await.is_err() {
                process.signal(Signal::KILL);
            }
        }
        is_done = &mut done => {
            let runs_on = async |unread| tokio::join!(discard(unread), process.ended(watch));
            let is_over = match is_done {
                Ok(unread) => timeout_at(deadline, runs_on(unread)).await.is_ok(),
                Err(_) => false,
            };
            if !is_over {
                process.stop(watch).await;
            }
        }
    }
}

/// Reads an output to its end.
async fn discard(unread: UnreadOutput) {
    let Some(mut output) = unread else { return };
    let mut buffer = [0; 4096];
    while matches!(output.read(&mut buffer).await, Ok(1..)) {}
}
