//! Listening sockets that come from another process, or go to one.

use super::{Listen, ListeningSocket, SocketFile, family, local, refused};
use socket2::{SockRef, Socket, Type};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// The address of a listening socket of another process, as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketPlace {
    /// TCP.
    Tcp(SocketAddr),
    /// UDP.
    Udp(SocketAddr),
    /// A Unix socket; its path may be relative to the folder in which it was bound.
    Unix(PathBuf),
}

impl fmt::Display for SocketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketPlace::Tcp(address) | SocketPlace::Udp(address) => address.fmt(f),
            SocketPlace::Unix(path) => path.display().fmt(f),
        }
    }
}

impl SocketPlace {
    /// The address of a socket that listens for streams, or of a UDP socket.
    ///
    /// # Errors
    /// The end of a sentence: the reason why it cannot be used.
    pub fn of(socket: BorrowedFd<'_>) -> Result<Self, String> {
        let socket = SockRef::from(&socket);
        let why = "is no socket";
        let kind = socket.r#type().map_err(|_| why.to_owned())?;
        if let (Type::DGRAM, Some(it)) = (kind, socket.local_addr().ok().and_then(|it| it.as_socket())) {
            return Ok(SocketPlace::Udp(it));
        }
        if kind != Type::STREAM || !socket.is_listener().unwrap_or(false) {
            return Err("is no socket that listens for streams".to_owned());
        }
        let address = socket.local_addr().map_err(|_| why.to_owned())?;
        match (address.as_socket(), address.as_pathname()) {
            (Some(it), _) => Ok(SocketPlace::Tcp(it)),
            (None, Some(path)) => Ok(SocketPlace::Unix(path.to_owned())),
            (None, None) => Err("listens on neither a TCP port nor a path".to_owned()),
        }
    }

    /// Whether a configured address names this place.
    #[must_use]
    pub fn is_named_by(&self, listen: &Listen) -> bool {
        let absolute = |it: &Path| std::path::absolute(it).unwrap_or_else(|_| it.to_owned());
        match (self, listen) {
            (SocketPlace::Tcp(own), Listen::Tcp(it) | Listen::Tls(it)) => *own == family::here(*it),
            (SocketPlace::Unix(own), Listen::Unix(it)) => absolute(own) == absolute(it),
            _ => false,
        }
    }
}

/// The process that removes the file of an inherited Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketFileOwner {
    /// This one.
    Larder,
    /// Another one, such as the service manager.
    Other,
}

/// Takes over a socket on which another process listened: connections that wait in its queue are served. Its file stays until
/// [`SocketHandle::own_file`], even if this process ends.
///
/// # Errors
/// One sentence.
pub fn adopt(socket: OwnedFd, listen: &Listen, file: SocketFileOwner) -> Result<ListeningSocket, String> {
    let socket = Socket::from(socket);
    let made = socket.set_nonblocking(true).and_then(|()| socket.set_cloexec(true));
    made.map_err(|it| refused(listen, &it))?;
    let (listen, file) = match listen {
        Listen::Unix(path) => match file {
            SocketFileOwner::Larder => {
                let file = SocketFile::of(path);
                file.iter().for_each(|it| it.left.store(true, Relaxed));
                (listen.clone(), file)
            }
            SocketFileOwner::Other => (listen.clone(), None),
        },
        Listen::Tcp(address) | Listen::Tls(address) => {
            // As for sockets that are bound here.
            socket.set_tcp_nodelay(true).map_err(|it| refused(listen, &it))?;
            (listen.at(local(&socket).unwrap_or(*address)), None)
        }
    };
    Ok(ListeningSocket::new(socket, listen, file))
}

/// A listening socket of this process, or one for QUIC, for as long as it is used: to be passed on to another process.
#[derive(Clone)]
pub struct SocketHandle {
    socket: Weak<OwnedFd>,
    file: Weak<SocketFile>,
}

impl SocketHandle {
    /// For a UDP socket.
    pub(crate) fn of_udp(socket: &Arc<OwnedFd>) -> Self {
        Self { socket: Arc::downgrade(socket), file: Weak::new() }
    }

    /// The socket for another process; `None` where it is closed, or no descriptor is left.
    #[must_use]
    pub fn duplicate(&self) -> Option<OwnedFd> {
        self.socket.upgrade()?.try_clone().ok()
    }

    /// Whether it is in use.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.socket.strong_count() > 0
    }

    /// The process that removes its file.
    #[must_use]
    pub fn file_owner(&self) -> SocketFileOwner {
        if self.file.upgrade().is_some() { SocketFileOwner::Larder } else { SocketFileOwner::Other }
    }

    /// This process removes its file from now on.
    pub fn own_file(&self) {
        if let Some(file) = self.file.upgrade() {
            file.left.store(false, Relaxed);
        }
    }

    /// Another process listens on it from now on, and removes its file.
    pub fn leave_file(&self) {
        if let Some(file) = self.file.upgrade() {
            file.left.store(true, Relaxed);
        }
    }
}

impl ListeningSocket {
    /// For passing it on.
    #[must_use]
    pub fn handle(&self) -> SocketHandle {
        let file = self.file.as_ref().map_or_else(Weak::new, Arc::downgrade);
        SocketHandle { socket: Arc::downgrade(&self.socket), file }
    }
}
