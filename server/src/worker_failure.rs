//! The failure of a worker: a panic outside of a connection's task. It is reported to the main thread, which ends the process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use tokio::sync::Notify;

/// The first worker that failed, and its panic.
#[derive(Default)]
pub struct WorkerFailure {
    first: OnceLock<(usize, String)>,
    failed: Notify,
}

impl WorkerFailure {
    /// Runs a worker, and keeps its panic.
    pub fn watch(&self, worker: usize, run: impl FnOnce()) {
        // No state of the worker is used after it: it has left the thread.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            let _ = self.first.set((worker, text_of(&*panic)));
            self.failed.notify_one();
        }
    }

    /// The number of the first failed worker, and the text of its panic.
    #[must_use]
    pub fn first(&self) -> Option<&(usize, String)> {
        self.first.get()
    }

    /// Waits until a worker has failed. Only the main thread waits.
    pub async fn happened(&self) -> &(usize, String) {
        loop {
            match self.first() {
                Some(first) => return first,
                None => self.failed.notified().await,
            }
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let fixed = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    fixed
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_is_kept() {
        let failure = WorkerFailure::default();
        failure.watch(0, || {});
        assert_eq!(None, failure.first());
        failure.watch(1, || panic!("text {}", 1));
        failure.watch(2, || panic!("later"));
        assert_eq!(Some(&(1, "text 1".to_owned())), failure.first());
    }
}
