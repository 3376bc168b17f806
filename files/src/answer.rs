//! A complete response other than an unmodified open file: status, fields, pieces; and the refusals.

use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_transport::body::BodyPiece;

/// The response to send. The sender adds `Date`, `Connection` and framing.
#[derive(Clone)]
pub struct FileResponse {
    /// The status code.
    pub status: u16,
    /// End-to-end fields; includes `Content-Length` except for 204 and 304.
    pub fields: FieldList,
    /// The body in order; empty for HEAD, 204 and 304 with any `Content-Length`.
    pub pieces: Vec<BodyPiece>,
}

impl FileResponse {
    /// A response with a body from memory. The body is dropped for HEAD.
    #[must_use]
    pub(crate) fn text(status: u16, media_type: &str, body: impl Into<Bytes>, method: &str) -> FileResponse {
        let body = body.into();
        let mut fields = FieldList::new();
        fields.push("Content-Type", media_type);
        fields.push("Content-Length", body.len().to_string());
        let pieces =
            if method == "HEAD" || body.is_empty() { Vec::new() } else { vec![BodyPiece::Bytes(body)] };
        FileResponse { status, fields, pieces }
    }

    /// Bytes of body that follow the head.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pieces.iter().map(BodyPiece::len).sum()
    }
}

/// The methods that a file supports.
pub(crate) const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The response to a method other than GET and HEAD: 204 to OPTIONS, otherwise 405 (RFC 9110 §9.3.7, §15.5.6). `None` for
/// GET and HEAD.
pub(crate) fn to_other_method(method: &str) -> Option<FileResponse> {
    let mut answer = match method {
        "GET" | "HEAD" => return None,
        "OPTIONS" => FileResponse { status: 204, fields: FieldList::new(), pieces: Vec::new() },
        _ => FileResponse::text(405, PLAIN, "This resource is a file; the method is not allowed.\n", method),
    };
    answer.fields.push("Allow", ALLOW);
    Some(answer)
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// The reason for serving no file. It reveals nothing about existing files: hidden, outside and absent are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// The target is not well-formed (400).
    Malformed,
    /// No file that may be served: absent, hidden, outside of the root, neither file nor directory (404).
    NotFound,
    /// The file exists, and the operating system denies reading it (403).
    Forbidden,
    /// Longer than any file's name can be (414).
    TooLong,
    /// Too many lookups wait for the disk, or the file is being written to continuously (503).
    Busy,
    /// No descriptor is available for it (503).
    NoDescriptor,
    /// The disk failed (500).
    Failed,
}

impl NotServed {
    /// The status code.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            NotServed::Malformed => 400,
            NotServed::NotFound => 404,
            NotServed::Forbidden => 403,
            NotServed::TooLong => 414,
            NotServed::Busy | NotServed::NoDescriptor => 503,
            NotServed::Failed => 500,
        }
    }

    /// One sentence for the error page.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            NotServed::Malformed => "The URL is malformed.",
            NotServed::NotFound => "No resource exists at this URL.",
            NotServed::Forbidden => "Access to this resource is forbidden.",
            NotServed::TooLong => "The URL is too long.",
            NotServed::Busy | NotServed::NoDescriptor => {
                "The server is too busy to read this file; retry later."
            }
            NotServed::Failed => "The file could not be read.",
        }
    }

    /// A short page. The router may write its own instead.
    #[must_use]
    pub fn answer(self, method: &str) -> FileResponse {
        let mut answer = FileResponse::text(self.status(), PLAIN, format!("{}\n", self.sentence()), method);
        if self.status() == 503 {
            answer.fields.push("Retry-After", "1");
        }
        answer
    }
}

impl From<crate::path::BadPath> for NotServed {
    fn from(bad: crate::path::BadPath) -> Self {
        match bad {
            crate::path::BadPath::Malformed => NotServed::Malformed,
            crate::path::BadPath::TooLong => NotServed::TooLong,
            crate::path::BadPath::Unservable => NotServed::NotFound,
        }
    }
}
