//! The first phase of a start: the listening sockets of clients, one for each worker, and those of the admin, each from
//! another process or bound here. They fail most often, and dropping them leaves nothing behind.

use larder_config::{AdminListen, Config};
use larder_server::addresses::OpenAddresses;
use larder_server::inherited::{InheritedSockets, SocketPurpose};
use larder_transport::listener::{self, Listen, ListeningSocket, SocketHandle};
use std::net::SocketAddr;
use std::num::NonZeroUsize;

/// Every listening socket of the process, from whichever source.
pub struct Sockets {
    /// Those of clients.
    pub clients: OpenAddresses,
    /// The admin's address, and its Unix socket if there is one; empty where the admin is off.
    pub admin: Vec<ListeningSocket>,
    /// Those of a larder that is replaced, for addresses that the configuration no longer names.
    pub unnamed: Vec<ListeningSocket>,
}

impl Sockets {
    /// Takes the addresses of a configuration from `given`, and binds those that are not there.
    ///
    /// # Errors
    /// One sentence with the address that cannot be bound, or with the socket that has no address.
    pub fn open(config: &Config, workers: NonZeroUsize, mut given: InheritedSockets) -> Result<Self, String> {
        let clients = OpenAddresses::inherit(config, workers, &mut given)?;
        let admin = open_admin(config, &mut given)?;
        Ok(Self { clients, admin, unnamed: given.finish()? })
    }

    /// All of them, for their files.
    pub fn handles(&self) -> Vec<SocketHandle> {
        let clients = self.clients.streams.iter().flat_map(|it| it.handles.clone());
        clients.chain(self.admin.iter().chain(&self.unnamed).map(ListeningSocket::handle)).collect()
    }

    /// The address of the admin.
    pub fn admin_at(&self) -> Option<SocketAddr> {
        self.admin.first().and_then(ListeningSocket::tcp)
    }
}

/// The admin's address, and its Unix socket if configured; empty if the admin is off.
fn open_admin(config: &Config, given: &mut InheritedSockets) -> Result<Vec<ListeningSocket>, String> {
    // The sentence is that of a public address, with that one's flag.
    let of_admin = |sentence: String| sentence.replace("--listen", "--admin");
    let mut all = open_admin_address(config, given).map_err(of_admin)?;
    if let (false, Some(path)) = (all.is_empty(), &config.admin.socket) {
        match given.take(SocketPurpose::Admin, &Listen::Unix(path.clone()))? {
            none if none.is_empty() => {
                let bound = listener::bind_private(path);
                all.push(bound.map_err(|it| it.replace("--listen", "--admin-socket"))?);
            }
            some => all.extend(some),
        }
    }
    Ok(all)
}

fn open_admin_address(config: &Config, given: &mut InheritedSockets) -> Result<Vec<ListeningSocket>, String> {
    let candidates = match config.admin.listen {
        AdminListen::Off => return Ok(Vec::new()),
        AdminListen::At(address) => vec![address],
        AdminListen::From(address) => {
            larder_config::admin_ports(address.port()).map(|it| SocketAddr::new(address.ip(), it)).collect()
        }
    };
    for address in &candidates {
        let found = given.take(SocketPurpose::Admin, &Listen::Tcp(*address))?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let mut refused = String::new();
    for address in candidates {
        match listener::bind_alone(&Listen::Tcp(address)) {
            Ok(bound) => return Ok(vec![bound]),
            Err(sentence) => refused = sentence,
        }
    }
    Err(refused)
}
