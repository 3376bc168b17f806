//! The request machine: what happens to a request between its head and its last byte. Every caching
//! decision is made in `semantics`; this crate obeys. Sockets are in `transport`, bytes kept are in `store`.

mod along;
mod ask;
mod assemble;
pub mod below;
pub mod certificate;
pub mod change;
pub mod coding;
mod decode;
mod deliver;
mod descend;
mod disk_hit;
pub mod explain;
pub mod failing;
mod fetch;
pub mod forward;
pub mod hit;
mod judge;
mod large;
mod location;
pub mod machine;
mod pass;
mod peek;
mod pressed;
mod proposal;
mod question;
pub mod refusals;
pub mod route;
pub mod run;
pub mod stages;
mod supersede;
pub mod upgrade;
mod wait;
pub mod way;
mod websocket;

pub use below::Tiers;
pub use route::{Gateway, HashBy, HostSent, Route};
pub use run::{OriginTold, Summary};
