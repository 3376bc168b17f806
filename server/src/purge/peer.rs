//! The other process of an upgrade: while both serve, a purge of one is in force in both before it is reported as done. The
//! connection between them is made by the supervisor.

use larder_store::purges::PurgeRule;
use std::cell::RefCell;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The time limit for the other process to put a purge in force.
const PASSED_WITHIN: Duration = Duration::from_secs(10);

/// A purge for the other process.
pub struct PassedPurge {
    /// The rule of the purge.
    pub rule: PurgeRule,
    /// Receives whether it is certain on all tiers of that process; dropped where that process has ended.
    pub done: oneshot::Sender<bool>,
}

/// The state of a purge in the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerState {
    /// There is no other process.
    Alone,
    /// It is in force there, and certain.
    Applied,
    /// It is in force there, but may be lost with a restart; or that process does not respond.
    Uncertain,
}

/// The other process of an upgrade, while there is one.
#[derive(Default)]
pub struct PurgePeer {
    link: RefCell<Option<mpsc::UnboundedSender<PassedPurge>>>,
}

impl PurgePeer {
    /// From now on every purge also goes to the other process, through this.
    pub fn connect(&self) -> mpsc::UnboundedReceiver<PassedPurge> {
        let (link, purges) = mpsc::unbounded_channel();
        self.link.replace(Some(link));
        purges
    }

    /// The other process has ended.
    pub fn disconnect(&self) {
        self.link.take();
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.link.borrow().is_some()
    }

    /// Has the other process put a purge in force.
    pub(super) async fn pass(&self, rule: &PurgeRule) -> PeerState {
        let (done, passed) = oneshot::channel();
        let order = PassedPurge { rule: rule.clone(), done };
        let is_sent = self.link.borrow().as_ref().is_some_and(|it| it.send(order).is_ok());
        if !is_sent {
            return PeerState::Alone;
        }
        match tokio::time::timeout(PASSED_WITHIN, passed).await {
            Ok(Ok(true)) => PeerState::Applied,
            Ok(Ok(false)) | Err(_) => PeerState::Uncertain,
            Ok(Err(_)) => PeerState::Alone,
        }
    }
}
