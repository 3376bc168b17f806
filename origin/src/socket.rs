//! An open socket to an origin, of either family. `dial` opens it, `connection` uses it.

use socket2::SockRef;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connection's socket.
pub(crate) enum RawSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl RawSocket {
    /// Calls `deed` with it as a socket of the system.
    pub(crate) fn as_socket<T>(&self, deed: impl FnOnce(SockRef<'_>) -> T) -> T {
        match self {
            RawSocket::Tcp(it) => deed(SockRef::from(it)),
            RawSocket::Unix(it) => deed(SockRef::from(it)),
        }
    }
}

/// Reads and writes through either of two variants.
macro_rules! through_either {
    ($name:ident: $one:ident, $other:ident) => {
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $name::$one(it) => Pin::new(it).poll_read(cx, buffer),
                    $name::$other(it) => Pin::new(it).poll_read(cx, buffer),
                }
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $name::$one(it) => Pin::new(it).poll_write(cx, bytes),
                    $name::$other(it) => Pin::new(it).poll_write(cx, bytes),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $name::$one(it) => Pin::new(it).poll_write_vectored(cx, slices),
                    $name::$other(it) => Pin::new(it).poll_write_vectored(cx, slices),
                }
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $name::$one(it) => Pin::new(it).poll_flush(cx),
                    $name::$other(it) => Pin::new(it).poll_flush(cx),
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $name::$one(it) => Pin::new(it).poll_shutdown(cx),
                    $name::$other(it) => Pin::new(it).poll_shutdown(cx),
                }
            }
        }
    };
}

through_either!(RawSocket: Tcp, Unix);

pub(crate) use through_either;
