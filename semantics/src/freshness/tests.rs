//! Tables for `freshness`.
