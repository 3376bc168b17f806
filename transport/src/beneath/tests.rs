use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("larder-beneath-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> OwnedFd {
        openat(rustix::fs::CWD, &self.0, STEP | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The object, or the error.
fn of(opened: Result<OwnedFd>) -> Result<(u64, u64)> {
    let stat = fstat(opened?)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A rename anywhere on the machine can disturb the kernel.
fn by_kernel(root: &OwnedFd, path: &str, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd> {
    loop {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
}

/// Every path of up to three of these names, with every set of flags, leads to the same object or error as by the kernel.
#[test]
fn a_path_leads_to_the_same_object_by_names_and_by_the_kernel() {
    let folder = Folder::new("same");
    let root = folder.0.join("root");
    for path in ["root/a/b/c", "outside"] {
        fs::create_dir_all(folder.0.join(path)).unwrap();
    }
    fs::write(folder.0.join("outside/secret"), "secret").unwrap();
    fs::write(root.join("file"), "file").unwrap();
    fs::write(root.join("a/b/file"), "other").unwrap();
    for (target, link) in [
        ("../outside", "out"),
        ("a/b", "in"),
        ("../../file", "a/b/up"),
        ("../../../outside/secret", "a/b/far"),
        ("self", "self"),
        ("absent", "dangling"),
        ("file/", "slash"),
        ("a/", "folder"),
        ("a/../a/./b//c", "winding"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    symlink(root.join("file"), root.join("absolute")).unwrap();
    let names = ["", ".", "..", "a", "b", "file", "out", "in", "up", "far", "winding", "absolute"];
    let mut paths: Vec<String> = names.map(str::to_owned).to_vec();
    for _ in 0..2 {
        let longer: Vec<String> =
            paths.iter().flat_map(|it| names.map(|name| format!("{it}/{name}"))).collect();
        paths.extend(longer);
        paths.sort();
        paths.dedup();
    }
    paths.extend(
        [
            "self",
            "self/a",
            "dangling",
            "slash",
            "slash/",
            "folder/b",
            "folder/",
            "a/b/c/",
            "out/secret",
            "a/b/c/../../../..",
        ]
        .map(str::to_owned),
    );
    paths.push(format!("/proc/{}/root", std::process::id()));
    paths.extend(["/etc/passwd", "/", "/etc/../etc/."].map(str::to_owned));
    let root = openat(rustix::fs::CWD, &root, STEP | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let rules = [beneath, beneath | ResolveFlags::NO_SYMLINKS, ResolveFlags::NO_MAGICLINKS];
    let read = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = [
        OFlags::PATH,
        OFlags::PATH | OFlags::NOFOLLOW,
        read,
        read | OFlags::DIRECTORY,
        read | OFlags::NOFOLLOW,
    ];
    let mut opened = 0;
    for path in paths.iter().filter(|it| !it.is_empty()) {
        for resolve in rules {
            for flags in flags.map(|it| it | OFlags::CLOEXEC) {
                let by_kernel = of(by_kernel(&root, path, flags, resolve));
                let own = of(by_names(root.as_fd(), path.as_bytes(), flags, resolve));
                opened += usize::from(own.is_ok());
                assert_eq!(by_kernel, own, "{path} {flags:?} {resolve:?}");
            }
        }
    }
    assert!(opened > 1_000, "{opened}");
}

/// Directories are swapped with links that lead outside while paths are opened.
#[test]
fn no_rename_leads_out_of_the_directory() {
    let folder = Folder::new("rename");
    for path in ["root/a/b", "outside/b"] {
        fs::create_dir_all(folder.0.join(path)).unwrap();
    }
    fs::write(folder.0.join("root/a/b/file"), "inside").unwrap();
    fs::write(folder.0.join("outside/b/file"), "outside").unwrap();
    symlink("../../outside", folder.0.join("root/link")).unwrap();
    let root = folder.0.join("root");
    let outside = fs::metadata(folder.0.join("outside/b/file")).unwrap();
    let outside =
        (std::os::unix::fs::MetadataExt::dev(&outside), std::os::unix::fs::MetadataExt::ino(&outside));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |one: &str, other: &str| fs::rename(root.join(one), root.join(other)).unwrap();
            while !is_over.load(Relaxed) {
                swap("a", "kept");
                swap("link", "a");
                swap("a", "link");
                swap("kept", "a");
            }
        });
        let directory = openat(rustix::fs::CWD, &root, STEP | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let paths = [&b"a/b/file"[..], b"a/b/../b/file", b"link/b/file"];
        let found: Vec<_> = (0..9_000)
            .map(|at| {
                of(by_names(directory.as_fd(), paths[at % 3], OFlags::RDONLY | OFlags::CLOEXEC, beneath))
            })
            .collect();
        is_over.store(true, Relaxed);
        assert!(!found.contains(&Ok(outside)));
        assert!(found.iter().any(Result::is_ok));
    });
}

/// As `fs.protected_symlinks` has it.
#[test]
fn a_link_of_another_user_in_a_shared_directory_is_not_followed() {
    if rustix::process::geteuid().as_raw() != 0 {
        return eprintln!("not tested: links of other users, which only root can make");
    }
    let folder = Folder::new("shared");
    fs::write(folder.0.join("file"), "file").unwrap();
    symlink("file", folder.0.join("link")).unwrap();
    std::os::unix::fs::lchown(folder.0.join("link"), Some(12_345), Some(12_345)).unwrap();
    let directory = folder.open();
    let opened = || of(by_names(directory.as_fd(), b"link", OFlags::RDONLY, ResolveFlags::BENEATH));
    assert!(opened().is_ok());
    fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    assert_eq!(Err(Errno::ACCESS), opened());
}

#[test]
fn many_links_and_long_paths_are_refused() {
    let folder = Folder::new("long");
    fs::write(folder.0.join("0"), "file").unwrap();
    for at in 1..=41 {
        symlink(format!("{}", at - 1), folder.0.join(format!("{at}"))).unwrap();
    }
    let directory = folder.open();
    let opened =
        |path: &str| of(by_names(directory.as_fd(), path.as_bytes(), OFlags::RDONLY, ResolveFlags::BENEATH));
    assert!(opened("40").is_ok());
    assert_eq!(Err(Errno::LOOP), opened("41"));
    assert_eq!(Err(Errno::NAMETOOLONG), opened(&"./".repeat(2048)));
    assert_eq!(Err(Errno::NAMETOOLONG), opened(&"n".repeat(256)));
}
