//! The components in and around a worker: the request handler, routes, live settings, overlays, purges, the other nodes.
//! The main thread, its signals and its reloads are in `larder`; the configuration is in `larder_config`.

pub mod access;
pub mod addresses;
pub mod admission;
pub mod cluster;
pub mod config_watch;
pub mod connect_check;
pub mod counter_sum;
pub mod descriptors;
pub mod error_page;
pub mod files;
pub mod finish;
pub mod geo;
pub mod handler;
pub mod health;
pub mod inherited;
pub mod input_error;
pub mod live;
pub mod loop_check;
pub mod overlay;
pub mod own_answer;
pub mod purge;
pub mod purge_receipt;
pub mod quiet;
pub mod resident;
pub mod route_admission;
pub mod route_stats;
pub mod router;
pub mod row_freshness;
pub mod row_purges;
pub mod site_logs;
pub mod site_tls;
mod sql;
pub mod tiers;
pub mod tls;
pub mod worker;
pub mod worker_failure;
