//! Types that the standard library lacks and every layer needs. No I/O except reading the clock.

pub mod circuit_breaker;
pub mod clock;
pub mod descriptors;
pub mod duration;
pub mod error;
pub mod html;
pub mod identity_hasher;
pub mod nearest;
mod platform;
pub mod rate_table;
pub mod secret;
pub mod size;
