//! The terminal for commands: colours, width, number formats, and the state that is restored at every exit.

use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{Write, stdin, stdout};

/// The emphasis of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// None.
    Plain,
    /// A heading.
    Bold,
    /// Less important.
    Dim,
    /// Good.
    Green,
    /// Neutral.
    Cyan,
    /// Requires attention.
    Yellow,
    /// An error.
    Red,
}

/// The properties of standard output that determine the format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Whether colours are shown.
    pub colour: bool,
    /// Columns; `None` if lines may have any length.
    pub width: Option<usize>,
    /// Lines; `None` if there may be any number.
    pub height: Option<usize>,
}

impl Screen {
    /// Not a terminal: a pipe or a file.
    pub const NONE: Screen = Screen { colour: false, width: None, height: None };

    /// The current standard output.
    #[must_use]
    pub fn now() -> Self {
        if !isatty(stdout()) {
            return Self::NONE;
        }
        let size = tcgetwinsize(stdout()).ok();
        let known = |it: u16| Some(usize::from(it)).filter(|it| *it > 0);
        Self {
            colour: std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()),
            width: size.and_then(|it| known(it.ws_col)),
            height: size.and_then(|it| known(it.ws_row)),
        }
    }

    /// Whether this is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// `text` in `ink`.
    #[must_use]
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Green => "32",
            Ink::Cyan => "36",
            Ink::Yellow => "33",
            Ink::Red => "31",
            Ink::Plain => return text.to_owned(),
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A terminal in full-screen mode with single-key input; restored when this is dropped.
pub struct FullScreen {
    before: Option<Termios>,
}

impl FullScreen {
    /// Switches the terminal to full-screen mode.
    #[must_use]
    pub fn take() -> Self {
        let before = tcgetattr(stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        }
        // The alternate screen, and no cursor.
        show("\x1b[?1049h\x1b[?25l");
        Self { before }
    }

    /// Replaces the shown picture, without flicker.
    pub fn show(&self, lines: &[String]) {
        show(&picture(lines));
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        show("\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// The control sequence that shows these lines. Old content is erased before each line, and below before the last one:
/// erased after a line that ends in the last column, it would include its last character.
fn picture(lines: &[String]) -> String {
    let mut text = String::from(if lines.is_empty() { "\x1b[H\x1b[J" } else { "\x1b[H" });
    for (at, line) in lines.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "\r\n" });
        text.push_str(if at + 1 == lines.len() { "\x1b[J" } else { "\x1b[K" });
        text.push_str(line);
    }
    text
}

/// Prints a sentence on standard error, if it is still open: a terminal may have been closed.
pub fn warn(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "larder: {sentence}");
}

fn show(text: &str) {
    let mut out = stdout().lock();
    // The disappearance of a terminal is reported by a signal.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A share in per cent: `75.0 %`; `-` without a whole.
#[must_use]
pub fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", part / whole * 100.0) } else { "-".to_owned() }
}

/// A number of bytes: `999 B`, `1.2 KiB`, `34 MiB`.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    match unit > 0 && value < 9.95 {
        true => format!("{value:.1} {}", units[unit]),
        false => format!("{value:.0} {}", units[unit]),
    }
}

/// Microseconds: `85 us`, `1.2 ms`, `34 ms`, `5.0 s`.
#[must_use]
pub fn micros(micros: f64) -> String {
    match micros {
        it if it < 999.5 => format!("{it:.0} us"),
        it if it < 9_950.0 => format!("{:.1} ms", it / 1e3),
        it if it < 999_500.0 => format!("{:.0} ms", it / 1e3),
        it => format!("{:.1} s", it / 1e6),
    }
}

/// Seconds in their largest unit: `3.0 s`, `42 min`, `5 h`.
#[must_use]
pub fn span(seconds: f64) -> String {
    match seconds {
        it if it < 10.0 => format!("{it:.1} s"),
        it if it < 120.0 => format!("{it:.0} s"),
        it if it < 7_200.0 => format!("{:.0} min", it / 60.0),
        it if it < 172_800.0 => format!("{:.0} h", it / 3_600.0),
        it => format!("{:.0} d", it / 86_400.0),
    }
}

