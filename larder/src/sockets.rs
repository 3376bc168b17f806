//! The first phase of a start: the listening sockets of clients, one for each worker, and those of the admin. They
//! fail most often, and dropping them leaves nothing behind.

use larder_config::{AdminListen, Config};
use larder_server::addresses::OpenAddresses;
use larder_transport::listener::{self, Bound, Listen};
use std::net::SocketAddr;
use std::num::NonZeroUsize;

/// Every listening socket of the process, from whichever source.
pub struct Sockets {
    /// Those of clients.
    pub clients: OpenAddresses,
    /// The admin's address, and its Unix socket if there is one; empty where the admin is off.
    pub admin: Vec<Bound>,
}

impl Sockets {
    /// Binds the addresses of a configuration.
    ///
    /// # Errors
    /// One sentence with the address that cannot be bound.
    pub fn bind(config: &Config, workers: NonZeroUsize) -> Result<Self, String> {
        let clients = OpenAddresses::open(config, workers, &OpenAddresses::default())?;
        Ok(Self { clients, admin: bind_admin(config)? })
    }

    /// The address of the admin.
    pub fn admin_at(&self) -> Option<SocketAddr> {
        self.admin.first().and_then(Bound::tcp)
    }
}

/// The admin's address, and its Unix socket if configured; empty if the admin is off.
fn bind_admin(config: &Config) -> Result<Vec<Bound>, String> {
    // The sentence is that of a public address, with that one's flag.
    let of_admin = |sentence: String| sentence.replace("--listen", "--admin");
    let Some(first) = bind_admin_address(config).map_err(of_admin)? else { return Ok(Vec::new()) };
    let mut all = vec![first];
    if let Some(path) = &config.admin.socket {
        all.push(listener::bind_private(path).map_err(|it| it.replace("--listen", "--admin-socket"))?);
    }
    Ok(all)
}

fn bind_admin_address(config: &Config) -> Result<Option<Bound>, String> {
    match config.admin.listen {
        AdminListen::Off => Ok(None),
        AdminListen::At(address) => listener::bind_alone(&Listen::Tcp(address)).map(Some),
        AdminListen::From(address) => {
            let ports = larder_config::admin_ports(address.port());
            let mut refused = String::new();
            for port in ports {
                match listener::bind_alone(&Listen::Tcp(SocketAddr::new(address.ip(), port))) {
                    Ok(bound) => return Ok(Some(bound)),
                    Err(sentence) => refused = sentence,
                }
            }
            Err(refused)
        }
    }
}
