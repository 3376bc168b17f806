//! The section `cgi` of a route: CGI programs, which are used as an origin.

use super::proxy::QUEUE_OF_EACH;
use super::{ConfigCheck, RoutePath, Source, clamp};
use crate::kind::PathPattern;
use crate::member::{MemberProtocol, OriginMember, Origins};
use crate::{OriginHost, Proxy};
use larder_gateway::HashBy;
use larder_gateway::buffered::BufferedBodies;
use larder_origin::{GroupRules, OriginAddress, OriginLimits, ProcessBounds, ProgramPlace, ProgramSettings};
use larder_semantics::path;
use larder_stdx::circuit_breaker::BreakerSettings;
use larder_stdx::secret::Secret;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the head of an output.
const HEAD: usize = 64 << 10;

impl ConfigCheck {
    pub(super) fn cgi(&mut self, at: &RoutePath, route: &Source, pattern: &PathPattern) -> Option<Proxy> {
        self.refuse_target(at);
        let place = self.program_place(at, route)?;
        let processes = self.usize(&at.key("cgi.max_processes"));
        let programs = ProgramSettings {
            strip: self.program_strip(at, pattern, &place),
            env: self.program_env(at),
            directory: self.program_directory(at),
            processes,
            bounds: ProcessBounds {
                memory: self.given_number(&at.key("cgi.memory")),
                cpu: Some(self.time(&at.key("cgi.cpu")).as_secs()).filter(|it| *it > 0),
                files: self.number(&at.key("cgi.files")),
            },
            place,
            document_root: None,
            before: Vec::new(),
        };
        let (queue, silence) = (self.given_number(&at.key("cgi.queue")), self.time(&at.key("cgi.timeout")));
        let limits = OriginLimits {
            connect: self.time(&at.key("cgi.queue_timeout")),
            handshake: Duration::ZERO,
            first_byte: silence,
            between_bytes: silence,
            total: self.time(&at.key("cgi.total_timeout")),
            idle: Duration::ZERO,
            head_size: HEAD,
            connections: processes,
            queue: queue.map_or(processes.saturating_mul(QUEUE_OF_EACH), clamp),
            queue_wait: None,
            idle_connections: 0,
            interim: 0,
        };
        let member = OriginMember {
            at: OriginAddress::Programs(Arc::new(programs)),
            scheme: MemberProtocol::Http,
            weight: 1,
            drained: false,
            base: String::new(),
            hides_base: false,
        };
        // A program starts once the whole body is here: a slow client occupies no process.
        let buffers = BufferedBodies::All;
        Some(Proxy {
            to: single(member),
            limits,
            host: OriginHost::Client,
            sticky: None,
            buffers,
            sendfile: self.sendfile(at),
            php: None,
        })
    }

    /// The path of a program is that of the request: keys that change it would make its references wrong.
    fn refuse_target(&mut self, at: &RoutePath) {
        for name in ["strip", "add_prefix", "rewrite"] {
            let key = at.key(name);
            if self.values.given.contains_key(&key) {
                let instead = match name {
                    "strip" => "write cgi.strip instead",
                    "rewrite" => {
                        "remove it; cgi.program runs one program for all paths, and query.set gives it parts of the path"
                    }
                    _ => "remove it",
                };
                let text =
                    format!("the path of the request names the program, and is not rewritten; {instead}");
                self.problem(self.source(&key), &format!("site.route.{name}"), &text);
            }
        }
    }

    fn program_place(&mut self, at: &RoutePath, route: &Source) -> Option<ProgramPlace> {
        let (root, program) = (at.key("cgi.root"), at.key("cgi.program"));
        match (self.path(&root), self.path(&program)) {
            (Some(_), Some(_)) => {
                let text = "root and program exclude each other; remove program for the programs of a directory, or root for one program";
                self.problem(self.source(&program), "site.route.cgi.program", text);
                None
            }
            (Some(path), None) => {
                self.existing(&path, &root, "site.route.cgi.root").map(ProgramPlace::Directory)
            }
            (None, Some(path)) => self.program_file(&program, &path).map(ProgramPlace::Program),
            (None, None) => {
                if !self.is_wrong(&root) && !self.is_wrong(&program) {
                    let text = "missing; set the directory of the programs, such as root = \"/usr/lib/cgi-bin\", or program = \"FILE\" for one program";
                    self.problem(route.clone(), "site.route.cgi.root", text);
                }
                None
            }
        }
    }

    fn program_file(&mut self, key: &str, path: &Path) -> Option<PathBuf> {
        let found = std::path::absolute(path).and_then(|it| Ok((std::fs::metadata(&it)?, it)));
        let (wrong, remedy) = match found {
            Ok((it, file)) if it.is_file() && it.permissions().mode() & 0o111 != 0 => return Some(file),
            Ok((it, _)) if it.is_file() => ("is not executable".to_owned(), "make it executable (chmod +x)"),
            Ok((it, _)) if it.is_dir() => ("is a directory".to_owned(), "write root = in place of program ="),
            Ok(_) => ("is not a file".to_owned(), "use an executable file"),
            Err(error) => (larder_stdx::error::plain(&error), "use an executable file"),
        };
        let text = format!("{}: {wrong}; {remedy}", path.display());
        self.problem(self.source(key), "site.route.cgi.program", &text);
        None
    }

    fn program_directory(&mut self, at: &RoutePath) -> Option<PathBuf> {
        let key = at.key("cgi.directory");
        let path = self.path(&key)?;
        self.existing(&path, &key, "site.route.cgi.directory")
    }

    /// The part of request paths in front of the path of a program, in the normal form.
    fn program_strip(&mut self, at: &RoutePath, pattern: &PathPattern, place: &ProgramPlace) -> Vec<u8> {
        let key = at.key("cgi.strip");
        let given = Some(self.text(&key)).filter(|it| !it.is_empty());
        if let Some(text) = given.as_deref().and_then(|it| super::rewrite::never_stripped(it, pattern)) {
            self.problem(self.source(&key), "site.route.cgi.strip", &text);
        }
        let exact = pattern.exact().filter(|_| matches!(place, ProgramPlace::Program(_)));
        let strip = match (&given, exact) {
            (Some(it), _) => it.as_bytes(),
            (None, Some(it)) => it,
            (None, None) => pattern.directory().unwrap_or_default().as_bytes(),
        };
        let mut normal = Vec::new();
        path::read(strip, path::NORMAL, &mut normal);
        normal.truncate(normal.len() - normal.iter().rev().take_while(|it| **it == b'/').count());
        normal
    }

    /// The variables of programs; those of this process that are not set are left out.
    fn program_env(&mut self, at: &RoutePath) -> Vec<(String, Secret)> {
        let passed = self.texts(&at.key("cgi.pass_env"));
        let passed = passed.into_iter().filter_map(|name| {
            let value = std::env::var(&name).ok()?;
            Some((name, Secret::new(&value)))
        });
        passed.chain(self.secret_pairs(&at.key("cgi.env"))).collect()
    }
}

/// The origins of a route with this one alone, which is never ejected.
fn single(member: OriginMember) -> Origins {
    let rules = GroupRules::single_origin();
    Origins {
        members: vec![member],
        rules,
        ejection: BreakerSettings::OFF,
        hash_by: HashBy::default(),
        health: None,
        tls: None,
        tls_name: None,
        offers_http2: false,
        preamble: None,
    }
}
