//! The file of the history: that of the key `admin.history`, or the default one of a configuration file.

use crate::token;
use std::path::{Path, PathBuf};

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

    /// The file; `configuration` is that of the configuration.
    ///
    /// # Errors
    /// The reason for which the history is in RAM alone.
    pub fn file(&self, configuration: Option<&Path>) -> Result<PathBuf, &'static str> {
        match self {
            HistoryPlace::Ram => Err("admin.history is off"),
            HistoryPlace::File(path) => Ok(path.clone()),
            HistoryPlace::Default => token::state_place_of("history", configuration),
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
