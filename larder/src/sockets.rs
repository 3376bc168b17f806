//! The first phase of a start: the listening sockets of clients, one set for each worker, and those of the admin. They
//! fail most often, and dropping them leaves nothing behind.

use larder_config::{AdminListen, Config};
use larder_transport::listener::{self, Bound, Listen};
use std::net::SocketAddr;
use std::num::NonZeroUsize;

/// Every listening socket of the process, from whichever source.
pub struct Sockets {
    /// Those of each worker.
    pub workers: Vec<Vec<Bound>>,
    /// The admin's address, and its Unix socket if there is one; empty where the admin is off.
    pub admin: Vec<Bound>,
}

impl Sockets {
    /// Binds the addresses of a configuration.
    ///
    /// # Errors
    /// One sentence with the address that cannot be bound.
    pub fn bind(config: &Config, workers: NonZeroUsize) -> Result<Self, String> {
        Ok(Self { workers: bind_all(config, workers)?, admin: bind_admin(config)? })
    }

    /// The clients' addresses, for display.
    pub fn public(&self) -> Vec<String> {
        self.workers.first().into_iter().flatten().map(Bound::to_string).collect()
    }

    /// The address of the admin.
    pub fn admin_at(&self) -> Option<SocketAddr> {
        self.admin.first().and_then(Bound::tcp)
    }
}

/// One set of listening sockets for each worker: `SO_REUSEPORT` spreads connections over them.
fn bind_all(config: &Config, workers: NonZeroUsize) -> Result<Vec<Vec<Bound>>, String> {
    let mut first = Vec::new();
    for entrance in &config.listen {
        first.push(listener::bind(&entrance.at)?.after(entrance.preamble));
    }
    let mut all = Vec::new();
    for _ in 1..workers.get() {
        let set: Result<Vec<Bound>, String> = first.iter().map(Bound::another).collect();
        all.push(set?);
    }
    all.insert(0, first);
    Ok(all)
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
