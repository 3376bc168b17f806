//! The HTTP/1.1 server connection: reads heads, answers at two speeds, writes once per batch.
//!
//! The fast speed is `Handler::answer_now`, called inside the read loop; requests that it declines go to
//! `Handler::answer`, which is async and holds the connection until it is done.
//!
//! ```text
//! connection ── turn ──┬── answer_now … answer_now ── one write ──┐
//!     ^                └── answer (RequestBody, Reply) ───────────┤
//!     └───────────────── next request ────────────────────────────┴── close
//! ```

mod connection;
mod reply;
mod request_body;
mod tunnel;

pub(crate) use connection::{serve, turn_away};
pub(crate) use reply::Http1Reply;
pub(crate) use request_body::Http1RequestBody;
pub(crate) use tunnel::Http1Tunnel;
