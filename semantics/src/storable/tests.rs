//! Tables for `storable`.
