//! Asking an origin from time to time whether it is well. One task does so for all workers; what follows from it is in `outlier_state`.

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

/// How an origin is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What for.
    pub path: String,
    /// By which name.
    pub host: String,
    /// How often; a tenth more or less, so that several larders do not ask at once.
    pub interval: Duration,
    /// Until its response is whole.
    pub timeout: Duration,
    /// So many answers in a row, of 200 to 399, and it is well again.
    pub rise: u32,
    /// So many in a row that are missing or something else, and it is not.
    pub fall: u32,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// It answered as it should; and is used again, if it was not.
    Well,
    /// It did not: why.
    Unwell(String),
}

/// Asks for ever. `told` hears of each answer, and whether that changed whether the origin is used.
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
