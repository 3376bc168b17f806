//! The supervisor's part of an upgrade: the sockets to hand over, the changes in this process when another one serves, and the link
//! to a process that this one replaced. The steps with the other process are in `upgrade`.

use super::Supervisor;
use crate::ram_snapshot;
use crate::upgrade::message::BrokenLink;
use crate::upgrade::new_process::{ExpectedEnd, PredecessorLink};
use crate::upgrade::old_process::{OfferedSocket, Successor, UpgradeContext, replace};
use crate::upgrade::operator_state::OperatorState;
use crate::upgrade::purge_channel::LinkEnd;
use crate::upgrade::{SocketRow, program, purge_channel};
use larder_admin::{UPGRADE_STEP, UpgradeOrder};
use larder_config::AdminListen;
use larder_observe::log::{ErrorLog, Level};
use larder_server::inherited::SocketPurpose;
use larder_server::live::WorkerState;
use larder_server::row_purges;
use larder_server::tls::CertificateStore;
use larder_transport::listener::SocketHandle;
use serde_json::json;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// The time limit for answers of the admin after everything else is finished.
const ADMIN_CLOSE: Duration = Duration::from_secs(1);

/// The time limit for the process that replaced this one to take the report of its end.
const REPORT_END: Duration = Duration::from_secs(1);

/// An upgrade, with its order.
pub type UpgradeInProgress<'a> =
    Pin<Box<dyn Future<Output = (UpgradeOrder, Result<Successor, String>)> + 'a>>;

/// Waits for the end of an upgrade; for ever where there is none.
pub async fn end_of(
    upgrade: &mut Option<UpgradeInProgress<'_>>,
) -> (UpgradeOrder, Result<Successor, String>) {
    match upgrade {
        Some(upgrade) => upgrade.await,
        None => std::future::pending().await,
    }
}

/// The order of SIGUSR2: its outcome is in the log.
pub fn by_signal() -> UpgradeOrder {
    UpgradeOrder { within: UPGRADE_STEP, by: "SIGUSR2".to_owned(), outcome: oneshot::channel().0 }
}

impl Supervisor {
    /// Why no upgrade can begin.
    pub fn obstacle(&self, is_upgrading: bool) -> Option<String> {
        if is_upgrading {
            return Some("An upgrade is in progress.".to_owned());
        }
        if self.peer.is_connected() {
            let why = "The process that this one replaced still finishes its requests; retry when it has ended, which takes \
                       limits.drain_timeout at most.";
            return Some(why.to_owned());
        }
        program::obstacle().map(str::to_owned)
    }

    /// Has a new process take over.
    pub async fn upgrade(&self, order: UpgradeOrder) -> (UpgradeOrder, Result<Successor, String>) {
        self.upgrading.set(true);
        self.manager.reloading();
        let outcome = self.hand_over(order.within).await;
        self.upgrading.set(false);
        (order, outcome)
    }

    async fn hand_over(&self, within: Duration) -> Result<Successor, String> {
        let program = self.program.clone().ok_or("The file of the running program is unknown.")?;
        let mut offered = Vec::new();
        let addresses = self.running.orders.borrow().addresses.clone();
        for address in &addresses.streams {
            offered.extend(OfferedSocket::of(&address.handles, |file| SocketRow {
                purpose: SocketPurpose::Clients,
                configured: address.configured().spelled(),
                file,
            })?);
        }
        for port in &addresses.quic {
            offered.extend(OfferedSocket::of(&port.handles, |file| SocketRow {
                purpose: SocketPurpose::Quic,
                configured: port.configured().spelled(),
                file,
            })?);
        }
        let config = self.running.orders.borrow().live.config.clone();
        // The first is that of `admin.listen`; a path is known by itself.
        let listen = match config.admin.listen {
            AdminListen::At(address) | AdminListen::From(address) => address.to_string(),
            AdminListen::Off => String::new(),
        };
        for (handle, configured) in self.admin_sockets.iter().zip([listen, String::new()]) {
            let row =
                |file| SocketRow { purpose: SocketPurpose::Admin, configured: configured.clone(), file };
            offered.extend(OfferedSocket::of(std::slice::from_ref(handle), row)?);
        }
        let means = UpgradeContext {
            store: self.running.shared.store.clone(),
            disk: self.running.shared.lower.disk(),
            purge_queue: self.running.purge_queue.clone(),
            peer: self.peer.clone(),
            ram: match config.fleet {
                None => Ok(config.key_settings),
                Some(_) => Err(ram_snapshot::OF_FLEET),
            },
            tls: self.running.certificates.borrow().as_ref().map(CertificateStore::tls),
            addresses,
            operator: OperatorState {
                overlays: self.running.shared.overlays.clone(),
                inbox: self.running.orders.subscribe(),
            },
        };
        // A change of an operator would be lost from here on, and a log of database changes has one reader.
        let pause = || {
            self.is_replaced.set(true);
            self.followed.take().iter().for_each(tokio::task::JoinHandle::abort);
        };
        replace(&means, program, offered, within, pause).await
    }

