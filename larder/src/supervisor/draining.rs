//! The end of a server: its workers finish their requests within a time limit, then logs are closed and RAM is saved. The end of a
//! process that was replaced is in `upgrading`.

use super::{Stopped, Supervisor};
use crate::ram_snapshot;
use larder_admin::{Admin, HistoryEnd};
use larder_observe::log::{Closed, Level};
use larder_server::live::DrainReason;
use std::rc::Rc;
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;

/// The time limit of the drain after a worker failed: its clients have lost their connections, and nothing listens until
/// the service manager has started larder again.
const FAILURE_DRAIN: Duration = Duration::from_secs(1);
/// The time limit for writing the logs at the stop.
const LOG_CLOSE: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Lets the workers finish, within a time limit.
    pub async fn drain(
        self,
        threads: Vec<ThreadHandle<()>>,
        admin: Option<Rc<Admin>>,
        reason: DrainReason,
    ) -> Result<(), Stopped> {
        let failure = self.running.shared.failure.clone();
        let mut deadline = self.running.orders.borrow().live.config.limits.drain_timeout;
        if let Some((worker, why)) = failure.first() {
            deadline = deadline.min(FAILURE_DRAIN);
            let (worker, now) =
                (worker.to_string(), "larder ends, so that its service manager starts it again");
            let values = [("worker", worker.as_str()), ("why", why), ("now", now)];
            self.running.errors.event(Level::Error, "worker-failed", &values);
        }
        let saves = self.running.orders.borrow().live.config.snapshot.is_some();
        if reason == DrainReason::Stopped {
            self.manager.stopping(deadline + if saves { ram_snapshot::WRITE } else { Duration::ZERO });
        }
        self.running.orders.send_modify(|it| it.drain = Some(reason));
        let finished = async {
            let mut tick = tokio::time::interval(Duration::from_millis(10));
            while threads.iter().any(|it| !it.is_finished()) {
                tick.tick().await;
            }
        };
        let stopped = tokio::time::timeout(deadline, finished).await;
        if let Some(telemetry) = &self.running.shared.telemetry {
            telemetry.flush(LOG_CLOSE);
        }
        self.end_streams().await;
        if let Some(nodes) = self.nodes.clone().filter(|_| stopped.is_ok()) {
            nodes.leave().await;
        }
        if stopped.is_err() {
            self.running.errors.event(
                Level::Warn,
                "requests-cut",
                &[("why", "requests did not finish within limits.drain_timeout")],
            );
        }
        let site_logs = self.running.orders.borrow().site_logs.clone();
        // Each is closed, also after one that is late.
        let late = site_logs.files().filter(|it| it.close(LOG_CLOSE) == Closed::Late).count() > 0;
        if self.running.log.close(LOG_CLOSE) == Closed::Late || late {
            self.running.errors.event(
                Level::Warn,
                "access-log-incomplete",
                &[("why", "the access log could not be written in time")],
            );
        }
        match reason {
            DrainReason::Replaced => self.end_replaced().await,
            // Nothing is awaited any more: no purge is acknowledged after this.
            DrainReason::Stopped => {
                admin.iter().for_each(|it| it.end_history(HistoryEnd::Stopped));
                self.save_ram(stopped.is_ok());
            }
        }
        self.running.errors.event(Level::Info, "stopped", &[]);
        if let Some(admin) = admin {
            admin.audit.close(LOG_CLOSE);
        }
        self.running.errors.close(LOG_CLOSE);
        match failure.first() {
            Some(_) => Err(Stopped::WorkerFailed),
            None => stopped.map_err(|_| Stopped::CutOff),
        }
    }

    /// Writes the RAM tier into its file, if every worker `has_ended`: one that runs on may remove responses afterwards.
    fn save_ram(&self, has_ended: bool) {
        let config = self.running.orders.borrow().live.config.clone();
        let Some(path) = &config.snapshot else { return };
        let shared = &self.running.shared;
        let why = if shared.failure.first().is_some() {
            "a worker failed"
        } else if !has_ended {
            "requests did not finish within limits.drain_timeout"
        } else if shared.store.has_peer() {
            "the process that this one replaced still finishes its requests"
        } else {
            return ram_snapshot::save(&config, &shared.store, &self.running.errors);
        };
        ram_snapshot::not_saved(path, why, &self.running.errors);
    }

    /// Notifies the listeners of the live stream of its end; they have a moment to receive it.
    async fn end_streams(&self) {
        self.running.shared.stream.close();
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        for _ in 0..50 {
            if self.running.shared.stream.listening() == 0 {
                break;
            }
            tick.tick().await;
        }
    }
}
