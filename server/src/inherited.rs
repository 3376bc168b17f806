//! Listening sockets that another process opened for this one, and the address of the configuration that each belongs to.

use larder_transport::listener::{self, Bound, Listen, SocketFileOwner, SocketPlace};
use std::os::fd::{AsFd as _, OwnedFd};

/// The process that opened the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketGiver {
    /// A service manager (`LISTEN_FDS`). It holds each socket while larder restarts, so each must be used, and each address
    /// for clients must have one: otherwise its connections would wait for ever, or be lost with a restart.
    ServiceManager,
}

/// One socket.
struct InheritedSocket {
    socket: OwnedFd,
    place: SocketPlace,
    /// Its name at the giver.
    name: String,
}

/// Sockets that belong to no address yet.
pub struct InheritedSockets {
    giver: Option<SocketGiver>,
    left: Vec<InheritedSocket>,
}

impl InheritedSockets {
    /// No socket: every address is opened.
    #[must_use]
    pub fn none() -> Self {
        Self { giver: None, left: Vec::new() }
    }

    /// The sockets of a service manager, with their names.
    ///
    /// # Errors
    /// One sentence: one of them cannot be used.
    pub fn of_service_manager(sockets: Vec<(OwnedFd, String)>) -> Result<Self, String> {
        let known = |(socket, name): (OwnedFd, String)| match SocketPlace::of(socket.as_fd()) {
            Ok(place) => Ok(InheritedSocket { socket, place, name }),
            Err(why) => Err(format!(
                "The socket {name:?} of the service manager cannot be used: it {why}; use ListenStream= with Accept=no in its socket unit."
            )),
        };
        let left = sockets.into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { giver: Some(SocketGiver::ServiceManager), left })
    }

    /// The sockets of an address for clients; empty where the address is to be opened.
    ///
    /// # Errors
    /// One sentence: the service manager has none for it.
    pub fn take(&mut self, listen: &Listen) -> Result<Vec<Bound>, String> {
        let found = self.take_any(listen)?;
        match self.giver {
            Some(SocketGiver::ServiceManager) if found.is_empty() => {
                let at = spelled(listen);
                Err(format!(
                    "The service manager passed sockets, but none for {at}, which is in listen: add ListenStream={at} to the socket \
                     unit, or remove the address from listen."
                ))
            }
            _ => Ok(found),
        }
    }

    /// The same for an address that larder opens itself where there is no socket for it.
    ///
    /// # Errors
    /// One sentence.
    pub fn take_any(&mut self, listen: &Listen) -> Result<Vec<Bound>, String> {
        let all = std::mem::take(&mut self.left);
        let (found, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.place.is_named_by(listen));
        self.left = left;
        found.into_iter().map(|it| listener::adopt(it.socket, listen, SocketFileOwner::Other)).collect()
    }

    /// Checks that every socket found its address.
    ///
    /// # Errors
    /// One sentence: a socket that no address names.
    pub fn finish(self) -> Result<(), String> {
        let Some(it) = self.left.first() else { return Ok(()) };
        let (place, name) = (&it.place, &it.name);
        let spelled = match place {
            SocketPlace::Tcp(address) => address.to_string(),
            SocketPlace::Unix(path) => format!("unix:{}", path.display()),
        };
        Err(format!(
            "The service manager passed a socket for {place} ({name}), which is not in listen: add {spelled:?} to listen, or \
             remove ListenStream={place} from the socket unit."
        ))
    }
}

/// An address as `ListenStream` spells it.
fn spelled(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) | Listen::Tls(address) => address.to_string(),
        Listen::Unix(path) => {
            std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
        }
    }
}
