//! The supervisor of the larder binary, as a library so that tests start a server in their own process.

mod reload;
pub mod service_manager;
mod sockets;
mod start;
mod started;
mod storage;
pub mod supervisor;
