//! The request machine: what happens to a request between its head and its last byte. Every caching
//! decision is made in `semantics`; this crate obeys. Sockets are in `transport`, bytes kept are in `store`.

mod assemble;
pub mod certificate;
pub mod change;
pub mod coding;
mod decode;
mod deliver;
pub mod explain;
pub mod failing;
pub mod fast_path;
mod fast_path_disk;
mod fetch;
mod fill_reader;
mod large;
mod location;
pub mod lower_tiers;
pub mod machine;
mod origin_pressure;
mod origin_request;
mod pass;
mod peek;
mod proposal;
pub mod refusals;
pub mod request_headers;
mod revalidate;
pub mod route;
pub mod run;
pub mod stages;
mod storability;
mod supersede;
mod tier_lookup;
pub mod trusted_headers;
pub mod upgrade;
mod wait;
mod websocket;

pub use lower_tiers::LowerTiers;
pub use route::{Gateway, GatewayRoute, HashBy, HostSent};
pub use run::{OriginTold, RequestSummary};
