//! The command line, and every command that contacts a running larder or needs none. The server is not here.

#![warn(clippy::print_stdout, clippy::print_stderr)] // They panic if the reader of the output has gone.

pub mod admin_client;
pub mod advice;
pub mod arguments;
pub mod audit;
pub mod bench;
pub mod certificates;
pub mod cli;
pub mod demo;
pub mod explain;
mod json;
pub mod login;
pub mod maintenance;
pub mod nodes;
pub mod objects;
pub mod origin;
pub mod overlay;
pub mod purge;
pub mod sign;
pub mod stats;
pub mod tail;
pub mod terminal;
pub mod top;
pub mod trace;
pub mod trial;
pub mod upgrade;
pub mod warm;
pub mod worst;
