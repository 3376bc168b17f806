//! Statement 16: what a request can do to a directory, and what the directory can do to a response.
