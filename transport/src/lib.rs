//! Sockets, deadlines and connections. The meaning of requests is not here: a [`Handler`] answers.

mod alternative;
#[cfg(target_os = "linux")]
pub mod beneath;
pub mod body;
mod body_length;
mod client;
mod client_demand;
mod client_socket;
mod eager_read;
pub mod finish;
pub mod future_pool;
mod handler;
mod http1;
mod http2;
pub mod http3;
pub mod http_client;
pub mod listener;
mod outbox;
mod platform;
mod proxy_protocol;
mod response_writer;
mod streams;
mod synthetic;
pub mod tls;
mod transfer_rate;
mod unread_bytes;
pub mod worker;

pub use alternative::AlternativeService;
pub use body_length::ResponseBody;
pub use client::Client;
pub use client_demand::ClientDemand;
pub use client_socket::ClientGone;
pub use handler::{AnswerNow, Handler, Reply, RequestBody, Tunnel};
pub use proxy_protocol::MissingPreamble;
pub use response_writer::ResponseWriter;
pub use synthetic::{NO_RESPONSE, PLAIN_TEXT, ReadySynthetic, Synthetic, SyntheticSent};
