//! An upgrade: a running larder starts the binary that is on disk now, and hands everything over to it. See
//! docs/decisions/0197-upgrade.md.
//!
//! ```text
//! old                                   new
//!  start it ───── Offer, Sockets ──────▶ reads the configuration, opens all but the disk tier
//!              ◀───────── Ready ─────────
//!  lends its arena ─────── Arena ──────▶ uses the large bodies in it
//!  sends the RAM tier ──── Ram … ──────▶ fills its own
//!  stops following databases,
//!  closes the disk tier ─ TicketKeys ──▶ continues with them
//!                      ── QuicSockets ─▶ passes packets of older connections on
//!  refuses changes ─── OperatorState ──▶ has the overlays and drains
//!  passes purges on ─────── Switch ────▶ opens the disk tier, starts its workers
//!  stops accepting, drains ◀─ Serving ──
//!           ◀──────── purges of either ────────▶
//!  ends ──────────────── Finished ─────▶ reports a crash if the connection ends without it
//! ```
//!
//! Until `Serving` the old process takes everything back if the new one fails.

pub mod fault_injection;
pub mod message;
pub mod new_process;
pub mod old_process;
pub mod operator_state;
pub mod program;
pub mod purge_channel;
mod quic;
pub mod ram;
pub mod switched_state;

use larder_server::inherited::SocketPurpose;
use larder_transport::listener::SocketFileOwner;

/// The variable with the process id of the larder that is to be replaced.
const STARTED_BY: &str = "LARDER_UPGRADE_OF";

/// In the message `Offer`: whether the message `Finished` comes before the old process ends. Absent in releases that do not send it.
const REPORTS_END: &str = "reports_end";

/// In the message `Ready`: whether the RAM tier is to be sent. Another version may not know it.
const ASKS_FOR_RAM: &str = "ram";
/// The versions of the RAM tier's stream that it reads: numbers. Absent in releases that read the first only.
const READS_VERSIONS: &str = "ram_versions";
/// The same for the arena.
const ASKS_FOR_ARENA: &str = "arena";
/// The same for the keys of TLS tickets.
const ASKS_FOR_TICKET_KEYS: &str = "ticket_keys";

/// The same for the packets of HTTP/3 connections that the old process finishes.
const ASKS_FOR_QUIC: &str = "quic";

/// The same for overlays and the drains of operators.
const ASKS_FOR_OPERATOR_STATE: &str = "operator_state";

/// The description of a socket that is handed over.
pub struct SocketRow {
    /// The requests that it is for.
    pub purpose: SocketPurpose,
    /// Its address as configured.
    pub configured: String,
    /// The process that removes its file.
    pub file: SocketFileOwner,
}
