//! The file of the history: that of the key `admin.history`, or the default one of a configuration file.

use crate::token;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Where the history is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryPlace {
    /// In RAM alone.
    Ram,
    /// In the default file of the configuration file, if there is one.
    Default,
    /// In this file.
    File(PathBuf),
}

impl HistoryPlace {
    /// That of the key with this text, which names this path.
    pub(crate) fn of(path: Option<PathBuf>, text: &str) -> Self {
        match path {
            _ if text == "off" => HistoryPlace::Ram,
            Some(path) => HistoryPlace::File(path),
            None => HistoryPlace::Default,
        }
    }

    /// The file; `configuration` is that of the configuration. Several larders of one user have several configurations, and so several
    /// files.
    ///
    /// # Errors
    /// The reason for which the history is in RAM alone.
    pub fn file(&self, configuration: Option<&Path>) -> Result<PathBuf, &'static str> {
        match self {
            HistoryPlace::Ram => Err("admin.history is off"),
            HistoryPlace::File(path) => Ok(path.clone()),
            HistoryPlace::Default => {
                let path = configuration.ok_or("larder was started without a configuration file")?;
                let path = path.canonicalize().or_else(|_| std::path::absolute(path));
                let path = path.map_err(|_| "the path of the configuration file is unknown")?;
                let name = xxh3_64(path.as_os_str().as_encoded_bytes()) >> 32;
                token::state_place(&format!("history-{name:08x}"))
                    .ok_or("neither HOME nor XDG_STATE_HOME is set")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_has_a_file_of_its_own() {
        let of = |text: &str| {
            let path = Some(text).filter(|it| !it.is_empty()).map(PathBuf::from);
            HistoryPlace::of(path, text)
        };
        assert_eq!((HistoryPlace::Ram, HistoryPlace::Default), (of("off"), of("")));
        assert_eq!(Ok(PathBuf::from("/a")), of("/a").file(None));
        assert_eq!(Err("admin.history is off"), of("off").file(Some(Path::new("/etc/x"))));
        assert_eq!(Err("larder was started without a configuration file"), of("").file(None));
        let default = |it: &str| of("").file(Some(Path::new(it))).ok();
        if let Some(one) = default("/nowhere/a.toml") {
            assert_ne!(Some(&one), default("/nowhere/b.toml").as_ref());
            assert!(one.file_name().unwrap().to_string_lossy().starts_with("history-"), "{one:?}");
        }
    }
}
