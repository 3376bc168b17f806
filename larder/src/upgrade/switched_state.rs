//! The state that a new process has of the old one at the switch, but for sockets and RAM.

use super::operator_state::HandedOperatorState;
use larder_store::purges::{PurgeRule, Seq};
use larder_transport::http3::QuicHandOver;

/// The state of the old process at the switch.
#[derive(Default)]
pub struct SwitchedState {
    /// Its purges.
    pub purges: HandedPurges,
    /// Its keys of TLS tickets; `None` if it has sent none.
    pub ticket_keys: Option<Vec<u8>>,
    /// Its HTTP/3 connections.
    pub quic: Vec<QuicHandOver>,
    /// Its overlays and drains.
    pub operator: HandedOperatorState,
}

/// The purges in force in the old process.
#[derive(Default)]
pub struct HandedPurges {
    /// The last number.
    pub last: Seq,
    /// Each purge with its number.
    pub rules: Vec<(Seq, PurgeRule)>,
}
