//! The endpoint of upgrades: the main loop starts the new process, and answers when that serves, or why it does not.

use super::{Admin, AdminRequest, AdminResponse, problem, problem_at};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The time limit of each step without a parameter.
pub const STEP: Duration = Duration::from_secs(60);

/// An order to the main loop: replace this process by the program on disk.
pub struct UpgradeOrder {
    /// The time limit of each step of the new process.
    pub within: Duration,
    /// The requester, for the log.
    pub by: String,
    /// Receives the answer as JSON, or a sentence.
    pub outcome: oneshot::Sender<Result<Value, String>>,
}

/// `POST /api/v1/upgrade`.
pub const UPGRADED: &str = r#"{"type":"object","required":["process","version","replaced"],"properties":{
"process":{"type":"integer"},"version":{"type":"string"},"replaced":{"type":"integer"}}}"#;

impl Admin {
    /// `POST /api/v1/upgrade?timeout=…`.
    pub(super) async fn upgrade(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let seconds = asked.query_value("timeout").and_then(|it| it.parse().ok());
        let (outcome, answer) = oneshot::channel();
        let order =
            UpgradeOrder { within: seconds.map_or(STEP, Duration::from_secs), by: asked.by(), outcome };
        match self.upgrades.try_send(order) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return problem_at(409, "An upgrade is in progress.", "upgrade");
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return problem(503, "larder is stopping."),
        }
        match answer.await {
            Ok(Ok(answer)) => AdminResponse::Json(200, json!(answer)),
            Ok(Err(sentence)) => problem_at(409, sentence, "upgrade"),
            Err(_) => problem(503, "larder is stopping."),
        }
    }
}
