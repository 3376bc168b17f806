//! Health checks of an origin. One task runs them for all workers; `outlier_state` applies the results.

use crate::error::OriginError;
use crate::outlier_state::{Changes, OutlierState};
use crate::pool::OriginPool;
use crate::request::OutgoingRequest;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The settings of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The requested target.
    pub path: String,
    /// The `Host` of the request.
    pub host: String,
    /// The interval, varied by a tenth, so that several larders do not ask at once.
    pub interval: Duration,
    /// The time limit for the complete response.
    pub timeout: Duration,
    /// The method.
    pub method: String,
    /// The ranges of statuses of a healthy origin.
    pub statuses: Vec<(u16, u16)>,
    /// The test of the body; `None` for any.
    pub body: Option<BodyTest>,
    /// After this number of consecutive expected answers it is healthy again.
    pub rise: u32,
    /// After this number of consecutive missing or other answers it is unhealthy.
    pub fall: u32,
}

/// Bytes of a body that are tested; the rest is read and dropped.
pub const TESTED_BODY: usize = 64 << 10;

/// The condition on the beginning of a body.
#[derive(Clone, Debug)]
pub struct BodyTest {
    text: String,
    regex: regex::bytes::Regex,
}

impl BodyTest {
    /// Parses a text that the body contains, or `regex:` and a regular expression that matches some of it.
    ///
    /// # Errors
    /// The error in the regular expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let regex = match text.strip_prefix("regex:") {
            Some(regex) => regex::bytes::Regex::new(regex),
            None => regex::bytes::Regex::new(&regex::escape(text)),
        };
        Ok(Self { text: text.to_owned(), regex: regex.map_err(|it| it.to_string())? })
    }

    /// Whether a body passes.
    #[must_use]
    pub fn passes(&self, body: &[u8]) -> bool {
        self.regex.is_match(body)
    }
}

impl PartialEq for BodyTest {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for BodyTest {}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The expected answer; the origin is used again, if it was not.
    Healthy,
    /// The failure, with its reason.
    Unhealthy(String),
}

/// Checks for ever. `on_result` gets each result, and whether it changed the use of the origin.
pub async fn watch(
    origin: Rc<OriginPool>,
    check: HealthCheck,
    state: Arc<OutlierState>,
    on_result: impl Fn(&CheckResult, Changes),
) -> std::convert::Infallible {
    let (mut healthy, mut unhealthy) = (0u32, 0u32);
    loop {
        let found = check_once(&origin, &check).await;
        (healthy, unhealthy) = match found {
            CheckResult::Healthy => (healthy.saturating_add(1), 0),
            CheckResult::Unhealthy(_) => (0, unhealthy.saturating_add(1)),
        };
        let changes = match state.is_unhealthy() {
            true if healthy >= check.rise => state.mark_healthy(clock::monotonic()),
            false if unhealthy >= check.fall => state.mark_unhealthy(),
            _ => Changes::Nothing,
        };
        if let (CheckResult::Unhealthy(why), true) = (&found, state.is_unhealthy()) {
            state.set_down_reason(format!("health check {} {}: {why}", check.method, check.path));
        }
        on_result(&found, changes);
        let tenth = u64::try_from(check.interval.as_micros() / 10).unwrap_or(u64::MAX).max(1);
        let more =
            Duration::from_micros(clock::precise_micros().wrapping_mul(0x9E37_79B9_7F4A_7C15) % (2 * tenth));
        sleep(check.interval - Duration::from_micros(tenth).min(check.interval) + more).await;
    }
}

/// Checks once.
pub async fn check_once(origin: &Rc<OriginPool>, check: &HealthCheck) -> CheckResult {
    match timeout(check.timeout, send_check(origin, check)).await {
        Ok(found) => found,
        Err(_) => CheckResult::Unhealthy("it timed out".to_owned()),
    }
}

async fn send_check(origin: &Rc<OriginPool>, check: &HealthCheck) -> CheckResult {
    let mut fields = FieldList::new();
    fields.push("Host", &check.host);
    fields.push("User-Agent", concat!("larder-health/", env!("CARGO_PKG_VERSION")));
    let request = OutgoingRequest::own(&check.method, &check.path, fields);
    let answer = async {
        let exchange = origin.send(request).await?;
        let status = loop {
            match exchange.head().await?.status {
                100..=199 => {}
                status => break status,
            }
        };
        let mut body = Vec::new();
        while let Some(bytes) = exchange.next().await? {
            let room = TESTED_BODY - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        Ok::<(u16, Vec<u8>), OriginError>((status, body))
    };
    let is_expected = |status: u16| check.statuses.iter().any(|it| (it.0..=it.1).contains(&status));
    match answer.await {
        Ok((status, _)) if !is_expected(status) => CheckResult::Unhealthy(format!("it answered {status}")),
        Ok((_, body)) if check.body.as_ref().is_some_and(|it| !it.passes(&body)) => {
            CheckResult::Unhealthy("the body of its response lacks the expected text".to_owned())
        }
        Ok(_) => CheckResult::Healthy,
        Err(error) => CheckResult::Unhealthy(error.sentence().into_owned()),
    }
}
