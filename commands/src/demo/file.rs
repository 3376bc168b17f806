//! The demo's configuration file: a larder.toml of its own, so that the page's Configuration view has one to change. It
//! is removed when the demo ends.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The number of names that are tried: a killed process may have left one.
const TRIES: u32 = 16;

/// A folder with the file, which is removed with its content when this is dropped.
pub struct DemoFile {
    folder: PathBuf,
    path: PathBuf,
}

impl DemoFile {
    /// Writes the file for the site at `site`, beneath `place`; other users cannot read it.
    ///
    /// # Errors
    /// It cannot be written there.
    pub fn beneath(place: &Path, site: SocketAddr) -> io::Result<Self> {
        let folder = made(place)?;
        let path = folder.join("larder.toml");
        // From here on the folder is removed after any failure.
        let it = Self { folder, path };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&it.path)?;
        file.write_all(text(site).as_bytes())?;
        Ok(it)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DemoFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn made(place: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let folder = place.join(format!("larder-demo-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn text(site: SocketAddr) -> String {
    TEXT.replace("SITE", &format!("http://{site}"))
}

/// The file, with `SITE` in place of the site's address.
const TEXT: &str = r#"# The demo's configuration. Change it in the page's Configuration view, or here with an editor: larder takes it over
# at once. It goes when the demo ends. What can be said is in docs/generated/config.md.

[cache.compress]
enabled = true

[[site]]
hosts = ["*"]

[[site.route]]
path = "/*"
proxy = { to = ["SITE"] }
# trace = 10
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::Config;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_file_of_the_demo_is_valid_and_removed_at_the_end() {
        let place = tempfile::tempdir().unwrap();
        let site = SocketAddr::from(([127, 0, 0, 1], 4000));
        let (one, other) =
            (DemoFile::beneath(place.path(), site).unwrap(), DemoFile::beneath(place.path(), site).unwrap());
        assert_ne!(one.path(), other.path());
        let config = Config::load(one.path(), &[]).unwrap();
        assert_eq!(0, config.warnings.len());
        assert_eq!((1, "*/*"), (config.sites[0].routes.len(), config.sites[0].routes[0].name.as_str()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((0o600, 0o700), (mode(one.path()), mode(one.path().parent().unwrap())));
        fs::write(one.path().with_file_name("kept-beside-it"), "x").unwrap();
        drop((one, other));
        assert_eq!(0, fs::read_dir(place.path()).unwrap().count());
        assert!(DemoFile::beneath(&place.path().join("not-there"), site).is_err());
    }
}
