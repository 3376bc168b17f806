//! Answers to the HTTP-01 challenges of CAs (RFC 8555 section 8.3): pages that precede every other rule, for known tokens only. The orders are
//! in `server::acme`.

use super::{Overlay, OverlayPage, OverlayRank, OverlayTarget, OverlayTime, Overlays, ready};
use larder_transport::body::BodyPiece;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The path of challenges; the token follows.
pub(super) const PATH: &str = "/.well-known/acme-challenge/";

impl Overlays {
    /// Answers the challenge with this token, on every host and both schemes, until [`Self::end_challenge`]. Every request after the return
    /// gets the answer.
    pub fn answer_challenge(&self, token: &str, text: &str) {
        let place = OverlayTarget { host: None, target: format!("{PATH}{token}") };
        let (now, kind) = (OverlayTime::read().wall, Some(&b"application/octet-stream"[..]));
        let page = OverlayPage { status: 200, content_type: kind, body: text.as_bytes(), ttl: None, by: "" };
        let body = BodyPiece::Bytes(bytes::Bytes::copy_from_slice(page.body));
        let made = Overlay {
            page: ready(&place, &page, body, now),
            place,
            set_at: now,
            expires: None,
            by: String::new(),
            hits: AtomicU64::new(0),
            cost: 0,
            rank: OverlayRank::First,
        };
        self.challenges.write().insert(made.place.target.as_str().into(), Arc::new(made));
        self.settle(&mut self.books.lock(), &self.all.read());
    }

    /// Ends the answer to a challenge.
    pub fn end_challenge(&self, token: &str) {
        self.challenges.write().remove(format!("{PATH}{token}").as_str());
        self.settle(&mut self.books.lock(), &self.all.read());
    }
}

impl Overlay {
    /// Whether it precedes redirects, access rules and maintenance.
    #[must_use]
    pub fn precedes_admission(&self) -> bool {
        self.rank == OverlayRank::First
    }
}
