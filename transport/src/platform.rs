//! The differences between operating systems in sending: a file without a copy, and the announcement that more bytes follow. The order of
//! sends is in `outbox`.

#[cfg(target_os = "linux")]
pub(crate) use linux::{MORE_FOLLOWS, send_range};
#[cfg(not(target_os = "linux"))]
pub(crate) use plain::{MORE_FOLLOWS, send_range};

#[cfg(target_os = "linux")]
mod linux {
    use rustix::io::Errno;
    use rustix::net::SendFlags;
    use std::os::fd::BorrowedFd;

    /// Other bytes of the same response follow at once: the kernel waits for them before it sends a short packet.
    pub(crate) const MORE_FOLLOWS: SendFlags = SendFlags::MORE;

    /// Sends up to `most` bytes of a file from `offset`, and returns their number: 0 at the end of the file.
    pub(crate) fn send_range(
        socket: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        mut offset: u64,
        most: usize,
    ) -> Result<usize, Errno> {
        rustix::fs::sendfile(socket, file, Some(&mut offset), most)
    }
}

#[cfg(not(target_os = "linux"))]
mod plain {
    use rustix::io::Errno;
    use rustix::net::SendFlags;
    use std::os::fd::BorrowedFd;

    /// Bytes of a file that are copied at once.
    const READ: usize = 64 * 1024;

    /// There is no such flag: the kernel sends what it has.
    pub(crate) const MORE_FOLLOWS: SendFlags = SendFlags::empty();

    /// Sends up to `most` bytes of a file from `offset`, and returns their number: 0 at the end of the file. They are copied, since each
    /// system has another `sendfile`.
    pub(crate) fn send_range(
        socket: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        most: usize,
    ) -> Result<usize, Errno> {
        let mut bytes = vec![0; most.min(READ)];
        let count = rustix::io::pread(file, &mut bytes[..], offset)?;
        if count == 0 {
            return Ok(0);
        }
        rustix::net::send(socket, &bytes[..count], SendFlags::NOSIGNAL)
    }
}
