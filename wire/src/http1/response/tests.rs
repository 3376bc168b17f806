//! Tests of `response`.
