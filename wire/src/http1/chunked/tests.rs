//! Tests of `chunked`.
