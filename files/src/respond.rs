//! The response of an open file to a request: preconditions, ranges, methods (RFC 9110 §13, §14). Pure: the decisions are
//! made in `semantics`, this module makes the response.

use crate::answer;
use crate::open_file::OpenFile;
use bytes::Bytes;
use larder_semantics::conditional::{self, Precondition};
use larder_semantics::field::{self, Field, FieldList};
use larder_semantics::range::{self, Selection};
use larder_transport::Synthetic;
use larder_transport::body::BodyPiece;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// The response to `method` with these request fields; to HEAD that of GET, of which the body is not sent.
#[must_use]
pub fn respond(file: &OpenFile, method: &str, fields: &[Field<'_>]) -> Synthetic {
    if let Some(answer) = answer::to_other_method(method) {
        return answer;
    }
    if is_plain(fields) {
        return whole(file);
    }
    match conditional::evaluate(fields, &file.meta) {
        Precondition::Proceed => {}
        Precondition::NotModified => return not_modified(file),
        Precondition::Failed => return failed(file),
    }
    match selection(file, method, fields) {
        Selection::Whole => whole(file),
        Selection::One(first, last) => one(file, first, last),
        Selection::Many(ranges) => many(file, &ranges),
        Selection::Unsatisfiable => unsatisfiable(file),
    }
}

/// The page of a file as the body of a response with another status, without what describes the file as a resource of its
/// own: validators, ranges, lifetime.
#[must_use]
pub(crate) fn instead(file: &OpenFile, status: u16) -> Synthetic {
    let kept = ["content-type", "content-length", "content-encoding", "vary"];
    let mut page = whole(file);
    page.fields.retain(|it| kept.iter().any(|name| it.is(name)));
    Synthetic { status, ..page }
}

/// Whether a GET or HEAD with these fields gets the unmodified file, with 200: no precondition, no range. Otherwise
/// [`respond`] decides.
#[must_use]
pub fn is_plain(fields: &[Field<'_>]) -> bool {
    !fields.iter().any(|it| {
        // Comparing the first byte and the length saves the full comparison of most names.
        matches!(it.name.as_bytes().first(), Some(b'i' | b'I' | b'r' | b'R'))
            && ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"]
                .iter()
                .any(|name| it.is(name))
    })
}

/// Ranges apply to GET only, and to a response that would be 200 (RFC 9110 §14.2); a repeated field is invalid, and
/// ignored.
fn selection(file: &OpenFile, method: &str, fields: &[Field<'_>]) -> Selection {
    if file.meta.status != 200 {
        return Selection::Whole;
    }
    let mut lines = field::all(fields, "range");
    match (method, lines.next(), lines.next()) {
        ("GET", Some(value), None) if conditional::range_applies(fields, &file.meta) => {
            range::select(value, file.length())
        }
        _ => Selection::Whole,
    }
}

fn whole(file: &OpenFile) -> Synthetic {
    let body = if file.body.is_empty() { Vec::new() } else { vec![file.body.clone()] };
    Synthetic { fields: file.fields.clone(), body, ..Synthetic::empty(file.meta.status) }
}

fn one(file: &OpenFile, first: u64, last: u64) -> Synthetic {
    let length = last - first + 1;
    let mut fields = file.fields.clone();
    fields.set("Content-Length", length.to_string());
    fields.push("Content-Range", format!("bytes {first}-{last}/{}", file.length()));
    Synthetic { fields, body: vec![file.body.slice(first, length)], ..Synthetic::empty(206) }
}

/// `multipart/byteranges` (RFC 9110 §14.6): each part has its own head.
fn many(file: &OpenFile, ranges: &[(u64, u64)]) -> Synthetic {
    let boundary = boundary(file);
    let media_type = file.fields.get("content-type").unwrap_or(b"application/octet-stream");
    let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
    let mut line_end = "";
    for &(first, last) in ranges {
        let mut head = format!("{line_end}--{boundary}\r\nContent-Type: ").into_bytes();
        head.extend_from_slice(media_type);
        let place = format!("\r\nContent-Range: bytes {first}-{last}/{}\r\n\r\n", file.length());
        head.extend_from_slice(place.as_bytes());
        pieces.push(BodyPiece::Bytes(Bytes::from(head)));
        pieces.push(file.body.slice(first, last - first + 1));
        line_end = "\r\n";
    }
    pieces.push(BodyPiece::Bytes(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    let mut answer = Synthetic { fields: file.fields.clone(), body: pieces, ..Synthetic::empty(206) };
    let length = answer.length().to_string();
    answer.fields.set("Content-Length", length);
    answer.fields.set("Content-Type", format!("multipart/byteranges; boundary={boundary}"));
    answer
}

/// No file can contain it on purpose: its hash has a random key.
fn boundary(file: &OpenFile) -> String {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let key = KEY.get_or_init(RandomState::new);
    format!("{:016x}{:016x}", key.hash_one(&file.meta.etag), key.hash_one(file.length()))
}

/// 304 has the fields that a cache may need to update, and no others (RFC 9110 §15.4.5).
fn not_modified(file: &OpenFile) -> Synthetic {
    let kept = ["etag", "last-modified", "vary", "cache-control"];
    let mut fields = file.fields.clone();
    fields.retain(|it| kept.iter().any(|name| it.is(name)));
    Synthetic { fields, ..Synthetic::empty(304) }
}

fn failed(file: &OpenFile) -> Synthetic {
    let mut answer = Synthetic::page(412, "A precondition of the request failed for this file.");
    copy(&file.fields, "ETag", &mut answer.fields);
    answer
}

fn unsatisfiable(file: &OpenFile) -> Synthetic {
    let mut answer = Synthetic::page(416, "The requested range is outside the file.")
        .with("Content-Range", format!("bytes */{}", file.length()));
    copy(&file.fields, "ETag", &mut answer.fields);
    answer
}

fn copy(from: &FieldList, name: &str, to: &mut FieldList) {
    if let Some(value) = from.get(name) {
        to.push(name, value);
    }
}