/// A count, or a rate: `7.3`, `812`, `12 345`, `1.2 M`.
#[must_use]
pub fn count(number: f64) -> String {
    match number {
        it if it < 9.95 && it.fract() > 0.049 => format!("{it:.1}"),
        it if it < 999.5 => format!("{it:.0}"),
        it if it < 999_999.5 => {
            let whole = it.round() as u64;
            format!("{} {:03}", whole / 1000, whole % 1000)
        }
        it if it < 999.5e6 => format!("{:.1} M", it / 1e6),
        it => format!("{:.1} G", it / 1e9),
    }
}

/// A text of a peer: control characters are shown as `?`.
#[must_use]
pub fn harmless(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '?' } else { it }).collect()
}

/// The beginning of a text, in `width` columns, with `…` if it is truncated. Every character counts as one column.
#[must_use]
pub fn within(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// A text in lines of at most `width` columns, broken at its spaces; each after the first begins with `indent` spaces,
/// and the first already has `before` columns in front of it. A word longer than a line, such as a URL, is not broken.
/// Without a terminal, one line.
#[must_use]
pub fn wrapped(text: &str, before: usize, indent: usize, screen: Screen) -> String {
    let Some(width) = screen.width else { return text.to_owned() };
    let (mut out, mut used, mut is_first) = (String::with_capacity(text.len()), before, true);
    for word in text.split(' ') {
        let length = word.chars().count();
        if !is_first && used + 1 + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if !is_first {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        (used, is_first) = (used + length, false);
    }
    out
}

/// Columns below which no host is shown, so that all lines of a list look alike.
const HOST: usize = 48;

/// A URL in `width` columns. If it is too long, the host is dropped first: the path is more significant.
#[must_use]
pub fn url_within(url: &str, width: usize) -> String {
    let path = url.find("://").and_then(|it| url[it + 3..].find('/').map(|at| it + 3 + at));
    match path {
        Some(path) if width < HOST || url.chars().count() > width => {
            within(&format!("…{}", &url[path..]), width)
        }
        _ => within(url, width),
    }
}

/// Numbers as a row of small columns, the latest at the right: as many as `width`, the largest the highest. `full` is the
/// value of the greatest height, if known.
#[must_use]
pub fn spark(
    numbers: impl DoubleEndedIterator<Item = Option<f64>>,
    width: usize,
    full: Option<f64>,
) -> String {
    let latest: Vec<Option<f64>> = numbers.rev().take(width).collect();
    let most = full.unwrap_or_else(|| latest.iter().flatten().fold(0.0, |most: f64, it| most.max(*it)));
    let column = |it: &Option<f64>| match it {
        None => ' ',
        Some(it) if most > 0.0 => {
            let height = (it / most * 8.0).ceil().clamp(1.0, 8.0) as u32;
            char::from_u32(0x2580 + height).unwrap_or(' ')
        }
        Some(_) => '\u{2581}',
    };
    latest.iter().rev().map(column).collect()
}

/// A line that is built from left to right and is never wider than the terminal.
pub struct TerminalLine {
    screen: Screen,
    text: String,
    used: usize,
}

impl TerminalLine {
    /// An empty line.
    #[must_use]
    pub fn new(screen: Screen) -> Self {
        Self { screen, text: String::new(), used: 0 }
    }

    /// The remaining columns; a very large number if lines may have any length.
    #[must_use]
    pub fn room(&self) -> usize {
        self.screen.width.map_or(usize::MAX, |it| it.saturating_sub(self.used))
    }

    /// Appends `text`, or as much of it as fits.
    #[must_use]
    pub fn put(mut self, ink: Ink, text: &str) -> Self {
        let text = within(text, self.room());
        self.used += text.chars().count();
        if !text.is_empty() {
            self.text.push_str(&self.screen.paint(ink, &text));
        }
        self
    }

    /// Appends all of the parts, or none of them if they do not fit.
    #[must_use]
    pub fn group(self, parts: &[(Ink, &str)]) -> Self {
        if parts.iter().map(|it| it.1.chars().count()).sum::<usize>() > self.room() {
            return self;
        }
        parts.iter().fold(self, |line, it| line.put(it.0, it.1))
    }

    /// The line for printing.
    #[must_use]
    pub fn end(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(
            ["0 B", "999 B", "1.0 KiB", "9.9 KiB", "10 KiB", "1.0 MiB"],
            [0.0, 999.0, 1000.0, 10137.0, 10240.0, 1048000.0].map(bytes)
        );
        assert_eq!(["85 us", "1.2 ms", "34 ms", "5.0 s"], [85.0, 1240.0, 34_000.0, 5e6].map(micros));
        assert_eq!(["0", "7.3", "812", "12 345", "1.2 M"], [0.0, 7.3, 812.2, 12_345.0, 1.2e6].map(count));
        assert_eq!(("ab", "a…", ""), (&*within("ab", 2), &*within("abc", 2), &*within("abc", 0)));
        assert_eq!("a?[2Jb", harmless("a\x1b[2Jb"));
    }

    #[test]
    fn a_picture_erases_nothing_of_itself() {
        let report = |lines: &[&str]| picture(&lines.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!("\x1b[H\x1b[Ka\r\n\x1b[Kb\r\n\x1b[Jc", report(&["a", "b", "c"]));
        assert_eq!(("\x1b[H\x1b[J", "\x1b[H\x1b[Ja"), (&*report(&[]), &*report(&["a"])));
    }

    #[test]
    fn a_text_is_broken_at_its_spaces() {
        let of = |width| Screen { colour: false, width, height: None };
        let check = |width: Option<usize>, expect: &str| {
            assert_eq!(expect, wrapped("one two http://h/long three", 4, 2, of(width)), "{width:?}");
        };
        check(None, "one two http://h/long three");
        check(Some(31), "one two http://h/long three");
        check(Some(30), "one two http://h/long\n  three");
        check(Some(11), "one two\n  http://h/long\n  three");
        check(Some(0), "one\n  two\n  http://h/long\n  three");
    }

    #[test]
    fn a_url_loses_its_host_before_its_path() {
        let check = |width: usize, expect: &str| assert_eq!(expect, url_within("http://host/a/page", width));
        check(48, "http://host/a/page");
        check(47, "…/a/page");
        check(8, "…/a/page");
        check(5, "…/a/…");
        check(0, "");
        let long = format!("http://host/{}", "a".repeat(47));
        assert_eq!(format!("…/{}…", "a".repeat(45)), url_within(&long, 48));
        assert_eq!(("/a/p…", "http…"), (&*url_within("/a/page", 5), &*url_within("http://h", 5)));
    }

    #[test]
    fn columns_are_as_high_as_their_numbers() {
        let report = |numbers: &[Option<f64>], width, full| spark(numbers.iter().copied(), width, full);
        let rising = [Some(0.0), Some(1.0), Some(4.0), None, Some(8.0)];
        assert_eq!("▁▁▄ █", report(&rising, 9, None));
        assert_eq!(" █", report(&rising, 2, None));
        assert_eq!("▁▁▂ ▄", report(&rising, 9, Some(16.0)));
        assert_eq!(("", "▁▁"), (&*report(&[], 3, None), &*report(&[Some(0.0); 2], 3, None)));
    }

    #[test]
    fn a_line_is_never_wider_than_the_terminal() {
        for (colour, width) in [(false, 12), (true, 12), (false, 3), (false, 0)] {
            let screen = Screen { colour, width: Some(width), height: None };
            let line = TerminalLine::new(screen)
                .put(Ink::Bold, "requests ")
                .group(&[(Ink::Dim, "far too "), (Ink::Red, "long")]);
            let line = line.put(Ink::Green, "12 345");
            assert_eq!(0, line.room(), "{width}");
            let plain =
                ["\x1b[1m", "\x1b[32m", "\x1b[0m"].iter().fold(line.end(), |it, code| it.replace(code, ""));
            assert_eq!(within("requests 12…", width), plain);
        }
    }
}
