//! A client of a database that stays connected: a statement is committed when the call returns.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running `psql` or `mariadb`.
pub struct SqlSession {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl SqlSession {
    pub(super) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    /// Runs a statement without output.
    pub fn run(&mut self, statement: &str) {
        writeln!(self.input, "{statement}; select 'done';").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!("done", line.trim_end(), "{statement}");
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
