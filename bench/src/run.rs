//! Runs one case: starts its servers, checks their answers, lets them take turns, and ends them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cases::{Case, Claim, Lane, Of, Origin};
use crate::fetch;
use crate::load::{self, Manner, Sample};
use crate::process::{Cores, Running, free_port};
use crate::servers::{MOVED, Ours, Place, Server, canned};
use crate::statistics::{Verdict, median, paired_ratio};

/// Starts php-fpm and MariaDB.
const APPLICATION: &str = include_str!("../load/application");
/// The scripts, each in a folder of its own.
const SCRIPTS: [(&str, &str); 2] =
    [("page", include_str!("../load/page.php")), ("row", include_str!("../load/row.php"))];
/// The response of both bridges: the row of the key `page.html`.
const ROW: &str = r#"[{"id":"page.html","name":"One row of a hundred thousand"}]"#;

/// The settings of a whole run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A folder for all temporary files.
    pub dir: PathBuf,
    /// The programs of this project.
    pub ours: Ours,
    /// How often the lanes of a case take turns.
    pub rounds: u32,
    /// Seconds that a turn lasts.
    pub seconds: u32,
    /// Niceness of the servers and of the load; below zero on a machine in use by others.
    pub nice: i32,
    /// Idle connections to hold.
    pub idle: u64,
    /// Connections that a server must hold at once.
    pub connections: u64,
    /// The ports of memcacheds, for the tiers.
    pub fleet: Vec<u16>,
    /// Responses under the tag that is purged.
    pub purged: u64,
    /// Whether this process runs as root.
    pub root_user: bool,
}

/// The outcome of a lane.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Its samples, one a round.
    Measured(Vec<Sample>),
    /// Why there are none.
    Absent(String),
}

impl Outcome {
    /// One figure of each sample; empty where there are none.
    pub fn each(&self, figure: impl Fn(&Sample) -> f64) -> Vec<f64> {
        match self {
            Outcome::Measured(samples) => samples.iter().map(figure).collect(),
            Outcome::Absent(_) => Vec::new(),
        }
    }

    /// Errors of all rounds.
    pub fn errors(&self) -> u64 {
        match self {
            Outcome::Measured(samples) => samples.iter().map(|it| it.errors).sum(),
            Outcome::Absent(_) => 0,
        }
    }
}

/// A case with its outcomes.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The case.
    pub case: Case,
    /// Its lanes' outcomes, in the same order.
    pub outcomes: Vec<Outcome>,
}

impl Finished {
    /// The lanes without samples, with the reason.
    pub fn absent(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.case.lanes.iter().zip(&self.outcomes).filter_map(|(lane, outcome)| match outcome {
            Outcome::Absent(why) => Some((lane.name, why.as_str())),
            Outcome::Measured(_) => None,
        })
    }

    fn outcome(&self, lane: &str) -> Option<&Outcome> {
        self.case.lanes.iter().position(|it| it.name == lane).and_then(|at| self.outcomes.get(at))
    }

    /// The figure of a claim, and whether it reaches its target.
    pub fn judge(&self, claim: &Claim) -> (Option<f64>, Verdict) {
        let figure = self.figure(claim);
        (figure, claim.bound.map_or(Verdict::NotMeasured, |it| it.judge(figure)))
    }

    #[allow(clippy::cast_precision_loss, reason = "a count of errors")]
    fn figure(&self, claim: &Claim) -> Option<f64> {
        let lane = self.outcome(claim.lane)?;
        if claim.of == Of::Errors {
            return matches!(lane, Outcome::Measured(_)).then(|| lane.errors() as f64);
        }
        let against = self.outcome(claim.against)?;
        let (cpu, other_cpu) = (lane.each(Sample::cpu_us), against.each(Sample::cpu_us));
        match claim.of {
            Of::PerCpu => paired_ratio(&other_cpu, &cpu),
            Of::PerWholeCpu => {
                let whole = |it: &Sample| it.cpu_us() + it.origin_us();
                paired_ratio(&against.each(whole), &lane.each(whole))
            }
            Of::Scaling => paired_ratio(&other_cpu, &cpu).map(|it| 2.0 * it),
            Of::Rate => paired_ratio(&lane.each(Sample::rate), &against.each(Sample::rate)),
            Of::Errors => None,
        }
    }
}

/// A started server whose answers were checked; or the reason why there is none.
type Started = (Server, Result<Running, String>);

