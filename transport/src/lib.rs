//! Sockets, deadlines and connections. What a request means is not here: a [`Handler`] answers.

mod answer;
pub mod body;
mod handler;
mod haste;
mod http1;
mod http2;
mod introduction;
mod link;
pub mod listener;
mod outbox;
mod rest;
pub mod room;
pub mod tls;
pub mod worker;

pub use answer::Answer;
pub use handler::{Client, Handler, Now, Reply, RequestBody, ResponseBody, Room, Tunnel};
pub use introduction::Unintroduced;
pub use link::ClientGone;
