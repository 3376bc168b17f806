//! Sockets, deadlines and connections. What a request means is not here: a [`http1::Handler`] answers.

mod answer;
pub mod body;
mod haste;
pub mod http1;
mod link;
pub mod listener;
mod outbox;
mod room;
pub mod worker;

pub use answer::Answer;
