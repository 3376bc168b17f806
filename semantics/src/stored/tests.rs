//! Tables for `stored`.
