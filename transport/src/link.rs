//! The bytes of one client's socket: reading, sending what an outbox has, and the end. What they mean is not here: the
//! connections of the protocols are built on this.

use crate::outbox::{Outbox, Sent};
use crate::worker::{Expired, Watched, Worker};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why a client can no longer be read from or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientGone {
    /// It closed or reset the connection.
    Closed,
    /// It was too slow.
    TimedOut,
    /// Its body was malformed.
    Malformed,
    /// Its body was over `limits.body_size`.
    TooLarge,
}

/// One client's socket, and what is to be written to it.
pub(crate) struct Link {
    pub watched: Rc<Watched>,
    pub worker: Rc<Worker>,
    /// What is to be written, while there is something: see [`Link::with_output`].
    output: RefCell<Option<Box<Outbox>>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.worker.dismiss(&self.watched);
    }
}

impl Link {
    /// Over a socket that the worker admitted.
    pub fn new(watched: Rc<Watched>, worker: Rc<Worker>) -> Self {
        Self { watched, worker, output: RefCell::default() }
    }

    /// Closes our side: the client finds the end of what was sent.
    pub fn end(&self) {
        self.watched.shut(Shutdown::Write);
    }

    /// Has the close that follows be a reset.
    pub fn reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.watched.fd(), Some(Duration::ZERO));
    }

    /// Reads what is there. A short read leaves the socket marked as empty: the next call waits at once, without
    /// a system call that would only say so.
    #[inline]
    pub fn read(&self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Errno>> {
        if self.watched.may_read_unwatched() && self.worker.haste.is_due() {
            let received = self.receive(into);
            let came = !matches!(received, Err(Errno::AGAIN | Errno::INTR));
            self.worker.haste.tell(came);
            if came {
                return Poll::Ready(received);
            }
        }
        loop {
            let mut guard = match self.watched.io().map(|it| it.poll_read_ready(context)) {
                Ok(Poll::Ready(Ok(guard))) => guard,
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Err(_))) => return Poll::Ready(Err(Errno::IO)),
                Err(_) => {
                    self.worker.counters.accept_errors.add(1);
                    return Poll::Ready(Err(Errno::IO));
                }
            };
            match self.receive(into) {
                Ok(count) => {
                    if count > 0 && count < into.len() {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    #[inline]
    fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let (count, _) = rustix::net::recv(self.watched.fd(), into, RecvFlags::empty())?;
        // What arrived may have been sent while this process stood still, and is judged by a clock that knows that.
        larder_stdx::clock::arrived();
        self.worker.counters.client_bytes_received.add(count as u64);
        self.watched.note(count as u64);
        Ok(count)
    }

    /// Lends the outbox: the connection's own while something waits in it, else the worker's.
    #[inline]
    pub fn with_output<T>(&self, work: impl FnOnce(&mut Outbox) -> T) -> T {
        let mut own = self.output.borrow_mut();
        let mut outbox = own.take().or_else(|| self.worker.output.take()).unwrap_or_default();
        let done = work(&mut outbox);
        if outbox.is_empty() {
            self.worker.output.set(Some(outbox));
        } else {
            *own = Some(outbox);
        }
        done
    }

    /// Writes what the socket takes now.
    #[inline]
    pub fn send_now(&self) -> Result<Sent, Errno> {
        if self.output.borrow().is_none() {
            return Ok(Sent::All);
        }
        let mut moved = 0;
        let sent = self.with_output(|it| it.send(self.watched.fd(), &mut moved));
        self.worker.counters.client_bytes_sent.add(moved);
        self.watched.note_sent(moved);
        sent
    }

    /// Writes everything, waiting as long as the client takes some of it.
    pub async fn flush(&self) -> Result<(), ClientGone> {
        let mut sent = self.send_now();
        if let Ok(Sent::All) = sent {
            return Ok(());
        }
        let limit = self.worker.times().write;
        let _wait = self.watched.write_while(limit);
        self.with_output(Outbox::compact);
        loop {
            match sent {
                Ok(Sent::All) => return Ok(()),
                Ok(Sent::Turn) => tokio::task::yield_now().await,
                Ok(Sent::Blocked) => {}
                Err(error) => {
                    self.note_failure(error);
                    return Err(self.gone());
                }
            }
            // Several may wait here at once: a body that says `100 Continue`, and a reply.
            let Ok(io) = self.watched.io() else { return Err(self.gone()) };
            let Ok(mut guard) = io.writable().await else { return Err(self.gone()) };
            // The guard is from before the attempt: room that comes after it is not overlooked.
            let before = self.waiting();
            sent = self.send_now();
            if sent == Ok(Sent::Blocked) {
                guard.clear_ready();
            }
            if self.waiting() < before {
                self.watched.write_for(limit);
            }
        }
    }

    /// Waits until the other side has closed, without taking anything of what it sent.
    pub async fn gone_away(&self) {
        let Ok(io) = self.watched.io() else { return };
        loop {
            let Ok(mut guard) = io.readable().await else { return };
            match rustix::net::recv(self.watched.fd(), &mut [0; 1], RecvFlags::PEEK) {
                Ok((count, _)) if count > 0 => return std::future::pending().await,
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Bytes that are to be written.
    pub fn waiting(&self) -> u64 {
        self.output.borrow().as_ref().map_or(0, |it| it.len())
    }

    /// Why nothing more can be read or written.
    pub fn gone(&self) -> ClientGone {
        if self.watched.expired() == Expired::No { ClientGone::Closed } else { ClientGone::TimedOut }
    }

    /// A file that changed is no fault of the client, and one that was too slow is counted as that.
    pub fn note_failure(&self, error: Errno) {
        if error != Errno::IO && self.watched.expired() == Expired::No {
            self.worker.counters.client_aborts.add(1);
        }
    }
}