impl Settings {
    /// Runs `case`.
    ///
    /// # Errors
    /// The page or the origin could not be made; the failure of a peer is its lane's result instead.
    pub fn run(&self, case: &Case) -> Result<Finished, String> {
        let (root, origin) = match case.origin {
            Origin::Storable | Origin::NoStore => {
                let root = self.page(case.page)?;
                let origin = self.origin(case.origin.headers(), &root)?;
                (root, origin)
            }
            Origin::Php => {
                let root = self.page(case.page)?;
                let origin = self.application(&root, &[])?;
                (root, origin)
            }
            Origin::Rows => {
                let root = self.root("rows", ROW.as_bytes())?;
                let origin = self.application(&root, &["rows"])?;
                (root, origin)
            }
        };
        let servers = self.start_all(case, &root, origin.port);
        let mut outcomes: Vec<Outcome> =
            case.lanes.iter().map(|lane| first_outcome(lane, &servers)).collect();
        for round in 0..self.rounds {
            for (lane, outcome) in case.lanes.iter().zip(&mut outcomes) {
                self.turn(lane, &servers, &origin, outcome);
            }
            eprintln!("  {}: round {} of {}", case.name, round + 1, self.rounds);
        }
        Ok(Finished { case: case.clone(), outcomes })
    }

    fn turn(&self, lane: &Lane, servers: &[Started], origin: &Running, outcome: &mut Outcome) {
        let Outcome::Measured(samples) = outcome else { return };
        let Some(Ok(server)) = servers.iter().find(|it| it.0 == lane.server).map(|it| &it.1) else { return };
        let origin = lane.server.needs_origin().then_some(origin);
        let (seconds, nice) = (self.seconds, self.nice);
        match load::measure(server, origin, lane.manner, lane.connections, seconds, nice, &self.dir) {
            Ok(sample) if sample.requests > 0 => samples.push(sample),
            Ok(_) => *outcome = Outcome::Absent("answered nothing under load".into()),
            Err(why) => *outcome = Outcome::Absent(why),
        }
    }

