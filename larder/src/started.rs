//! What a start leaves behind it for others: the first line of the error log, and the run file.

use larder_config::plan::Plan;
use larder_config::run_file::{self, RunFile};
use larder_config::token::TokenPlace;
use larder_observe::log::{ErrorLog, Level};
use larder_server::live::Orders;
use larder_transport::listener::{Bound, Listen};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use tokio::sync::watch;

/// The first line of the error log: the version, where the configuration is from, and every address.
pub fn tell(errors: &ErrorLog, plan: &Plan, public: &[String], admin: &[Bound], workers: NonZeroUsize) {
    let file = plan.file().map_or("flags".to_owned(), |it| it.display().to_string());
    let admin: Vec<String> = admin.iter().map(Bound::to_string).collect();
    let admin = if admin.is_empty() { "off".to_owned() } else { admin.join(",") };
    let (version, listen, workers) = (env!("CARGO_PKG_VERSION"), public.join(","), workers.to_string());
    let values = [
        ("version", version),
        ("configuration", &file),
        ("listen", &listen),
        ("admin", &admin),
        ("workers", &workers),
    ];
    errors.event(Level::Info, "started", &values);
}

/// The file by which the commands of this machine find the admin. Without it they need its address.
pub fn write_run_file(
    errors: &ErrorLog,
    plan: &Plan,
    public: &[String],
    admin_at: Option<SocketAddr>,
    orders: &watch::Sender<Orders>,
    kept: &TokenPlace,
) -> Option<RunFile> {
    let socket = orders.borrow().live.config.admin.socket.clone();
    let mut admin = vec![Listen::Tcp(run_file::reachable(admin_at?))];
    admin.extend(socket.map(|it| Listen::Unix(std::path::absolute(&it).unwrap_or(it))));
    match run_file::write(&admin, public, plan.file().as_deref(), kept) {
        Ok(file) => file,
        Err(why) => {
            errors.event(Level::Warn, "run-file-missing", &[("why", &why)]);
            None
        }
    }
}
