//! The resident memory of the process: by tier and purpose. Every part is counted or measured by itself; none is a
//! remainder, so that the sum can be compared with the kernel's number. See docs/decisions/0095.

use super::Admin;
use larder_server::resident::Resident;
use larder_stdx::clock::{self, Monotonic};
use larder_transport::worker::{CONNECTION_BYTES, HTTP2_BYTES, TLS_BYTES};
use serde_json::{Value, json};
use std::cell::RefCell;

/// Milliseconds for which a measurement answers the readings of the page. The kernel visits every mapped page for one, and each
/// worker its heap: once a second, that was about a third of the time that an open page costs.
const MEASURED_FOR: u64 = 10_000;

/// The age that a measurement may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasurementAge {
    /// None: memory is measured for this request.
    Now,
    /// [`MEASURED_FOR`].
    Recent,
}

/// The last measurement as JSON, and its time.
#[derive(Default)]
pub struct MeasuredMemory(RefCell<Option<(Monotonic, Value)>>);

impl MeasuredMemory {
    /// The last measurement, if `now` it is recent.
    fn recent(&self, now: Monotonic) -> Option<Value> {
        let last = self.0.borrow();
        last.as_ref().filter(|(at, _)| now.0.saturating_sub(at.0) < MEASURED_FOR).map(|(_, it)| it.clone())
    }
}

/// The memory of one part.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryPart {
    /// Its tier, or `server`.
    pub tier: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// The resident memory, and its parts.
pub(super) struct ResidentMemory {
    /// All of it, including the arena.
    pub resident: u64,
    /// Its parts.
    pub parts: Vec<MemoryPart>,
}

impl ResidentMemory {
    /// The sum of the parts.
    pub fn attributed(&self) -> u64 {
        self.parts.iter().map(|it| it.bytes).sum()
    }

    /// `memory` of the statistics.
    pub fn json(&self) -> Value {
        let part = |it: &MemoryPart| json!({ "tier": it.tier, "purpose": it.purpose, "bytes": it.bytes });
        json!({
            "rss_bytes": self.resident,
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
            "attributed_bytes": self.attributed(),
        })
    }
}

impl Admin {
    /// `memory` of the statistics, measured now or recently.
    pub(super) async fn memory_json(&self, age: MeasurementAge) -> Value {
        let now = clock::monotonic_now();
        if age == MeasurementAge::Recent
            && let Some(it) = self.measured.recent(now)
        {
            return it;
        }
        self.heap.measure_all(self.gateway.store.used_of_heap()).await;
        let memory = self.memory().json();
        *self.measured.0.borrow_mut() = Some((now, memory.clone()));
        memory
    }

    /// The current memory of the process.
    pub(super) fn memory(&self) -> ResidentMemory {
        let part = |tier, purpose, bytes| MemoryPart { tier, purpose, bytes };
        let store = &self.gateway.store;
        let ram = store.memory();
        let disk = self.gateway.tiers.disk.as_ref().map_or((0, 0), |it| (it.memory(), it.held()));
        let (files, copies) = self.live.borrow().files();
        let (top, (history, first_history)) = (self.tops.bytes(), self.history.bytes());
        let connections = self.totals.sum_of(|it| &it.connections_open) * CONNECTION_BYTES
            + self.totals.sum_of(|it| &it.http2_open) * HTTP2_BYTES;
        let tls = self.totals.sum_of(|it| &it.tls_open) * TLS_BYTES
            + self.totals.sum_of(|it| &it.tls_waiting_bytes);
        let now = Resident::now();
        let (records, recorded) = (self.recorder.allocated(), self.recorder.bytes());
        let untouched = ram.untouched + records.saturating_sub(recorded);
        let heap = self.heap.look(now.anonymous, untouched, store.used_of_heap());
        let parts = vec![
            part("ram", "responses", ram.responses),
            part("ram", "arena", ram.arena),
            part("ram", "index", ram.index),
            part("ram", "forms", ram.encodings),
            part("ram", "fills", ram.fills),
            part("ram", "compression", ram.coders + ram.orders),
            part("disk", "index", disk.0),
            part("disk", "queue", disk.1),
            part("server", "files", files + copies),
            part("server", "overlays", self.overlays.on_heap()),
            part("server", "connections", connections),
            part("server", "tls", tls),
            part("server", "statistics", self.live.borrow().scopes.bytes()),
            part("server", "top", top),
            part("server", "history", history),
            part("server", "traces", self.traces.bytes()),
            part("server", "recent", self.recent.bytes() + recorded),
            part("server", "stream", self.stream.sum().bytes()),
            // The sketches and the recorder existed before the first request.
            part("server", "base", heap.base.saturating_sub(top + records + first_history)),
            // Memory of the threads of the disk, of files and of codecs has its own parts.
            part("server", "allocator", heap.unused.saturating_sub(disk.0 + files + ram.coders)),
            part("server", "program", now.file + heap.outside_allocator),
        ];
        // The kernel counts the pages of the arena and of copies for no process, and the mapped ones for this one: each
        // is counted once.
        ResidentMemory { resident: now.anonymous + now.file + ram.arena.max(now.shared) + copies, parts }
    }
}
