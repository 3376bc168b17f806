//! An error in an operator's request. The response is made in the admin.

/// An error in a request, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// A key of the body, a parameter, a line and column.
    pub at: String,
    /// One sentence.
    pub detail: String,
}

impl InputError {
    /// An error with this sentence.
    pub fn at(at: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { at: at.into(), detail: detail.into() }
    }
}
