//! Static files: the lookup of a request path beneath a root, and its response. No sockets here, and no HTTP caching
//! rules: a file uses the same send path as a stored response.
//!
//! ```text
//! target ── path ── cache ──┬── fresh ─────────────────────┬── OpenFile ── respond
//!                           └── pool: find, resolve, load ─┤
//!                                       ├── listing        ├── forms: made on the pool, kept in the cache
//!                                       └── redirect       └── Answer
//! ```
//!
//! The `scripts` of PHP are found as files are, and run by an application.
//!
//! A path without a file is `absent` for a while, where a later route answers it.
//!
//! [`Root::lookup_now`] is the hit path: synchronous, without allocation or exclusive lock. [`Root::answer`] is the
//! general case: async, and every system call that may touch a disk runs on a bounded pool of threads, so that a slow
//! disk never blocks the event loop.

mod absent;
mod answer;
mod cache;
mod directory;
mod explain;
mod file_checksums;
mod find;
mod forms;
mod listing;
mod load;
mod media;
mod members;
mod negotiate;
mod open_file;
pub mod path;
mod resolve;
mod respond;
mod root;
mod root_directory;
mod scripts;

pub use answer::NotServed;
pub use explain::{FileFinding, FileOutcome};
pub use find::FileRule;
pub use forms::{Encoded, FileEncoder};
pub use media::media_type;
pub use members::TryMember;
pub use negotiate::FileCoding;
pub use open_file::OpenFile;
pub use respond::{is_plain, respond};
pub use root::{Dotfiles, FileCompression, FileLookup, Listing, Root, RootOptions, SymlinkPolicy};
pub use scripts::{FoundScript, ScriptOptions, ScriptRoot, ScriptRule};
