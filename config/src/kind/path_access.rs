//! The access of larder to a path of the file system.

/// The access to a path and, if it is a directory, to all beneath it. Reading is part of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathAccess {
    /// Files are written, created and removed.
    pub writes: bool,
    /// Programs are started.
    pub runs: bool,
}

impl PathAccess {
    /// Reading.
    pub const READ: Self = Self { writes: false, runs: false };
    /// Reading and writing.
    pub const WRITE: Self = Self { writes: true, runs: false };
    /// Reading, and starting programs.
    pub const RUN: Self = Self { writes: false, runs: true };
    /// Each of these.
    pub const ALL: Self = Self { writes: true, runs: true };

    /// Whether it includes another one.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        (self.writes || !other.writes) && (self.runs || !other.runs)
    }

    /// The access that covers both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { writes: self.writes || other.writes, runs: self.runs || other.runs }
    }
}
