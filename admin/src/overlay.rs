//! The endpoints of overlays: listing, setting and removing them. The response of an overlay to a request is in
//! `server::overlay`.

use super::{Admin, AdminRequest, AdminResponse, parameters, problem_at};
use larder_config::page_url::BareWord;
use larder_semantics::policy::LONGEST_LIFETIME;
use larder_semantics::scheme::Scheme;
use larder_server::input_error::InputError;
use larder_server::overlay::{self, OverlayPage, OverlayReport, OverlayTarget, OverlayTime};
use larder_stdx::clock;
use larder_wire::http1::request::{self, ParsedRequest};
use larder_wire::message::{FieldStorage, HeadLimits};
use serde_json::{Value, json};

impl Admin {
    /// `GET /api/v1/overlays`.
    pub(super) fn overlays(&self) -> AdminResponse {
        let (rows, bytes) = self.overlays.list(clock::monotonic_now());
        let rows: Vec<Value> = rows.iter().map(overlay_json).collect();
        let most = self.live.borrow().config.admin.overlay_size;
        AdminResponse::Json(200, json!({ "overlays": rows, "bytes": bytes, "limit_bytes": most }))
    }

    /// `PUT /api/v1/overlays?uri=…` and `POST /cache/add/…`.
    pub(super) fn put_overlay(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let order = match OverlayOrder::read(asked) {
            Ok(order) => order,
            Err(wrong) => return wrong.into(),
        };
        let client = self.live.borrow().config.limits.client;
        let limits = HeadLimits { head: client.head_size, target: client.target_size, scheme: Scheme::Http };
        if let Err(wrong) = can_be_met(&order.place, &limits) {
            return wrong.into();
        }
        let by = asked.by();
        let page = OverlayPage {
            status: order.status,
            content_type: asked.request.fields.get("content-type"),
            body: asked.body,
            ttl: order.ttl,
            by: &by,
        };
        let most = self.live.borrow().config.admin.overlay_size;
        match self.overlays.put(order.place, &page, most, OverlayTime::read()) {
            Ok(rows) => AdminResponse::Json(200, overlay_json(&rows)),
            Err(refused) => {
                // The number of overlays is exceeded; or the size of this one.
                let at = if refused == overlay::OverlayRefusal::TooMany { "uri" } else { "body" };
                problem_at(507, refused.sentence(), at)
            }
        }
    }

    /// `DELETE /api/v1/overlays?uri=…` and `/cache/reset/…`.
    pub(super) fn remove_overlay(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let place = match OverlayOrder::read(asked) {
            Ok(order) => order.place,
            Err(wrong) => return wrong.into(),
        };
        match self.overlays.remove(&place, clock::monotonic_now()) {
            Some(rows) => AdminResponse::Json(200, overlay_json(&rows)),
            None => {
                let detail = format!(
                    "No overlay is set for {place}; `larder overlay list` or GET /api/v1/overlays lists them."
                );
                problem_at(404, detail, "uri")
            }
        }
    }
}

/// Whether a request can have this URI: parsed by the server's own parser, since a rejected request never gets an
/// overlay.
///
/// # Errors
/// The reason why none can.
fn can_be_met(place: &OverlayTarget, limits: &HeadLimits) -> Result<(), InputError> {
    let host = place.host.as_deref().unwrap_or("h");
    let text = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", place.target);
    let never = |why: &str| {
        InputError::at(
            "uri",
            format!("No request can be for {}, so nothing would show it: {why}", short(place)),
        )
    };
    let mut storage = FieldStorage::new();
    match request::parse(text.as_bytes(), limits, &mut storage) {
        Ok(ParsedRequest::Head(head, _)) if head.target == place.target => Ok(()),
        Ok(_) => Err(never("it would be read as another.")),
        Err(reject) => Err(never(reject.sentence())),
    }
}

/// The beginning of a target, for a sentence.
fn short(place: &OverlayTarget) -> String {
    let text = place.to_string();
    match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// A parsed request about an overlay.
struct OverlayOrder {
    place: OverlayTarget,
    ttl: Option<u64>,
    status: u16,
}

impl OverlayOrder {
    /// Parses the path of a short form, or the query of the other endpoints.
    ///
    /// # Errors
    /// The error, its place, and a valid form.
    fn read(asked: &AdminRequest<'_>) -> Result<Self, InputError> {
        let uri =
            |it: &str, bare| OverlayTarget::read(it, bare).map_err(|detail| InputError::at("uri", detail));
        if let Some(named) = asked.named {
            // All of it is the URI, including its query.
            let mark = if asked.query.is_empty() { "" } else { "?" };
            let place = uri(&format!("{named}{mark}{}", asked.query), BareWord::IsPath)?;
            return Ok(Self { place, ttl: None, status: 200 });
        }
        let (mut place, mut ttl, mut status) = (None, None, 200);
        for (name, value) in parameters::pairs(asked.query)? {
            let bad = |allowed: &str| {
                InputError::at(&name, format!("{name}: found {value:?}; allowed: {allowed}."))
            };
            match name.as_str() {
                "uri" => place = Some(uri(&value, BareWord::IsRefused)?),
                "ttl" => {
                    let seconds =
                        value.parse().ok().filter(|it| (1..=u64::from(LONGEST_LIFETIME)).contains(it));
                    ttl = Some(seconds.ok_or_else(|| bad("1 to 315360000 seconds; without it, it stays"))?);
                }
                "status" => {
                    let found = value.parse().ok().filter(|it| larder_config::overlay_status_may_be(*it));
                    status = found.ok_or_else(|| bad("200, or 400 to 599"))?;
                }
                // The row has no others.
                _ => {}
            }
        }
        let missing = || {
            InputError::at(
                "uri",
                "uri is missing: /PATH for every host, or http://HOST/PATH for one, by both schemes.",
            )
        };
        let place = place.ok_or_else(missing)?;
        Ok(Self { place, ttl, status })
    }
}

/// An overlay in the JSON of the API.
pub(super) fn overlay_json(it: &OverlayReport) -> Value {
    json!({
        "uri": it.uri, "status": it.status, "bytes": it.bytes, "content_type": it.content_type, "etag": it.etag,
        "set_at": it.set_at.0, "expires": it.expires.map(|it| it.0), "hits": it.hits, "by": it.by,
    })
}
