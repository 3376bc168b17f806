//! Two machines: the life of a request from its head to its last byte (`request`), and of a fetch (`fill`). Every caching
//! decision is made in `semantics`, and this crate obeys. `transport` has the sockets, `store` the bytes.

mod application;
mod assemble;
pub mod buffered;
mod cache_key;
mod cache_rules;
pub mod client_cert;
pub mod coding;
mod drawing;
mod encoding_choice;
pub mod explain;
pub mod fast_path;
mod fast_path_disk;
pub mod file_orders;
pub mod fill;
mod location;
mod lower_tiers;
pub mod miss_budget;
pub mod own_page;
pub mod protocol_upgrade;
mod recent_failures;
mod removed_cookies;
pub mod request;
mod request_cookies;
pub mod request_headers;
pub mod request_id;
mod revalidation_pauses;
pub mod rewrite;
pub mod route;
mod served_part;
mod set_cookie;
pub mod shared;
pub mod source;
pub mod stages;
mod tier_transfer;
mod transit;
pub mod trusted_headers;
pub mod unstored_responses;
mod upload;
mod websocket;

pub use fill::{OriginFacts, RecordedAnswer};
pub use lower_tiers::LowerTiers;
pub use request::{GatewayEnd, LocalRedirect, RequestSummary};
pub use route::{Gateway, GatewayRoute, HashBy, HostSent};
