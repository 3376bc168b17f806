//! The supervisor of the larder binary, as a library so that tests start a server in their own process.

#![warn(clippy::print_stdout, clippy::print_stderr)] // They panic if the reader of the output has gone.

pub mod inheritance;
pub mod landlock_rules;
mod privileges;
mod ram_snapshot;
mod reload;
mod sandbox;
mod seccomp;
mod service_manager;
mod sockets;
mod start;
mod started;
mod storage;
pub mod supervisor;
mod upgrade;
