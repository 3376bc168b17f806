//! Tables for `freshen`.
