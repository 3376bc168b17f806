//! Whole-server scenarios: the real binary, over real sockets, before a byte-exact scriptable origin.

#[allow(dead_code, reason = "a harness offers more than every scenario uses")]
mod harness;
mod scenarios;
