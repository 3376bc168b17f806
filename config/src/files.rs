//! The settings of directories: of a route over files, and of files that an application hands over.

use larder_files::SymlinkPolicy;
use std::path::PathBuf;
use std::time::Duration;

/// A directory of a route.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// The directory; absolute, and it existed when the configuration was checked.
    pub root: PathBuf,
    /// The files that a path may mean, in order.
    pub members: Vec<larder_files::TryMember>,
    /// Whether pages have URLs without `.html`.
    pub clean_urls: bool,
    /// Whether paths without a file belong to the next route.
    pub fall_through: bool,
    /// The page that is sent with 404, beneath the root.
    pub not_found: Option<String>,
    /// The compression of files; `None` compresses none.
    pub compress: Option<std::sync::Arc<larder_semantics::compress::Compress>>,
    /// Prefix removed from the request path.
    pub strip: Option<String>,
    /// Index files, in order.
    pub index: Vec<String>,
    /// Directories without index.
    pub listing: bool,
    /// Whether names that begin with a dot are served.
    pub dotfiles: bool,
    /// Symbolic links.
    pub symlinks: SymlinkPolicy,
    /// Whether precompressed siblings are used.
    pub precompressed: bool,
    /// `Cache-Control` of every file; `None` sends none.
    pub cache_control: Option<String>,
    /// The time for which an open file is used before the file system is checked again.
    pub cache_for: Duration,
    /// Files up to this many bytes are kept in RAM whole.
    pub small_file: u64,
}

/// The directory of files that the application of a route hands over.
#[derive(Clone, Debug)]
pub struct SendfileConfig {
    /// The directory, absolute; it existed when the configuration was checked.
    pub root: PathBuf,
    /// The same without symbolic links, as applications may name it.
    pub real: PathBuf,
    /// The prefix of URL paths that stands for it.
    pub prefix: Option<String>,
}
