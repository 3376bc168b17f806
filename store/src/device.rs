//! Calls to the device of the disk tier and of the spool: the system calls, and the threads that wait for them.

pub mod pool;
pub(crate) mod syscalls;
#[cfg(test)]
pub(crate) mod tests;
