//! The changes of operators at run time that an upgrade hands over: overlays, and drains of origins. They are in no file, and end at a
//! restart. The old process refuses further ones from before they are sent until the upgrade has failed.

use super::message::{BrokenLink, DRAINS, HandOverMessage, MessageKind, OVERLAY};
use larder_server::live::{Live, WorkerState};
use larder_server::overlay::Overlays;
use larder_stdx::clock;
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tokio::sync::watch;

/// Those of the old process.
#[derive(Clone)]
pub struct OperatorState {
    /// The overlays.
    pub overlays: Arc<Overlays>,
    /// The configuration in force, with its origins.
    pub inbox: watch::Receiver<WorkerState>,
}

/// Those that a new process has received.
#[derive(Default)]
pub struct HandedOperatorState {
    /// The names of the drained origins.
    drains: Vec<String>,
    /// The overlays.
    overlays: Vec<Vec<u8>>,
}

impl OperatorState {
    /// Sends them.
    ///
    /// # Errors
    /// See [`BrokenLink`].
    pub fn send(&self, stream: &UnixStream) -> Result<(), BrokenLink> {
        let live = self.inbox.borrow().live.clone();
        let drained = live.scopes.origins.iter().filter(|it| it.standing.is_drained());
        let names: Vec<&str> = drained.map(|it| it.name.as_str()).collect();
        let message = |number, body| HandOverMessage { kind: MessageKind::OperatorState, number, body };
        message(DRAINS, json!(names).to_string().into_bytes()).send(stream, &[])?;
        let now = clock::monotonic_now();
        for overlay in self.overlays.in_force(now) {
            message(OVERLAY, overlay.to_bytes(now)?).send(stream, &[])?;
        }
        Ok(())
    }
}

impl HandedOperatorState {
    /// Adds those of a message.
    pub fn add(&mut self, message: HandOverMessage) {
        match message.number {
            DRAINS => self.drains = serde_json::from_slice(&message.body).unwrap_or_default(),
            OVERLAY => self.overlays.push(message.body),
            _ => {}
        }
    }

    /// Puts them in force, before a worker serves; returns a sentence for each overlay that is not set. The drain of an origin that the
    /// configuration no longer has ends, as at a reload.
    pub fn put_in_force(self, live: &Live, overlays: &Overlays) -> Vec<String> {
        for origin in live.scopes.origins.iter().filter(|it| self.drains.contains(&it.name)) {
            origin.standing.drain();
        }
        let (most, now) = (live.config.admin.overlay_size, clock::monotonic_now());
        self.overlays.into_iter().filter_map(|it| overlays.take_over(&it, most, now).err()).collect()
    }
}
