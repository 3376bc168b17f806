//! Whether the files of logs can be opened, without opening them: errors and warnings of `check`, which a start would report otherwise.

use crate::{Config, Problem, Source};
use larder_observe::log::sink::LogTarget;
use rustix::fs::{Access, access};
use std::path::Path;

/// The log files that cannot be opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnusableFiles {
    /// For every user.
    pub errors: Vec<Problem>,
    /// For this user; the server may run as another one.
    pub warnings: Vec<Problem>,
}

/// The log files of a configuration that cannot be opened.
pub fn unusable(config: &Config) -> UnusableFiles {
    let mut found = UnusableFiles::default();
    let mut see = |target: &LogTarget, source: Source, key: &str| {
        let LogTarget::File(path) = target else { return };
        let problem = |what: &str| Problem {
            source: source.clone(),
            key: key.to_owned(),
            text: format!("{} {what}", path.display()),
        };
        match look(path) {
            FileProspect::Fair => {}
            FileProspect::Unfit(what) => found.errors.push(problem(what)),
            FileProspect::NotOurs => {
                found
                    .warnings
                    .push(problem("cannot be written by this user; the user of larder must be able to"));
            }
        }
    };
    see(&config.log.access, config.decided.by("log.access"), "log.access");
    see(&config.log.error, config.decided.by("log.error"), "log.error");
    if let Some(audit) = &config.admin.audit {
        see(&LogTarget::File(audit.clone()), config.decided.by("admin.audit"), "admin.audit");
    }
    for site in &config.sites {
        if let (Some(target), Some(route)) = (&site.log.target, site.routes.first()) {
            see(target, route.decided.by("site[].access_log"), "site.access_log");
        }
    }
    found
}

/// The prospect of opening a file for appending.
enum FileProspect {
    Fair,
    Unfit(&'static str),
    NotOurs,
}

fn look(path: &Path) -> FileProspect {
    let may = |it: &Path, what: Access| match access(it, what) {
        Ok(()) => FileProspect::Fair,
        Err(_) => FileProspect::NotOurs,
    };
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (path.metadata(), folder.metadata()) {
        (Ok(it), _) if it.is_dir() => FileProspect::Unfit("is a directory; name a file in it"),
        (Ok(_), _) => may(path, Access::WRITE_OK),
        (Err(_), Ok(it)) if it.is_dir() => may(folder, Access::WRITE_OK | Access::EXEC_OK),
        (Err(_), Ok(_)) => FileProspect::Unfit("cannot be created: its parent is not a directory"),
        (Err(_), Err(it)) if it.kind() == std::io::ErrorKind::PermissionDenied => FileProspect::NotOurs,
        (Err(_), Err(_)) => FileProspect::Unfit("cannot be created: its directory does not exist; create it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_a_directory_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let of = |keys: &str, site: &str| {
            let text =
                format!("{keys}\n[[site]]\nhosts = [\"*\"]\n{site}\n[[site.route]]\nproxy.to = \":1\"\n");
            let config = Config::from_text(&text, "t.toml", folder.path(), &[]).unwrap();
            let message =
                config.fit().map(|it| it.warnings.iter().map(ToString::to_string).collect::<Vec<_>>());
            message.map_err(|it| it.to_string().replace(&format!("{}/", folder.path().display()), ""))
        };
        let missing = "cannot be created: its directory does not exist; create it";
        for (key, value) in [("log.access", "no/a"), ("log.error", "no/e"), ("admin.audit", "no/b")] {
            let expect = format!("t.toml:1: {key}: {value} {missing}");
            assert_eq!(Err(expect), of(&format!("{key} = \"{value}\""), ""));
        }
        let both = of("log.access = \"no/a\"", "access_log = \"no/s\"").unwrap_err();
        assert_eq!(
            format!("t.toml:1: log.access: no/a {missing}\nt.toml:4: site.access_log: no/s {missing}"),
            both
        );
        let below = of("log.access = \"file/a\"", "").unwrap_err();
        assert!(below.ends_with("file/a cannot be created: its parent is not a directory"), "{below}");
        let place = of("log.access = \".\"", "").unwrap_err();
        assert!(place.ends_with("is a directory; name a file in it"), "{place}");
        assert_eq!(Ok(Vec::new()), of("log.access = \"new\"", "access_log = \"file\""));
        assert_eq!(Ok(Vec::new()), of("log.access = \"-\"", "access_log = \"off\""));
    }
}
