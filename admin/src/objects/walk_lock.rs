//! Locks of long operations, such as walks over a tier: one at a time, in the order of the requests, and none for a client that has gone
//! while others wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

/// The locks of listings: one walk at a time over each tier, so that any number of listings leaves one core to hits. A
/// walk over a disk that does not respond holds the disk's lock, not that of RAM.
#[derive(Default)]
pub struct WalkLocks {
    pub(super) ram: WalkLock,
    pub(super) disk: WalkLock,
}

/// The lock of one tier.
pub(super) struct WalkLock {
    lock: Arc<Semaphore>,
    /// Notified when an operation has to wait.
    queued: Notify,
}

impl Default for WalkLock {
    fn default() -> Self {
        Self { lock: Arc::new(Semaphore::new(1)), queued: Notify::new() }
    }
}

/// The device is too slow, or too many listings are waiting.
#[derive(Debug)]
pub(crate) struct Slow;

/// Whether the result of an operation is still wanted: until its [`Walk`] is dropped.
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// Asked by the operation every few thousand entries, when it ends early.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// A running operation. Without it the operation ends as soon as it asks [`Wanted`].
#[derive(Debug)]
pub(super) struct Walk<T> {
    task: JoinHandle<T>,
    wanted: Arc<AtomicBool>,
}

impl<T> Walk<T> {
    /// Waits for its end; `None` if it panicked.
    pub(super) async fn end(mut self) -> Option<T> {
        (&mut self.task).await.ok()
    }
}

impl<T> Drop for Walk<T> {
    fn drop(&mut self) {
        self.wanted.store(false, Relaxed);
    }
}

impl WalkLocks {
    /// Returns when an operation begins to wait for another.
    pub(crate) async fn queued(&self) {
        tokio::select! {
            () = self.ram.queued.notified() => {}
            () = self.disk.queued.notified() => {}
        }
    }
}

impl WalkLock {
    /// Starts a long operation once no other is running. If others take longer than `timeout`, it returns an error
    /// instead of waiting further. The operation holds the lock until its end, also after its caller has gone.
    pub(super) async fn begin<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce(Wanted) -> T + Send + 'static,
    ) -> Result<Walk<T>, Slow> {
        let turn = match self.lock.clone().try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                self.queued.notify_waiters();
                let turn = tokio::time::timeout(timeout, self.lock.clone().acquire_owned());
                turn.await.ok().and_then(Result::ok).ok_or(Slow)?
            }
        };
        let wanted = Arc::new(AtomicBool::new(true));
        let asked = Wanted(wanted.clone());
        let task = tokio::task::spawn_blocking(move || {
            let done = work(asked);
            drop(turn);
            done
        });
        Ok(Walk { task, wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_listing_that_cannot_begin_is_rejected_after_its_timeout() {
        let (turn, (end, ends)) = (WalkLock::default(), mpsc::channel::<()>());
        let walk = turn.begin(Duration::ZERO, move |_| ends.recv().is_ok()).await.unwrap();
        for _ in 0..100 {
            assert!(turn.begin(Duration::ZERO, |_| ()).await.is_err());
        }
        // Its client may be gone: it takes a core until it ends.
        drop(walk);
        assert!(turn.begin(Duration::ZERO, |_| ()).await.is_err());
        end.send(()).unwrap();
        turn.begin(Duration::MAX, |_| ()).await.unwrap().end().await.unwrap();
    }

    #[tokio::test]
    async fn a_listing_without_a_client_ends_and_the_next_begins() {
        let turn = WalkLock::default();
        let endless = |wanted: Wanted| while wanted.is_wanted() {};
        let walk = turn.begin(Duration::ZERO, endless).await.unwrap();
        drop(walk);
        turn.begin(Duration::MAX, |_| ()).await.unwrap().end().await.unwrap();
    }
}
