//! A directory to serve, requests to it, and the bytes that come of them.
#![allow(dead_code, reason = "each test file uses its own part")]

use larder_files::{Root, RootOptions};
use larder_semantics::field::Field;
use larder_stdx::clock::Monotonic;
use larder_transport::body::BodyPiece;
use larder_transport::{ResponseBody, Synthetic};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

/// A served directory `root` inside a temporary one that also holds what must never be seen.
pub struct Site {
    outer: TempDir,
    pub root: Arc<Root>,
    pub counters: Arc<larder_counters::Counters>,
    runtime: tokio::runtime::Runtime,
}

/// The content outside of the root.
pub const SECRET: &str = "the secret";

impl Site {
    pub fn new(files: &[(&str, &str)]) -> Site {
        Site::with(RootOptions::default(), files)
    }

    pub fn with(options: RootOptions, files: &[(&str, &str)]) -> Site {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("root")).unwrap();
        fs::write(outer.path().join("secret"), SECRET).unwrap();
        let counters = Arc::new(larder_counters::Counters::default());
        let root = Root::open(&outer.path().join("root"), options, counters.clone()).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        let site = Site { outer, root, counters, runtime };
        for (name, text) in files {
            site.write(name, text);
        }
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.outer.path().join("root").join(name)
    }

    pub fn outside(&self) -> &Path {
        self.outer.path()
    }

    /// Writes in place: the inode stays.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }

    pub fn set_modified(&self, name: &str, seconds: u64) {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(self.path(name)).unwrap().set_modified(time).unwrap();
    }

    /// A request at `now` (milliseconds): `METHOD target`, then `Name: value` lines.
    pub fn at(&self, now: u64, request: &str) -> Got {
        let mut lines = request.lines();
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let fields: Vec<Field<'_>> = lines
            .map(|it| it.trim_start().split_once(": ").unwrap())
            .map(|(name, value)| Field { name, value: value.as_bytes() })
            .collect();
        let answer = self.root.answer(method, target, &fields, Monotonic(now));
        Got::of(method, &self.runtime.block_on(answer))
    }

    pub fn request(&self, request: &str) -> Got {
        self.at(1000, request)
    }

    pub fn get(&self, target: &str) -> Got {
        self.request(&format!("GET {target}"))
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// A response, read whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Got {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Got {
    /// A client's result in answer to `method`.
    pub fn of(method: &str, answer: &Synthetic) -> Got {
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let mut fields: Vec<(String, String)> =
            answer.fields.iter().map(|it| (it.name.to_ascii_lowercase(), text(it.value))).collect();
        if let ResponseBody::Length(length) = answer.framing() {
            match fields.iter_mut().find(|it| it.0 == "content-length") {
                Some(it) => it.1 = length.to_string(),
                None => fields.push(("content-length".to_owned(), length.to_string())),
            }
        }
        let body = if method == "HEAD" { Vec::new() } else { answer.body.iter().flat_map(read).collect() };
        Got { status: answer.status, fields, body }
    }

    #[track_caller]
    pub fn field(&self, name: &str) -> &str {
        self.find(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.fields))
    }

    pub fn find(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The bytes of a piece as the kernel would send them: fewer than promised where the file is shorter.
pub fn read(piece: &BodyPiece) -> Vec<u8> {
    match piece {
        BodyPiece::Bytes(bytes) => bytes.to_vec(),
        BodyPiece::File(slice) => {
            let file = File::from(slice.owner.fd().try_clone_to_owned().unwrap());
            let mut bytes = vec![0; usize::try_from(slice.length).unwrap()];
            let got = file.read_at(&mut bytes, slice.offset).unwrap();
            bytes.truncate(got);
            bytes
        }
    }
}
