//! The start of a CGI program: the search for its file, its environment and its bounds. Blocks on the file system, and until the
//! program is loaded: not for a thread with an event loop.

use super::process::ProgramProcess;
use crate::error::OriginError;
use crate::process_slots::ProcessSlot;
use crate::program_settings::{ProcessBounds, ProgramPlace, ProgramSettings};
use larder_semantics::cgi::{ProgramPath, Script};
use larder_semantics::field::FieldList;
use larder_transport::beneath;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The search path of programs, unless the configuration has one.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program to start.
pub(super) struct LaunchRequest {
    /// The path of the request; `None` where it cannot name a program.
    pub path: Option<ProgramPath>,
    /// The variables of the request, without those of the script.
    pub variables: FieldList,
    /// Whether the request has a body.
    pub has_input: bool,
}

/// A started program, and larder's ends of its pipes.
pub(super) struct Launched {
    /// Its file beneath the directory of programs, for the log.
    pub name: String,
    pub process: ProgramProcess,
    /// `None` for a request without a body: the program reads the end at once.
    pub input: Option<OwnedFd>,
    pub output: OwnedFd,
    pub errors: OwnedFd,
}

/// Why no program was started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotLaunched {
    /// The path names none, or a file that is no executable program.
    NotFound,
    /// It could not be started.
    Fault(OriginError),
}

/// Finds the program and starts it. Its environment has the variables and nothing of this process. Its arguments are none: the
/// query never becomes one (CVE-2012-1823).
pub(super) fn launch(
    settings: &ProgramSettings,
    order: LaunchRequest,
    slot: ProcessSlot,
) -> Result<Launched, NotLaunched> {
    let path = order.path.ok_or(NotLaunched::NotFound)?;
    let method = order.variables.get("request_method").unwrap_or_default();
    let FoundProgram { file, name, script } = find(settings, &path, &String::from_utf8_lossy(method))?;
    let mut command = Command::new(&file);
    let shown = shown(&settings.place, &name);
    command.arg0(name).env_clear().env("PATH", PATH);
    for it in order.variables.iter() {
        command.env(it.name, OsStr::from_bytes(it.value));
    }
    set_script(&mut command, &file, &script);
    set_document_root(&mut command, settings, &script);
    command.envs(settings.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(directory) = settings.directory.as_deref().or(file.parent()) {
        command.current_dir(directory);
    }
    command.stdin(if order.has_input { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|it| not_started(&file, &it))?;
    let pid = Pid::from_child(&child);
    settings.bounds.apply(pid);
    let process = ProgramProcess::new(pid, slot).map_err(|it| not_started(&file, &it))?;
    let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(NotLaunched::Fault(OriginError::Disconnected));
    };
    let input = child.stdin.take().map(OwnedFd::from);
    Ok(Launched { name: shown, process, input, output: output.into(), errors: errors.into() })
}

/// The file of a program beneath its directory.
fn shown(place: &ProgramPlace, file: &Path) -> String {
    let beneath = match place {
        ProgramPlace::Directory(root) => file.strip_prefix(root).ok(),
        ProgramPlace::Program(_) => file.file_name().map(Path::new),
    };
    beneath.unwrap_or(file).display().to_string()
}

fn set_script(command: &mut Command, file: &Path, script: &Script) {
    let Script { name, info, .. } = script;
    command.env("SCRIPT_FILENAME", file).env("SCRIPT_NAME", OsStr::from_bytes(name));
    let all = [name.as_slice(), info.as_deref().unwrap_or_default()].concat();
    command.env("DOCUMENT_URI", OsStr::from_bytes(&all));
    if let Some(info) = info {
        command.env("PATH_INFO", OsStr::from_bytes(info));
    }
}

/// `DOCUMENT_ROOT`, unless `env` has it, and the path behind that of the program beneath it.
fn set_document_root(command: &mut Command, settings: &ProgramSettings, script: &Script) {
    let given = settings.env.iter().find(|it| it.0 == "DOCUMENT_ROOT").map(|it| OsStr::new(it.1.expose()));
    let Some(root) = given.or(settings.document_root.as_deref().map(Path::as_os_str)) else { return };
    command.env("DOCUMENT_ROOT", root);
    if let Some(info) = &script.info {
        let translated = [root.as_bytes(), info].concat();
        command.env("PATH_TRANSLATED", OsStr::from_bytes(&translated));
    }
}

/// A program of a request.
struct FoundProgram {
    /// Its file. Beneath the root no symbolic link is on the way to it: one that is replaced after the search leads the start, and the
    /// interpreter, which opens a script again, to no other file.
    file: PathBuf,
    /// The path by which it was found, as the name by which a binary knows itself.
    name: PathBuf,
    /// The script that it is for the request.
    script: Script,
}

fn find(settings: &ProgramSettings, path: &ProgramPath, method: &str) -> Result<FoundProgram, NotLaunched> {
    let root = match &settings.place {
        ProgramPlace::Program(file) => {
            let script = path.script(path.strip());
            return Ok(FoundProgram { file: file.clone(), name: file.clone(), script });
        }
        ProgramPlace::Directory(root) => root,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, root, flags, Mode::empty()).map_err(|it| not_started(root, &it.into()))?;
    for end in path.ends() {
        let beneath = path.beneath(end);
        let found = open_beneath(&directory, beneath).map_err(|it| not_found(root, it))?;
        let stat = fstat(&found).map_err(|it| not_found(root, it))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {}
            _ if path.is_of_other_route(end, method, &settings.before) => {
                return Err(NotLaunched::NotFound);
            }
            FileType::RegularFile => {
                let name = root.join(OsStr::from_bytes(beneath));
                let file = resolved(root, &directory, &found).map_err(|it| not_started(&name, &it.into()))?;
                return match stat.st_mode & 0o111 {
                    _ if is_hidden(&file) => Err(NotLaunched::NotFound),
                    0 => Err(NotLaunched::NotFound),
                    _ => Ok(FoundProgram { file, name, script: path.script(end) }),
                };
            }
            _ => return Err(NotLaunched::NotFound),
        }
    }
    Err(NotLaunched::NotFound)
}

