//! Tables for `targeted`.
