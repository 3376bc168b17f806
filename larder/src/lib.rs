//! The modules of the larder binary: command line, configuration, logs, the server, and the demo site.

pub mod ask;
pub mod bench;
pub mod cli;
pub mod demo;
pub mod explain;
pub mod login;
pub mod objects;
pub mod origin;
pub mod overlay;
pub mod purge;
pub mod server;
pub mod stats;
pub mod tail;
pub mod terminal;
pub mod top;
pub mod trace;
pub mod warm;
