//! Orders of an application to send a file in place of its body (`X-Sendfile`, `X-Accel-Redirect`): taken out of every
//! response, and obeyed on a route with `sendfile`. `request/sendfile.rs` sends the file.

use larder_files::{NotServed, OpenFile, Root};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::file_order::{self, FileOrderRules, OrderFault};
use larder_semantics::policy::Policy;
use std::rc::Rc;
use std::sync::Arc;

/// The files that the applications of a route may hand over.
pub struct FileOrderSettings {
    /// The paths that name them.
    pub rules: FileOrderRules,
    /// Their directory.
    pub root: Arc<Root>,
    /// Reports an order whose file is not sent.
    pub report: NotSentReport,
}

/// Reports an order whose file is not sent: the order as it came, and why.
pub type NotSentReport = Box<dyn Fn(&[u8], &str)>;

/// The orders of one response.
pub(crate) struct FileOrder {
    /// The fields.
    lines: FieldList,
    /// The file; `None` where the response is sent without it.
    file: Option<OrderedFile>,
}

/// The substitute for the body of a response.
pub(crate) enum InPlaceOfBody {
    /// A file that the application hands over.
    File(OrderedFile),
    /// The response to this target of the same host: a CGI program redirects within the server (RFC 3875 §6.2.2).
    Target(String),
}

/// A file in place of the body of a response.
pub(crate) struct OrderedFile {
    files: Rc<FileOrderSettings>,
    /// Its path beneath the directory.
    path: Result<Vec<u8>, OrderFault>,
    /// The order, for the log.
    value: Vec<u8>,
}

/// Why an ordered file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileNotSent {
    /// The order names no path beneath the directory.
    Order(OrderFault),
    /// No file that may be served has this path.
    File(NotServed),
}

/// Takes the orders out of a response, so that no client sees a path of the server.
///
/// Without `sendfile`, and for another status than 200, they have no effect. No cache may store the rest, which is not the
/// response that was meant; a 304 has no body to replace, and is what it is without them.
pub(crate) fn take(
    files: Option<&Rc<FileOrderSettings>>,
    policy: &Policy,
    status: u16,
    fields: &mut FieldList,
) -> Option<Box<FileOrder>> {
    let mut lines = FieldList::new();
    fields.iter().filter(|it| file_order::is_order(it.name)).for_each(|it| lines.push(it.name, it.value));
    strip(files.is_some(), fields);
    if lines.is_empty() {
        return None;
    }
    let file = files.filter(|_| status == 200).map(|files| OrderedFile {
        files: files.clone(),
        path: files.rules.file(&lines.view()),
        value: lines.iter().map(|it| it.value.to_vec()).collect::<Vec<_>>().join(&b", "[..]),
    });
    if file.is_none() && status != 304 {
        fields.retain(|it| !policy.targets.iter().any(|name| it.is(name)));
        fields.set("Cache-Control", "no-store");
    }
    Some(Box::new(FileOrder { lines, file }))
}

/// Takes orders of files, and fields that belong to them, out of an interim response or of trailers, where they have no meaning; see
/// [`file_order::is_for_server`].
pub(crate) fn strip(hands_over: bool, fields: &mut FieldList) {
    if fields.iter().any(|it| file_order::is_for_server(it.name, hands_over)) {
        fields.retain(|it| !file_order::is_for_server(it.name, hands_over));
    }
}

impl FileOrder {
    /// Its fields.
    pub fn lines(&self) -> impl Iterator<Item = Field<'_>> {
        self.lines.iter()
    }

    /// The file that is sent in place of the body, if one is.
    pub fn take_file(&mut self) -> Option<OrderedFile> {
        self.file.take()
    }
}

impl OrderedFile {
    /// Opens it; waits for the disk on the pool of the directory.
    ///
    /// # Errors
    /// It is not sent, for a reason that is reported.
    pub async fn open(&self) -> Result<Arc<OpenFile>, FileNotSent> {
        let opened = match &self.path {
            Ok(path) => self.files.root.file(path).await.map_err(FileNotSent::File),
            Err(fault) => Err(FileNotSent::Order(*fault)),
        };
        opened.inspect_err(|it| (self.files.report)(&self.value, it.clause()))
    }
}

impl FileNotSent {
    /// The reason that the client sees. An absent file is the same to it as one that the application may not name, as in
    /// nginx and Apache.
    pub fn shown(self) -> NotServed {
        use NotServed::{Busy, Failed, Forbidden, NoDescriptor};
        match self {
            FileNotSent::File(it @ (Forbidden | Busy | NoDescriptor | Failed)) => it,
            FileNotSent::File(_) | FileNotSent::Order(_) => NotServed::NotFound,
        }
    }

    /// One clause for the log.
    fn clause(self) -> &'static str {
        match self {
            FileNotSent::Order(fault) => fault.sentence(),
            FileNotSent::File(NotServed::Forbidden) => "the operating system denies reading the file",
            FileNotSent::File(NotServed::Busy) => {
                "too many files are being read, or this one is being written to"
            }
            FileNotSent::File(NotServed::NoDescriptor) => "no file descriptor is available",
            FileNotSent::File(NotServed::Failed) => "the file could not be read",
            FileNotSent::File(NotServed::Malformed) => {
                "no file of this name is served: a hidden name, a PHP script, a backslash or a control character"
            }
            FileNotSent::File(_) => "no regular file beneath sendfile.root has this path",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_removed_and_other_responses_stay() {
        let check = |names: &[&str], expect: &str| {
            let fields: Vec<_> = names.iter().map(|name| Field { name, value: b"/private/a" }).collect();
            let mut fields = FieldList::from_fields(&fields);
            assert_eq!(names.len() > 1, take(None, &Policy::default(), 200, &mut fields).is_some());
            assert_eq!(expect, String::from_utf8_lossy(fields.text()).replace("\r\n", "|"));
        };
        check(&["X-A"], "X-A: /private/a|");
        check(&["X-Accel-Buffering"], "X-Accel-Buffering: /private/a|");
        check(&["X-Accel-Mapping"], "");
        check(&["X-Sendfile-Type"], "");
        for name in
            ["X-Accel-Redirect", "x-sendfile", "X-LIGHTTPD-send-file", "X-Sendfile2", "X-LiteSpeed-Location"]
        {
            check(&["X-A", name], "X-A: /private/a|Cache-Control: no-store|");
        }
    }
}
