//! Responses that need no file: to other methods, and the refusals.

use larder_transport::Synthetic;

/// The methods that a file supports.
pub(crate) const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The response to a method other than GET and HEAD: 204 to OPTIONS, otherwise 405 (RFC 9110 §9.3.7, §15.5.6). `None` for
/// GET and HEAD.
pub(crate) fn to_other_method(method: &str) -> Option<Synthetic> {
    let answer = match method {
        "GET" | "HEAD" => return None,
        "OPTIONS" => Synthetic::empty(204),
        _ => Synthetic::page(405, "This resource is a file; the method is not allowed."),
    };
    Some(answer.with("Allow", ALLOW))
}

/// The reason for serving no file. It reveals nothing about existing files: hidden, outside and absent are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// The target is not well-formed (400).
    Malformed,
    /// No file that may be served: absent, hidden, outside of the root, neither file nor directory (404).
    NotFound,
    /// The list of `files.try` ends with `=410` (410).
    Gone,
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
            NotServed::Gone => 410,
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
            NotServed::Gone => "This resource was removed.",
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
    pub fn answer(self) -> Synthetic {
        let page = Synthetic::page(self.status(), self.sentence());
        if self.status() == 503 { page.with("Retry-After", "1") } else { page }
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