    /// A folder with a `page.html` of `bytes`.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn page(&self, bytes: usize) -> Result<PathBuf, String> {
        self.root(&bytes.to_string(), &page(bytes))
    }

    fn root(&self, name: &str, page: &[u8]) -> Result<PathBuf, String> {
        let root = self.dir.join(format!("root-{name}"));
        let failed = |it: std::io::Error| format!("{}: {it}", root.display());
        for (script, text) in SCRIPTS {
            fs::create_dir_all(root.join(script)).map_err(failed)?;
            fs::write(root.join(script).join("index.php"), text).map_err(failed)?;
        }
        fs::write(root.join("page.html"), page).map_err(failed)?;
        Ok(root)
    }

    /// php-fpm on the core of the load, and with `rows` a MariaDB.
    fn application(&self, root: &std::path::Path, more: &[&str]) -> Result<Running, String> {
        let port = free_port().map_err(|it| it.to_string())?;
        let script = self.dir.join("application");
        fs::write(&script, APPLICATION).map_err(|it| it.to_string())?;
        let folder = root.join("application").display().to_string();
        let mut argv = vec!["sh".to_owned(), script.display().to_string(), folder, port.to_string()];
        argv.extend(more.iter().map(|it| (*it).to_owned()));
        Running::start(&argv, Cores::Load, self.nice, port, &self.dir.join("application.log"))
            .map_err(|it| format!("php-fpm and MariaDB: {it}"))
    }

    /// The origin of a case: the limit program on the core of the load.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn origin(&self, headers: &[&str], root: &std::path::Path) -> Result<Running, String> {
        let port = free_port().map_err(|it| it.to_string())?;
        let plan = canned(&self.ours.canned, "copy", port, root, headers);
        Running::start(&plan.argv, Cores::Load, self.nice, port, &self.dir.join("origin.log"))
            .map_err(|it| format!("the origin: {it}"))
    }

    /// A memcached on the core of the load; `None` where it is missing: its lanes then report that.
    pub fn memcached(&self) -> Option<Running> {
        let port = free_port().ok()?;
        let mut argv: Vec<String> =
            ["memcached", "-l", "127.0.0.1", "-U", "0", "-m", "256", "-p"].map(str::to_owned).into();
        argv.push(port.to_string());
        if self.root_user {
            argv.extend(["-u".to_owned(), "nobody".to_owned()]);
        }
        let started = Running::start(&argv, Cores::Load, self.nice, port, &self.dir.join("memcached.log"));
        started.inspect_err(|why| eprintln!("memcached: {why}")).ok()
    }

    fn start_all(&self, case: &Case, root: &std::path::Path, origin: u16) -> Vec<Started> {
        let mut started: Vec<Started> = Vec::new();
        for lane in &case.lanes {
            if !started.iter().any(|it| it.0 == lane.server) {
                started.push((lane.server, self.start_for(lane.server, lane.manner, root, origin)));
            }
        }
        started
    }

    /// Starts `server` in front of `origin` and checks that it answers with the page three times.
    ///
    /// # Errors
    /// Where it is missing, does not start, or answers something else.
    pub fn start(&self, server: Server, root: &std::path::Path, origin: u16) -> Result<Running, String> {
        self.start_for(server, Manner::KeepAlive, root, origin)
    }

    /// The same for requests with the pattern `manner`.
    fn start_for(
        &self,
        server: Server,
        manner: Manner,
        root: &std::path::Path,
        origin: u16,
    ) -> Result<Running, String> {
        let port = free_port().map_err(|it| it.to_string())?;
        let dir = self.dir.join(format!("{}-{port}", server.program()));
        let place = Place {
            dir: dir.clone(),
            root: root.to_owned(),
            port,
            origin,
            fleet: self.fleet.clone(),
            connections: self.connections,
            root_user: self.root_user,
            certificate: if manner.is_sealed() { Some(self.certificate()?) } else { None },
        };
        let plan = server.plan(&place, &self.ours);
        let program = plan.argv.first().map_or("", String::as_str);
        if !exists(program) {
            return Err(format!("{} is not installed", server.program()));
        }
        plan.write(&dir)?;
        let cores = match server {
            Server::LarderProxy { workers } if workers > 1 => Cores::Both,
            _ => Cores::Server,
        };
        let running = Running::start(&plan.argv, cores, self.nice, port, &dir.join("output.log"))?;
        let page = fs::read(root.join("page.html")).map_err(|it| it.to_string())?;
        match manner.version() {
            _ if server.redirects() => fetch::expect_redirect(port, MOVED)?,
            None => fetch::expect(port, &page, 3)?,
            Some(version) => fetch::expect_by(version, manner.is_sealed(), port, &page, 3)?,
        }
        Ok(running)
    }

    /// A folder with a certificate that all servers have: P-256, made for this run.
    fn certificate(&self) -> Result<PathBuf, String> {
        let dir = self.dir.join("certificate");
        if dir.join("both.pem").is_file() {
            return Ok(dir);
        }
        let failed = |it: std::io::Error| format!("openssl is needed for a certificate: {it}");
        fs::create_dir_all(&dir).map_err(failed)?;
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "30",
            ])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&dir)
            .output()
            .map_err(failed)?;
        if !made.status.success() {
            return Err(format!("openssl: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        let parts = ["cert.pem", "key.pem"].map(|it| fs::read(dir.join(it)).unwrap_or_default());
        fs::write(dir.join("both.pem"), parts.concat()).map_err(failed)?;
        Ok(dir)
    }
}

fn first_outcome(lane: &Lane, servers: &[Started]) -> Outcome {
    match servers.iter().find(|it| it.0 == lane.server) {
        Some((_, Err(why))) => Outcome::Absent(why.clone()),
        _ => Outcome::Measured(Vec::new()),
    }
}

/// Text that looks like a page and does not compress to nothing.
fn page(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b"etaoin shrdlu <p>cmfwyp vbgkqjxz"[usize::try_from(state >> 59).unwrap_or(0)]
    };
    (0..bytes).map(letter).collect()
}

/// Whether `program` is a file, or is found in `PATH` or a folder of system programs.
pub fn exists(program: &str) -> bool {
    if program.contains('/') {
        return std::path::Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).any(|it| it.join(program).is_file())
}

/// The median of one figure of an outcome.
pub fn middle(outcome: &Outcome, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
    median(&outcome.each(figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::all;

    #[test]
    fn a_page_has_its_bytes() {
        assert_eq!(1795, page(1795).len());
        assert_eq!(page(100), page(200)[..100], "and they are the same in every run");
    }

    #[test]
    fn claims_are_judged_from_samples() {
        let case = all().into_iter().find(|it| it.name == "hit-20").unwrap();
        let sample = |cpu_ns| Sample { requests: 1000, seconds: 1.0, cpu_ns, ..Sample::default() };
        let outcomes = case
            .lanes
            .iter()
            .map(|lane| match lane.name {
                "larder" => Outcome::Measured(vec![sample(5_000_000); 3]),
                "haproxy" => Outcome::Measured(vec![sample(7_500_000); 3]),
                "nginx" => Outcome::Measured(vec![sample(6_000_000); 3]),
                _ => Outcome::Absent("not installed".into()),
            })
            .collect();
        let finished = Finished { case, outcomes };
        let verdicts: Vec<_> = finished.case.claims.iter().take(3).map(|it| finished.judge(it).1).collect();
        assert_eq!(vec![Verdict::Reached, Verdict::Missed, Verdict::NotMeasured], verdicts);
    }

    #[test]
    fn programs_are_found() {
        assert!(exists("sh"));
        assert!(!exists("no-such-program-here"));
        assert!(!exists("/no/such/program"));
    }
}
