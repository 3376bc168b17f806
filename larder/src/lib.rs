//! The modules of the larder binary: command line, configuration, logs and the demo site.

pub mod cli;
pub mod config;
pub mod demo;
pub mod log;
