//! What runs in a worker and beside it: the handler of requests, routes, live settings, overlays, purges, the other nodes.
//! The main thread, its signals and its reloads are in `larder`; what a configuration may say is in `larder_config`.

pub mod descriptors;
pub mod files;
pub mod front;
pub mod health;
pub mod itself;
pub mod nodes;
pub mod overlay;
pub mod purge;
pub mod quiet;
pub mod reload;
pub mod resident;
pub mod router;
pub mod scopes;
pub mod tiers;
pub mod tls;
pub mod totals;
pub mod worker;
pub mod wrong;
