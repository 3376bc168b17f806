//! Listening sockets that another process opened, and the address of the configuration that each belongs to.

use larder_transport::listener::{self, Listen, ListeningSocket, SocketFileOwner, SocketPlace};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

/// The process that opened the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketGiver {
    /// A service manager (`LISTEN_FDS`). It holds each socket while larder restarts, so each must be used, and each address
    /// for clients must have one: otherwise its connections would wait for ever, or be lost with a restart.
    ServiceManager,
    /// Earlier processes of this service, whose sockets the service manager held since. Addresses may have been added to the
    /// configuration, or removed.
    Store,
    /// The larder that this one replaces. Addresses may have been added to the configuration, or removed.
    Larder,
}

/// The requests that a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketPurpose {
    /// Those of clients.
    Clients,
    /// Those of the operator.
    Admin,
    /// Those of clients, over UDP.
    Quic,
}

impl SocketPurpose {
    /// Its name in a hand-over.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SocketPurpose::Clients => "clients",
            SocketPurpose::Admin => "admin",
            SocketPurpose::Quic => "quic",
        }
    }
}

/// A socket of the larder that this one replaces.
pub struct TransferredSocket {
    /// The descriptor of the socket.
    pub socket: OwnedFd,
    /// The requests that it was for.
    pub purpose: SocketPurpose,
    /// Its address as configured there: with port 0, the place does not tell it.
    pub configured: String,
    /// The process that removes its file.
    pub file: SocketFileOwner,
}

/// One socket.
struct InheritedSocket {
    socket: OwnedFd,
    place: SocketPlace,
    /// Its name at a service manager, or its configured address.
    name: String,
    /// `None` if either may be.
    purpose: Option<SocketPurpose>,
    file: SocketFileOwner,
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
            Ok(SocketPlace::Udp(at)) => Err(format!(
                "The socket {name:?} of the service manager cannot be used: it is the UDP port {at}, which larder binds itself; remove \
                 ListenDatagram= from its socket unit."
            )),
            Ok(place) => {
                Ok(InheritedSocket { socket, place, name, purpose: None, file: SocketFileOwner::Other })
            }
            Err(why) => Err(format!(
                "The socket {name:?} of the service manager cannot be used: it {why}; use ListenStream= with Accept=no in its socket unit."
            )),
        };
        let left = sockets.into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { giver: Some(SocketGiver::ServiceManager), left })
    }

    /// The sockets that earlier processes of this service left with the service manager.
    #[must_use]
    pub fn of_store(sockets: Vec<OwnedFd>) -> Self {
        let known = |socket: OwnedFd| match SocketPlace::of(socket.as_fd()) {
            Ok(place @ SocketPlace::Tcp(_)) => {
                let (name, purpose, file) = (String::new(), None, SocketFileOwner::Other);
                Some(InheritedSocket { socket, place, name, purpose, file })
            }
            _ => None,
        };
        Self { giver: Some(SocketGiver::Store), left: sockets.into_iter().filter_map(known).collect() }
    }

    /// The sockets of the larder that this one replaces.
    ///
    /// # Errors
    /// One sentence: one of them is no listening socket.
    pub fn of_larder(sockets: Vec<TransferredSocket>) -> Result<Self, String> {
        let known = |it: TransferredSocket| match SocketPlace::of(it.socket.as_fd()) {
            Ok(place) => {
                let (purpose, file) = (Some(it.purpose), it.file);
                Ok(InheritedSocket { socket: it.socket, place, name: it.configured, purpose, file })
            }
            Err(why) => Err(format!("A socket for {} that was handed over {why}.", it.configured)),
        };
        let left = sockets.into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { giver: Some(SocketGiver::Larder), left })
    }

    /// The sockets of an address; empty where the address is to be opened.
    ///
    /// # Errors
    /// One sentence: the service manager has none for it.
    pub fn take(&mut self, purpose: SocketPurpose, listen: &Listen) -> Result<Vec<ListeningSocket>, String> {
        let is_for = |it: &InheritedSocket| it.purpose.is_none_or(|of| of == purpose);
        let place = self.left.iter().find(|it| it.place.is_named_by(listen)).or_else(|| {
            let has_free_port =
                matches!(listen, Listen::Tcp(address) | Listen::Tls(address) if address.port() == 0);
            let is_it = |it: &&InheritedSocket| is_for(it) && it.name == listen.spelled();
            let from_larder = has_free_port && self.giver == Some(SocketGiver::Larder);
            from_larder.then(|| self.left.iter().find(is_it)).flatten()
        });
        let Some(place) = place.map(|it| it.place.clone()) else {
            return match (self.giver, purpose) {
                (Some(SocketGiver::ServiceManager), SocketPurpose::Clients) => Err(missing(listen)),
                _ => Ok(Vec::new()),
            };
        };
        let all = std::mem::take(&mut self.left);
        let (found, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.place == place);
        self.left = left;
        found.into_iter().map(|it| listener::adopt(it.socket, listen, it.file)).collect()
    }

    /// The UDP sockets of an address; empty where it is to be opened.
    pub fn take_quic(&mut self, at: SocketAddr) -> Vec<OwnedFd> {
        let all = std::mem::take(&mut self.left);
        let (found, left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| it.place == SocketPlace::Udp(at));
        self.left = left;
        found.into_iter().map(|it| it.socket).collect()
    }

    /// Checks that every socket of a socket unit found its address. The result is those of another larder that the configuration
    /// no longer names.
    ///
    /// # Errors
    /// One sentence: a socket that no address names.
    pub fn finish(self) -> Result<Vec<ListeningSocket>, String> {
        if self.giver != Some(SocketGiver::ServiceManager) {
            let adopt = |it: InheritedSocket| {
                let listen = match it.place {
                    SocketPlace::Tcp(address) => Listen::Tcp(address),
                    SocketPlace::Unix(path) => Listen::Unix(path),
                    // HTTP/3 is off now.
                    SocketPlace::Udp(_) => return None,
                };
                Some(listener::adopt(it.socket, &listen, it.file))
            };
            return self.left.into_iter().filter_map(adopt).collect();
        }
        let Some(it) = self.left.first() else { return Ok(Vec::new()) };
        let (place, name) = (&it.place, &it.name);
        let spelled = match place {
            SocketPlace::Tcp(address) | SocketPlace::Udp(address) => address.to_string(),
            SocketPlace::Unix(path) => format!("unix:{}", path.display()),
        };
        Err(format!(
            "The service manager passed a socket for {place} ({name}), which is not in listen: add {spelled:?} to listen, or \
             remove ListenStream={place} from the socket unit."
        ))
    }
}

fn missing(listen: &Listen) -> String {
    let at = match listen {
        Listen::Tcp(address) | Listen::Tls(address) => address.to_string(),
        Listen::Unix(path) => {
            std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
        }
    };
    format!(
        "The service manager passed sockets, but none for {at}, which is in listen: add ListenStream={at} to the socket unit, or \
         remove the address from listen."
    )
}
