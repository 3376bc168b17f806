//! Tables for `cache_control`.
