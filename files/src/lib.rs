//! Static files: a request path beneath a root becomes something to send. No sockets here, and no
//! caching rules of HTTP: a file leaves through the same send path as a stored response.
//!
//! ```text
//! target ── path ── cache ──┬── fresh ─────────────────────┬── OpenFile ── respond
//!                           └── pool: resolve, load ───────┤
//!                                       ├── listing        └── Answer
//!                                       └── redirect
//! ```
//!
//! [`Root::lookup_now`] is the hit path: synchronous, nothing allocated, no exclusive lock.
//! [`Root::answer`] is everything else: async, and every system call that may touch a disk runs on a
//! bounded pool of threads, so that a slow disk never holds the event loop.

mod answer;
mod cache;
mod listing;
mod load;
mod media;
mod negotiate;
mod open_file;
pub mod path;
mod resolve;
mod respond;
mod root;

pub use answer::{FileResponse, NotServed};
pub use media::media_type;
pub use negotiate::SiblingCoding;
pub use open_file::OpenFile;
pub use respond::{is_plain, respond};
pub use root::{Dotfiles, FileLookup, Listing, Root, RootOptions, SymlinkPolicy};
