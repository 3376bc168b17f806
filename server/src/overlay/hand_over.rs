//! Overlays in an upgrade: the form in which they go to the process that replaces this one. Answers to challenges of CAs do not: the
//! process that ordered a certificate finishes its order.

use super::{Overlay, OverlayHistory, OverlayPage, OverlayTarget, Overlays};
use larder_config::page_url::BareWord;
use larder_stdx::clock::{Monotonic, WallTime};
use larder_transport::body::BodyPiece;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Overlays {
    /// All that are in force.
    #[must_use]
    pub fn in_force(&self, now: Monotonic) -> Vec<Arc<Overlay>> {
        self.all.read().values().flatten().filter(|it| !it.is_over(|| now)).cloned().collect()
    }

    /// Sets an overlay that another process had ([`Overlay::to_bytes`]).
    ///
    /// # Errors
    /// One sentence: it is not set.
    pub fn take_over(&self, bytes: &[u8], most: u64, now: Monotonic) -> Result<(), String> {
        let damaged = || "A handed-over overlay cannot be read.".to_owned();
        let end = bytes.iter().position(|it| *it == b'\n').ok_or_else(damaged)?;
        let (line, body) = (&bytes[..end], &bytes[end + 1..]);
        let about: Value = serde_json::from_slice(line).map_err(|_| damaged())?;
        let number = |name: &str| about[name].as_u64();
        let text = |name: &str| about[name].as_str();
        let uri = text("uri").ok_or_else(damaged)?;
        let place = OverlayTarget::read(uri, BareWord::IsRefused)?;
        let page = OverlayPage {
            status: number("status").and_then(|it| u16::try_from(it).ok()).ok_or_else(damaged)?,
            content_type: text("content_type").map(str::as_bytes),
            body,
            ttl: None,
            by: text("by").unwrap_or_default(),
        };
        let rest = number("expires").zip(number("left_ms"));
        let history = OverlayHistory {
            set_at: WallTime(number("set_at").ok_or_else(damaged)?),
            expires: rest.map(|(at, left)| (WallTime(at), Monotonic(now.0.saturating_add(left)))),
            hits: number("hits").unwrap_or_default(),
        };
        let made = self.put_within(&mut self.books.lock(), place, &page, most, history);
        made.map(drop).map_err(|it| format!("The overlay of {uri}: {}", it.sentence()))
    }
}

impl Overlay {
    /// A line of JSON, and the body. Its expiry is the time that is left, since both processes have clocks of their own.
    ///
    /// # Errors
    /// The body cannot be read.
    pub fn to_bytes(&self, now: Monotonic) -> io::Result<Vec<u8>> {
        let field =
            |name| String::from_utf8_lossy(self.page.fields.get(name).unwrap_or_default()).into_owned();
        let about = json!({
            "uri": self.place.to_string(),
            "status": self.page.meta.status,
            "content_type": field("content-type"),
            "set_at": self.set_at.0,
            "expires": self.expires.map(|it| it.0.0),
            "left_ms": self.expires.map(|it| it.1.0.saturating_sub(now.0)),
            "hits": self.hits.load(Relaxed),
            "by": self.by,
        });
        let mut bytes = format!("{about}\n").into_bytes();
        match &self.page.body {
            BodyPiece::Bytes(body) => bytes.extend_from_slice(body),
            BodyPiece::File(slice) => {
                let mut read = 0;
                while read < slice.length {
                    let rest = usize::try_from(slice.length - read).map_err(io::Error::other)?;
                    slice.owner.lend(slice.offset + read, rest, &mut |some| {
                        let some = &some[..some.len().min(rest)];
                        bytes.extend_from_slice(some);
                        read += some.len() as u64;
                    })?;
                }
            }
        }
        Ok(bytes)
    }
}
