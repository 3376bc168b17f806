//! The response of an overlay to a request: the whole page at the fast speed, any other response as for a file.

use super::{Overlay, Overlays};
use larder_counters::Counters;
use larder_observe::RequestOutcome;
use larder_semantics::cache_status::{self, CacheReport};
use larder_semantics::date;
use larder_stdx::clock;
use larder_transport::Reply;
use larder_transport::ResponseWriter;
use larder_wire::message::{Request, RequestHead};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Whether an overlay answers requests of this method: those with other methods go to the original resource.
fn is_read(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

impl Overlays {
    /// The overlay that answers a request, if any.
    #[inline]
    #[must_use]
    pub fn over(&self, method: &str, authority: &str, target: &str) -> Option<Arc<Overlay>> {
        if !self.any() || !is_read(method) {
            return None;
        }
        self.find(authority, target, clock::monotonic_now)
    }
}

impl Overlay {
    /// Whether the status of its page is a success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.page.meta.status == 200
    }

    /// Answers a request for the whole page; `None`, without output, for any other.
    pub fn answer_now(
        &self,
        head: &RequestHead<'_>,
        counters: &Counters,
        answer: &mut ResponseWriter<'_>,
    ) -> Option<RequestOutcome> {
        if !larder_files::is_plain(head.fields) {
            return None;
        }
        answer.ready(&self.page.head);
        answer.field_with("Date", |text| date::write(clock::wall(), text));
        answer.field_with("Cache-Status", |text| cache_status::write(CacheReport::Overlay, text));
        let body = if head.method == "HEAD" { 0 } else { self.page.length() };
        match body {
            0 => answer.end(),
            _ => answer.end_with_piece(self.page.body.clone()),
        }
        self.note_use(counters);
        Some(RequestOutcome::whole(self.page.meta.status, body, Some(CacheReport::Overlay)))
    }

    /// Answers any GET or HEAD.
    pub async fn answer(&self, request: &Request, counters: &Counters, reply: Reply<'_>) -> RequestOutcome {
        self.note_use(counters);
        let mut answer = larder_files::respond(&self.page, &request.method, &request.fields.view());
        let mut status = Vec::new();
        cache_status::write(CacheReport::Overlay, &mut status);
        answer.fields.push("Cache-Status", status);
        let report = Some(CacheReport::Overlay);
        RequestOutcome { report, ..RequestOutcome::sent(answer.send(reply).await) }
    }

    fn note_use(&self, counters: &Counters) {
        counters.overlay_hits.add(1);
        self.hits.fetch_add(1, Relaxed);
    }
}
