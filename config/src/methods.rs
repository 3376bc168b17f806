//! The methods of a route.

/// The methods of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Methods {
    /// All.
    Any,
    /// These, case-sensitive.
    Only(Vec<String>),
}

impl Methods {
    /// Whether the route accepts a method. `GET` includes `HEAD`, which requests the same without its content (RFC 9110
    /// section 9.3.2). Methods differ by case, but applications take `post` for `POST`: rules of the route must apply to both.
    #[must_use]
    pub fn allow(&self, method: &str) -> bool {
        match self {
            Methods::Any => true,
            Methods::Only(these) => {
                let allows =
                    |it: &String| it.eq_ignore_ascii_case(method) || (method == "HEAD" && it == "GET");
                these.iter().any(allows)
            }
        }
    }
}
