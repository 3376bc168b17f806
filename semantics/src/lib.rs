//! RFC 9110/9111 decisions, one file per section. Pure: no I/O, no clock, no allocation on the path of a hit. The server,
//! `explain` and the tests run these same functions.

pub mod accept;
pub mod cache_control;
pub mod cache_rule;
pub mod cache_status;
pub mod captures;
pub mod client_ttl;
pub mod coding;
pub mod compress;
pub mod conditional;
pub mod cookies;
pub mod date;
pub mod entity_tag;
mod escape;
pub mod expression;
pub mod field;
pub mod flip;
pub mod forwarded;
pub mod freshen;
pub mod freshness;
pub mod geo;
pub mod invalidate;
pub mod key;
pub mod method;
pub mod network;
pub mod partial;
pub mod path;
pub mod pattern;
pub mod policy;
pub mod purged;
pub mod query;
pub mod range;
pub mod rate;
pub mod request;
pub mod request_fields;
pub mod request_view;
pub mod reuse;
pub mod rewrite;
pub mod scheme;
pub mod secret;
pub mod sticky;
pub mod storable;
pub mod stored;
pub mod supersede;
pub mod tags;
pub mod target;
pub mod targeted;
pub mod template;
pub mod tiers;
pub mod told_target;
pub mod trace;
pub mod transcode;
pub mod validator;
pub mod vary;

#[cfg(test)]
mod testing;