/// Opens a file whose path, symbolic links included, does not leave the directory.
fn open_beneath(directory: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    beneath::open(directory.as_fd(), path, OFlags::PATH, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
}

/// The path of an open file beneath the root, with no symbolic link behind the root.
fn resolved(root: &Path, directory: &OwnedFd, file: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let (top, path) = (real_path(directory)?, real_path(file)?);
    Ok(path.strip_prefix(&top).map(|it| root.join(it)).unwrap_or(path))
}

fn real_path(file: &OwnedFd) -> rustix::io::Result<PathBuf> {
    let path = readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

/// Whether the file at the end of all links has a hidden name, such as that of a draft. As for files, directories may be hidden:
/// `current -> .releases/5`.
fn is_hidden(file: &Path) -> bool {
    file.file_name().is_some_and(|it| it.as_bytes().starts_with(b"."))
}

fn not_found(root: &Path, error: Errno) -> NotLaunched {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::XDEV => {
            NotLaunched::NotFound
        }
        Errno::ACCESS => NotLaunched::NotFound,
        error => not_started(root, &error.into()),
    }
}

fn not_started(file: &Path, error: &io::Error) -> NotLaunched {
    let why = match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => return NotLaunched::Fault(OriginError::NoDescriptor),
        Some(Errno::TOOBIG) => return NotLaunched::Fault(OriginError::VariablesTooLarge),
        Some(Errno::NOEXEC) => "it is no binary of this machine, and has no #! line".to_owned(),
        Some(Errno::NOENT) => "it, or the interpreter in its #! line, does not exist".to_owned(),
        _ => larder_stdx::error::plain(error),
    };
    let text = format!("the program {} cannot be started: {why}", file.display());
    NotLaunched::Fault(OriginError::Connect(text))
}

impl ProcessBounds {
    /// Applies them to a process that has just begun to run.
    fn apply(self, pid: Pid) {
        let set = |resource, most: Option<u64>, last: u64| {
            if let Some(most) = most {
                let bound = Rlimit { current: Some(most), maximum: Some(most.saturating_add(last)) };
                let _ = prlimit(Some(pid), resource, bound);
            }
        };
        set(Resource::As, self.memory, 0);
        // SIGXCPU, and a second later SIGKILL.
        set(Resource::Cpu, self.cpu, 1);
        set(Resource::Nofile, Some(self.files), 0);
    }
}
