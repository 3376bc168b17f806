//! The worker threads and the handler of their requests. Everything that a request meets is in the crates below: a change here compiles
//! neither them nor `admin` again.

mod error_page;
pub mod handler;
mod local_redirect;
pub mod thread;
