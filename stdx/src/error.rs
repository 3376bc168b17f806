//! Errors of the operating system, as shown to users.

/// The message of the error, without its number.
#[must_use]
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(cut) => text[..cut].to_lowercase(),
        None => text,
    }
}
