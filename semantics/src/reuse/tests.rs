//! Tables for `reuse`.
