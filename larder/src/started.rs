//! The output of a start: the first line of the error log, the run file, and the printed addresses.

use larder_config::Problem;
use larder_config::plan::Plan;
use larder_config::run_file::{self, RunFile};
use larder_config::token::{self, TokenPlace};
use larder_observe::log::{ErrorLog, Level};
use larder_transport::listener::{Listen, ListeningSocket};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The first line of the error log: the version, the source of the configuration, and every address.
pub fn log(
    errors: &ErrorLog,
    plan: &Plan,
    public: &[String],
    admin: &[ListeningSocket],
    workers: NonZeroUsize,
) {
    let file = plan.file().map_or("flags".to_owned(), |it| it.display().to_string());
    let admin: Vec<String> = admin.iter().map(ListeningSocket::to_string).collect();
    let admin = if admin.is_empty() { "off".to_owned() } else { admin.join(",") };
    let (version, listen, workers) = (env!("CARGO_PKG_VERSION"), public.join(","), workers.to_string());
    let values = [
        ("version", version),
        ("configuration", &file),
        ("listen", &listen),
        ("admin", &admin),
        ("workers", &workers),
    ];
    errors.event(Level::Info, "started", &values);
}

/// Prints a warning of the configuration on standard error, if that is still open.
pub fn warn(warning: &Problem) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "larder: warning: {warning}");
}

/// The file by which the commands of this machine find the admin. Without it they need its address.
pub fn write_run_file(
    errors: &ErrorLog,
    plan: &Plan,
    public: &[String],
    admin_at: Option<SocketAddr>,
    socket: &Option<PathBuf>,
    kept: &TokenPlace,
) -> Option<RunFile> {
    let mut admin = vec![Listen::Tcp(run_file::reachable(admin_at?))];
    admin.extend(socket.clone().map(|it| Listen::Unix(std::path::absolute(&it).unwrap_or(it))));
    match run_file::write(&admin, public, plan.file().as_deref(), kept) {
        Ok(file) => file,
        Err(why) => {
            errors.event(Level::Warn, "run-file-missing", &[("why", &why)]);
            None
        }
    }
}

/// The way to log in to the admin.
pub struct AccessUrls<'a> {
    /// A login link for a browser, if a terminal shows it.
    pub link: Option<String>,
    /// The place of the token.
    pub kept: &'a TokenPlace,
}

impl AccessUrls<'_> {
    /// The output at the start: a link for a browser on a terminal. Other users may read the output of a service, and logs keep it:
    /// there is no link in it, and never the token. If that is in no file, standard error has the remedy.
    fn sentence(&self) -> String {
        let text = match &self.link {
            Some(link) => format!("log in at {link} (once, within 10 minutes)\n"),
            None => "\"larder login\" prints a link to log in\n".to_owned(),
        };
        if let TokenPlace::Nowhere(why) = self.kept {
            use std::io::Write;
            let _ = writeln!(
                std::io::stderr(),
                "larder: The admin token cannot be kept ({why}), so commands cannot log in; set admin.token_file to a file that larder can \
                 write, or set {}.",
                token::VARIABLE
            );
        }
        text
    }
}

/// Prints the addresses. Tests and users read these lines.
pub fn announce(
    public: &[String],
    certificate: &str,
    admin: &[ListeningSocket],
    way_in: &AccessUrls<'_>,
    after: impl FnOnce(&str, Option<&str>) -> String,
) {
    use std::io::Write;
    let mut text = String::new();
    for address in public {
        text.push_str(&format!("listening on {address}\n"));
    }
    text.push_str(certificate);
    for address in admin {
        text.push_str(&format!("admin on {address}\n"));
    }
    match admin.is_empty() {
        true => text.push_str("admin off\n"),
        false => text.push_str(&way_in.sentence()),
    }
    if let Some(first) = public.first() {
        let admin = admin.first().map(ListeningSocket::to_string);
        text.push_str(&after(first, admin.as_deref()));
    }
    let mut out = std::io::stdout().lock();
    // A missing reader is no reason not to serve.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
