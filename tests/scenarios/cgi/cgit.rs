//! A real CGI program, cgit of Debian: started by larder, and by fcgiwrap as an application of FastCGI.

use crate::harness::{Larder, until};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CGIT: &str = "/usr/lib/cgit/cgit.cgi";

/// A running fcgiwrap, ended by its process id: one process, since those that `-c` adds outlive the first.
pub(super) struct Fcgiwrap(Child);

impl Fcgiwrap {
    pub(super) fn start(socket: &Path) -> Self {
        let mut command = Command::new("fcgiwrap");
        command.arg("-s").arg(format!("unix:{}", socket.display())).stdin(Stdio::null());
        let it = Self(command.spawn().expect("fcgiwrap: apt-get install fcgiwrap"));
        until("fcgiwrap listens", || UnixStream::connect(socket).is_ok());
        it
    }
}

impl Drop for Fcgiwrap {
    fn drop(&mut self) {
        // SAFETY: kill takes no pointers; the process is our child and has not been waited for.
        unsafe { libc::kill(libc::pid_t::try_from(self.0.id()).unwrap(), libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

/// A repository with two commits.
fn repository(folder: &Path) {
    let script = "git init -q -b main demo && cd demo && git config user.name Anna && git config user.email anna@example.com \
                  && mkdir src && echo 'first text' > src/a.txt && git add . && git commit -q -m 'first commit' \
                  && echo 'second text' > src/a.txt && git commit -q -a -m 'second commit' && git rev-parse HEAD^ > ../first";
    let git = Command::new("sh").args(["-ec", script]).current_dir(folder).status().unwrap();
    assert!(git.success());
}

/// The settings of cgit for the repository, whose pages are below this path.
fn settings(folder: &Path, prefix: &str) {
    let at = folder.display();
    let text = format!(
        "virtual-root={prefix}/\nenable-http-clone=1\nsnapshots=tar.gz\nrepo.url=demo\nrepo.path={at}/demo/.git\nrepo.desc=A demonstration\n"
    );
    std::fs::write(folder.join("cgitrc"), text).unwrap();
}

/// Pages by path info and query, a file as it is, an archive, and a clone by Git itself.
fn pages(larder: &Larder, folder: &Path, by: &str, prefix: &str) {
    let get = |target: &str| larder.get(&format!("{prefix}{target}"));
    let shows = |target: &str, part: &str| {
        let it = get(target);
        assert_eq!((200, true), (it.status, it.text().contains(part)), "{by} {target}: {it:?}");
    };
    shows("/", "A demonstration");
    shows("/demo/log/", "second commit");
    shows("/demo/tree/src/a.txt", "second text");
    let first = std::fs::read_to_string(folder.join("first")).unwrap();
    shows(&format!("/demo/tree/src/a.txt?id={}", first.trim()), "first text");
    let plain = get("/demo/plain/src/a.txt");
    assert_eq!((200, "second text\n"), (plain.status, &*plain.text()), "{by}: {plain:?}");
    assert_eq!(404, get("/demo/plain/none").status, "{by}");
    let archive = get("/demo/snapshot/demo-main.tar.gz");
    assert_eq!(200, archive.status, "{by}: {archive:?}");
    let path = folder.join("demo.tar.gz");
    std::fs::write(&path, &archive.body).unwrap();
    let list = Command::new("tar").arg("-tzf").arg(&path).output().unwrap();
    assert!(list.status.success(), "{by}: {list:?}");
    assert!(String::from_utf8_lossy(&list.stdout).contains("demo-main/src/a.txt"), "{by}: {list:?}");
    let url = format!("http://{}{prefix}/demo", larder.address);
    let target = folder.join(by);
    let clone = Command::new("git").args(["clone", "-q", &url]).arg(&target).output().unwrap();
    assert!(clone.status.success(), "{by}: {clone:?}");
    assert_eq!("second text\n", std::fs::read_to_string(target.join("src/a.txt")).unwrap(), "{by}");
}

#[test]
fn cgit_is_served_by_larder_and_behind_fcgiwrap() {
    let folder = tempfile::tempdir().unwrap();
    repository(folder.path());
    let at = folder.path().display();
    let socket = folder.path().join("fcgiwrap.sock");
    let _wrapper = Fcgiwrap::start(&socket);
    let env = format!("CGIT_CONFIG = \"{at}/cgitrc\"");
    let of_wrapper = |more: &str| {
        let to = format!("fastcgi+unix:{}", socket.display());
        format!("proxy = {{ to = [\"{to}\"], env = {{ {env}, SCRIPT_FILENAME = \"{CGIT}\"{more} }} }}")
    };
    let routes = [
        ("cgi", "", format!("cgi = {{ program = \"{CGIT}\", env = {{ {env} }} }}")),
        ("fastcgi", "", of_wrapper("")),
        ("fastcgi-below", "/git", of_wrapper(", SCRIPT_NAME = \"/git\", PATH_INFO = \"/{1}\"")),
    ];
    for (by, prefix, route) in routes {
        settings(folder.path(), prefix);
        let larder = Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"{prefix}/*\"\n{route}\n"
        ));
        pages(&larder, folder.path(), by, prefix);
    }
}