    /// Another process serves: this one has no files of its own any more, and its listeners close.
    pub fn upgraded(&self, order: UpgradeOrder, successor: Successor) {
        let addresses = self.running.orders.borrow().addresses.clone();
        let of_clients = addresses.streams.iter().flat_map(|it| &it.handles);
        of_clients.chain(&self.admin_sockets).for_each(SocketHandle::leave_file);
        self.running.run_file.take();
        self.manager.replaced(successor.process, &self.status());
        let process = successor.process.to_string();
        let values = [("process", &*process), ("version", &*successor.version), ("because", &*order.by)];
        self.running.errors.event(Level::Info, "upgraded", &values);
        let answer = json!({
            "process": successor.process,
            "version": successor.version,
            "replaced": std::process::id(),
        });
        let _ = order.outcome.send(Ok(answer));
        let (errors, link) = (self.running.errors.clone(), successor.link);
        self.successor.replace(Some(tokio::task::spawn_local(async move {
            if let Ok(LinkEnd::Broken(why)) = link.await {
                let now = "this process finishes its requests and ends; none accepts connections until larder is started again";
                let values = [("process", &*process), ("why", &*why.sentence()), ("now", now)];
                errors.event(Level::Error, "successor-ended", &values);
            }
        })));
        self.running.shared.stream.close();
        if let Some(worker) = &*self.admin_worker.borrow() {
            worker.leave_queues();
            worker.drain(ADMIN_CLOSE);
        }
    }

    /// This process continues to serve.
    pub fn upgrade_failed(&self, order: UpgradeOrder, why: String) {
        let values = [("why", &*why), ("because", &*order.by), ("now", "this process continues to serve")];
        self.running.errors.event(Level::Error, "upgrade-failed", &values);
        let _ = order.outcome.send(Err(why));
    }

    /// Waits for the last answers of the admin, and reports to the new process that this one ends in order.
    pub async fn end_replaced(&self) {
        self.close_admin().await;
        self.peer.disconnect();
        if let Some(link) = self.successor.take() {
            // It may not read any more.
            let _ = tokio::time::timeout(REPORT_END, link).await;
        }
    }

    /// Waits for the last answers of the admin.
    async fn close_admin(&self) {
        let worker = self.admin_worker.borrow().clone();
        if let Some(worker) = worker {
            let _ = tokio::time::timeout(ADMIN_CLOSE, worker.drained()).await;
        }
    }

    /// Follows the databases of the configuration, from now on.
    pub fn follow_databases(&self, inbox: &watch::Receiver<WorkerState>) {
        let running = &self.running;
        let (purge_queue, errors, own) =
            (running.purge_queue.clone(), running.errors.clone(), running.shared.own.clone());
        let (standings, nodes) = (self.standings.clone(), self.nodes.clone());
        let follow = row_purges::follow_databases(inbox.clone(), purge_queue, errors, own, standings, nodes);
        if let Some(earlier) = self.followed.replace(Some(tokio::task::spawn_local(follow))) {
            earlier.abort();
        }
    }

    /// Leaves the listening sockets of that time with the service manager. To be called in the process that it knows as the service.
    pub fn storing(&self) -> impl Fn() + use<> {
        let (manager, orders) = (self.manager.clone(), self.running.orders.subscribe());
        let of_admin = self.admin_sockets.clone();
        move || {
            let addresses = orders.borrow().addresses.clone();
            let of_clients = addresses.streams.iter().flat_map(|it| &it.handles);
            manager.store_sockets(of_clients.chain(&of_admin));
        }
    }

    /// Exchanges purges with the process that this one replaces, until that ends. Within a `LocalSet`.
    pub fn join_predecessor(&self, predecessor: Option<PredecessorLink>) {
        let Some(PredecessorLink { stream, end: expected }) = predecessor else { return };
        let purges = self.peer.connect();
        let link = purge_channel::start(stream, purges, self.running.purge_queue.clone(), None);
        let (peer, store, errors) =
            (self.peer.clone(), self.running.shared.store.clone(), self.running.errors.clone());
        let shared = store.clone();
        let opening = std::thread::Builder::new().name("arena".to_owned());
        // Without a thread the arena stays as it is, and takes no new bodies.
        let _ = opening.spawn(move || shared.open_inherited_arena());
        let store_sockets = self.storing();
        tokio::task::spawn_local(async move {
            let end = match link {
                Ok(link) => link.await.unwrap_or(LinkEnd::Finished),
                Err(_) => LinkEnd::Finished,
            };
            peer.disconnect();
            store.set_peer(false);
            log_end(&errors, expected, &end);
            // It has reported this process long ago; messages of another than the service count for nothing.
            store_sockets();
        });
    }
}

/// Logs the end of the replaced process.
fn log_end(errors: &ErrorLog, expected: ExpectedEnd, end: &LinkEnd) {
    let why = match (expected, end) {
        (ExpectedEnd::Crashed, _) => return,
        (ExpectedEnd::Unreported, _) | (_, LinkEnd::Finished) => {
            return errors.event(Level::Info, "predecessor-ended", &[]);
        }
        (ExpectedEnd::Reported, LinkEnd::Broken(BrokenLink::Ended)) => {
            "the replaced process ended before it had finished its requests".to_owned()
        }
        (ExpectedEnd::Reported, LinkEnd::Broken(why)) => format!("the replaced process {}", why.sentence()),
    };
    let now = "this process serves; the requests that the other one still had are cut";
    errors.event(Level::Warn, "predecessor-crashed", &[("why", &why), ("now", now)]);
}
