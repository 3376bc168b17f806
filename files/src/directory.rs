//! A served directory with its options and its open-file cache, shared by the steps of a lookup.

use crate::absent::AbsentPaths;
use crate::cache::Cache;
use crate::forms::FileEncoder;
use crate::members::TryMember;
use crate::path::Dotfiles;
use crate::resolve::{FileNames, ResolveRules, SymlinkPolicy};
use crate::root_directory::{OpenRoot, RootDirectory};
use larder_counters::Counters;
use larder_semantics::compress::Compress;
use std::ops::Deref;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// A directory that is served.
pub struct ServedDirectory {
    /// Where it is.
    pub directory: RootDirectory,
    /// Its options.
    pub options: RootOptions,
    /// Its open files.
    pub cache: Cache,
    /// Its paths without a file; `None` if every request looks on the disk, or no other route needs to know.
    pub absent: Option<AbsentPaths>,
    /// The process's counters.
    pub counters: Arc<Counters>,
}

impl ServedDirectory {
    /// The directory for one lookup. Blocks for one `stat`.
    pub fn view(&self) -> DirectoryView<'_> {
        DirectoryView { served: self, opened: self.directory.current() }
    }
}

/// A served directory as one lookup sees it.
pub struct DirectoryView<'a> {
    served: &'a ServedDirectory,
    opened: Arc<OpenRoot>,
}

impl DirectoryView<'_> {
    /// The descriptor beneath which paths are resolved.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }
}

impl Deref for DirectoryView<'_> {
    type Target = ServedDirectory;

    fn deref(&self) -> &ServedDirectory {
        self.served
    }
}

/// The response for a directory without index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// 404.
    #[default]
    Off,
    /// Its names: HTML, or JSON if `Accept` prefers that.
    On,
}

/// The compression of the files of a directory.
#[derive(Clone, Debug)]
pub struct FileCompression {
    /// Codings, sizes and media types.
    pub rules: Arc<Compress>,
    /// The encoder, shared by all directories.
    pub encoder: Arc<FileEncoder>,
}

/// The options of a served directory.
#[derive(Clone, Debug)]
pub struct RootOptions {
    /// Removed from the front of every path, such as `/static`; a path without this prefix is not found. Without a slash
    /// at the end; empty removes nothing.
    pub strip: String,
    /// Index files of a directory, the first existing one.
    pub index: Vec<String>,
    /// The response for a directory without index.
    pub listing: Listing,
    /// Whether names that begin with a dot are visible.
    pub dotfiles: Dotfiles,
    /// The symbolic links that are followed.
    pub symlinks: SymlinkPolicy,
    /// `NAME.br`, `NAME.zst`, `NAME.gz` replace `NAME` if the client accepts them and they are not older.
    pub precompressed: bool,
    /// The files that a path may mean, in order; the first that exists answers.
    pub members: Vec<TryMember>,
    /// Pages have URLs without `.html` and without the name of an index; the others redirect to these.
    pub clean_urls: bool,
    /// Whether another route answers paths without a file: see [`crate::Root::has_file`].
    pub fall_through: bool,
    /// The page that is sent with 404, beneath the root: `/404.html`.
    pub not_found: Option<String>,
    /// The compression of files that have no sibling in the coding.
    pub compress: Option<FileCompression>,
    /// `Cache-Control` of every file; `None` sends none.
    pub cache_control: Option<String>,
    /// Extension (without dot) and media type, before the built-in ones.
    pub media_types: Vec<(String, String)>,
    /// The time within which a change on disk is seen; with zero every request checks.
    pub cache_for: Duration,
    /// Files up to this many bytes are kept on the heap.
    pub small_file: u64,
    /// Larger ones up to this many bytes are copied into a `memfd` each: sent by the kernel like the file, but unaffected
    /// by edits, and never waiting for a disk.
    pub copied_file: u64,
    /// Files kept open or in memory, siblings included: at most this many descriptors.
    pub entries: usize,
    /// The most bytes of files in memory, heads included. (One file always fits.)
    pub memory: u64,
    /// Lookups on the disk at the same time.
    pub concurrency: usize,
    /// Lookups that wait for the disk; more are rejected with 503.
    pub queue: usize,
}

impl RootOptions {
    /// The links that are followed, and the files that are served.
    pub(crate) fn rules(&self) -> ResolveRules {
        ResolveRules { symlinks: self.symlinks, names: FileNames::Sent(self.dotfiles) }
    }
}

impl Default for RootOptions {
    fn default() -> Self {
        RootOptions {
            strip: String::new(),
            index: vec!["index.html".to_owned()],
            listing: Listing::default(),
            dotfiles: Dotfiles::default(),
            symlinks: SymlinkPolicy::default(),
            precompressed: true,
            members: vec![TryMember::own()],
            clean_urls: false,
            fall_through: false,
            not_found: None,
            compress: None,
            cache_control: None,
            media_types: Vec::new(),
            cache_for: Duration::from_secs(1),
            small_file: 16 << 10,
            copied_file: 1 << 20,
            entries: 1024,
            memory: 64 << 20,
            concurrency: 16,
            queue: 1024,
        }
    }
}
