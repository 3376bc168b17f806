//! Health checks of an origin. One task runs them for all workers; `outlier_state` applies the results.

use crate::error::OriginError;
use crate::outlier_state::{Changes, OutlierState};
use crate::pool::OriginPool;
use crate::request::{OutgoingRequest, RequestLine};
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_wire::message::Framing;
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
    /// After this number of consecutive answers of 200 to 399 it is healthy again.
    pub rise: u32,
    /// After this number of consecutive missing or other answers it is unhealthy.
    pub fall: u32,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The expected answer; the origin is used again, if it was not.
    Well,
    /// The failure, with its reason.
    Unwell(String),
}

/// Checks for ever. `told` gets each result, and whether it changed the use of the origin.
pub async fn watch(
    origin: Rc<OriginPool>,
    check: HealthCheck,
    standing: Arc<OutlierState>,
    told: impl Fn(&CheckResult, Changes),
) -> std::convert::Infallible {
    let (mut well, mut unwell) = (0u32, 0u32);
    loop {
        let found = match timeout(check.timeout, ask(&origin, &check)).await {
            Ok(found) => found,
            Err(_) => CheckResult::Unwell("it timed out".to_owned()),
        };
        (well, unwell) = match found {
            CheckResult::Well => (well.saturating_add(1), 0),
            CheckResult::Unwell(_) => (0, unwell.saturating_add(1)),
        };
        let changes = match standing.is_sick() {
            true if well >= check.rise => standing.found_well(clock::monotonic()),
            false if unwell >= check.fall => standing.found_sick(),
            _ => Changes::Nothing,
        };
        told(&found, changes);
        let tenth = u64::try_from(check.interval.as_micros() / 10).unwrap_or(u64::MAX).max(1);
        let more =
            Duration::from_micros(clock::precise_micros().wrapping_mul(0x9E37_79B9_7F4A_7C15) % (2 * tenth));
        sleep(check.interval - Duration::from_micros(tenth).min(check.interval) + more).await;
    }
}

async fn ask(origin: &Rc<OriginPool>, check: &HealthCheck) -> CheckResult {
    let mut fields = FieldList::new();
    fields.push("Host", &check.host);
    fields.push("User-Agent", concat!("larder-health/", env!("CARGO_PKG_VERSION")));
    let line = RequestLine::Own { method: "GET".to_owned(), target: check.path.clone() };
    let request = OutgoingRequest { line, fields, framing: Framing::Empty, asked: None };
    let answer = async {
        let exchange = origin.send(request).await?;
        let status = loop {
            match exchange.head().await?.status {
                100..=199 => {}
                status => break status,
            }
        };
        while exchange.next().await?.is_some() {}
        Ok::<u16, OriginError>(status)
    };
    match answer.await {
        Ok(200..=399) => CheckResult::Well,
        Ok(status) => CheckResult::Unwell(format!("it answered {status}")),
        Err(error) => CheckResult::Unwell(error.sentence().into_owned()),
    }
}
