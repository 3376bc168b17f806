//! The CGI programs of a route, and how they are run. `larder_config` makes it.

use larder_semantics::cgi::EarlierRoute;
use larder_stdx::secret::Secret;
use std::fmt;
use std::path::PathBuf;

/// The CGI programs of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramSettings {
    /// Their files.
    pub place: ProgramPlace,
    /// The beginning of request paths that is not part of the path of a program: in the normal form, without a slash at its end.
    pub strip: Vec<u8>,
    /// Further variables of their environment, which replace those of the request.
    pub env: Vec<(String, Secret)>,
    /// Their working directory; `None` for the directory of the program.
    pub directory: Option<PathBuf>,
    /// The most that run at a time, in all workers; above zero.
    pub processes: usize,
    /// The bounds of each process.
    pub bounds: ProcessBounds,
    /// The directory of the site, for `DOCUMENT_ROOT` and `PATH_TRANSLATED`.
    pub document_root: Option<PathBuf>,
    /// The routes before that of the programs: see [`larder_semantics::cgi::other_route`].
    pub before: Vec<EarlierRoute>,
}

/// The files of CGI programs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProgramPlace {
    /// The executable files beneath this directory, by the path of the request.
    Directory(PathBuf),
    /// This file, for every path.
    Program(PathBuf),
}

/// The bounds of a process (`setrlimit`), and of each that it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessBounds {
    /// Bytes of its address space.
    pub memory: Option<u64>,
    /// Seconds of CPU.
    pub cpu: Option<u64>,
    /// Open files.
    pub files: u64,
}

impl fmt::Display for ProgramSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ProgramPlace::Directory(path) | ProgramPlace::Program(path)) = &self.place;
        write!(f, "cgi:{}", path.display())
    }
}
