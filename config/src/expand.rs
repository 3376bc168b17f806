//! Strings of a configuration that stand for others: `${NAME}` for a variable of the environment, and `file:PATH` for the
//! secret in a file.

use super::include::read_regular;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The beginning of a value that names the file of a secret.
const FILE: &str = "file:";

/// The size limit of a secret.
const LARGEST: u64 = 64 << 10;

/// The environment: the value of a variable, `None` if it is not set.
pub type Environment<'e> = &'e dyn Fn(&str) -> Option<std::ffi::OsString>;

/// The environment of this process.
pub fn process(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

/// The syntax of a text, which decides how the value of a variable is written in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum VariableSyntax {
    /// The value stands as it is.
    Plain,
    /// A condition: the value is a quoted text or a part of one, whatever it contains. Nowhere else may a variable stand.
    Condition,
}

/// The place in a condition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConditionPlace {
    Outside,
    Quoted,
    /// Behind a backslash in quotes.
    Escaped,
}

impl ConditionPlace {
    fn after(self, text: &str) -> Self {
        text.chars().fold(self, |place, it| match (place, it) {
            (ConditionPlace::Outside, '"') => ConditionPlace::Quoted,
            (ConditionPlace::Outside, _) | (ConditionPlace::Quoted, '"') => ConditionPlace::Outside,
            (ConditionPlace::Quoted, '\\') => ConditionPlace::Escaped,
            (ConditionPlace::Quoted | ConditionPlace::Escaped, _) => ConditionPlace::Quoted,
        })
    }

    /// The value of a variable here, so that the parser of conditions reads exactly this value.
    fn written(self, name: &str, value: &str) -> Result<String, String> {
        match self {
            ConditionPlace::Quoted => Ok(value.replace('\\', r"\\").replace('"', "\\\"")),
            ConditionPlace::Outside => Err(format!(
                "${{{name}}} is not in quotes; write \"${{{name}}}\": the value of a variable is a text in a condition"
            )),
            ConditionPlace::Escaped => {
                Err(format!("a backslash stands in front of ${{{name}}}; the value of a variable needs none"))
            }
        }
    }
}

/// Replaces `${NAME}`, and `${NAME:-DEFAULT}` if NAME is not set or empty; `$${` is a literal `${`. A text without any is
/// unchanged.
///
/// # Errors
/// Every mistake of the text, each as the end of a sentence.
pub fn variables<'t>(
    text: &'t str,
    syntax: VariableSyntax,
    environment: Environment<'_>,
) -> Result<Cow<'t, str>, Vec<String>> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let (mut out, mut rest, mut wrong) = (String::with_capacity(text.len()), text, Vec::new());
    let mut place = ConditionPlace::Outside;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(literal) = before.strip_suffix('$') {
            place = place.after(literal);
            out.push_str(literal);
            out.push_str("${");
            rest = after;
            continue;
        }
        place = place.after(before);
        out.push_str(before);
        let Some((inner, left)) = after.split_once('}') else {
            wrong.push("\"${\" has no \"}\"; write \"$${\" for a literal \"${\"".to_owned());
            rest = after;
            break;
        };
        let value = variable(inner, environment).and_then(|value| match syntax {
            VariableSyntax::Plain => Ok(value),
            VariableSyntax::Condition => place.written(name_of(inner).0, &value),
        });
        match value {
            Ok(value) => out.push_str(&value),
            Err(why) => wrong.push(why),
        }
        rest = left;
    }
    out.push_str(rest);
    if wrong.is_empty() { Ok(Cow::Owned(out)) } else { Err(wrong) }
}

/// The name and the default of what stands between `${` and `}`.
fn name_of(inner: &str) -> (&str, Option<&str>) {
    inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)))
}

/// The value of what stands between `${` and `}`.
fn variable(inner: &str, environment: Environment<'_>) -> Result<String, String> {
    let (name, default) = name_of(inner);
    let is_start = |it: u8| it.is_ascii_alphabetic() || it == b'_';
    let is_name = name.bytes().next().is_some_and(is_start)
        && name.bytes().all(|it| is_start(it) || it.is_ascii_digit());
    if !is_name {
        return Err(format!(
            "\"${{{inner}}}\" does not name an environment variable, such as ${{NAME}} or ${{NAME:-default}}; write \
             \"$${{\" for a literal \"${{\""
        ));
    }
    if default.is_some_and(|it| it.contains("${")) {
        return Err(format!(
            "the default of ${{{name}:-…}} has a variable, which is not replaced; write a plain text as the default"
        ));
    }
    let value = match environment(name).map(std::ffi::OsString::into_string) {
        Some(Err(_)) => return Err(format!("the environment variable {name} is not UTF-8")),
        Some(Ok(value)) => Some(value),
        None => None,
    };
    match (value, default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "the environment variable {name} is not set; set it, or give a default: ${{{name}:-DEFAULT}}"
        )),
    }
}

/// The path of the file that a value names, relative to `base`; `None` for any other value.
#[must_use]
pub fn secret_path(value: &str, base: &Path) -> Option<PathBuf> {
    value.strip_prefix(FILE).map(|it| base.join(it))
}

/// The text of a secret's file, without the line end at its end.
///
/// # Errors
/// The end of a sentence.
pub fn secret_of(path: &Path) -> Result<String, String> {
    read(path).map_err(|why| format!("the secret file {} {why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = read_regular(path, LARGEST)?.bytes;
    let mut text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text) }
}

/// Whether a text in a value fulfils a condition.
pub fn has_text(value: &toml_edit::Value, condition: &dyn Fn(&str) -> bool) -> bool {
    match value {
        toml_edit::Value::String(text) => condition(text.value()),
        toml_edit::Value::Array(array) => array.iter().any(|it| has_text(it, condition)),
        toml_edit::Value::InlineTable(table) => table.iter().any(|it| has_text(it.1, condition)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn environment(name: &str) -> Option<std::ffi::OsString> {
        use std::os::unix::ffi::OsStringExt as _;
        match name {
            "HOST" => Some("example.com".into()),
            "EMPTY" => Some("".into()),
            "RAW" => Some(std::ffi::OsString::from_vec(vec![0xff])),
            "AGAIN" => Some("${HOST}".into()),
            "QUOTES" => Some(r#"a" || path ~ "\d"#.into()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced() {
        #[track_caller]
        fn check(text: &str, expect: Result<&str, &[&str]>) {
            let found = variables(text, VariableSyntax::Plain, &environment);
            let expect = expect
                .map(str::to_owned)
                .map_err(|all| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
            assert_eq!(expect, found.map(Cow::into_owned), "{text}");
        }
        check("plain $HOST {x}", Ok("plain $HOST {x}"));
        check("a ${HOST} b", Ok("a example.com b"));
        check("${HOST}${HOST:-x}${NONE:-y z}", Ok("example.comexample.comy z"));
        check("${EMPTY}|${EMPTY:-x}|${NONE:-}", Ok("|x|"));
        check("$${HOST} $$${HOST} $", Ok("${HOST} $${HOST} $"));
        check("${AGAIN}", Ok("${HOST}"));
        check("${NONE:-a:-b}", Ok("a:-b"));
        let nested = "the default of ${NONE:-…} has a variable, which is not replaced; write a plain text as the default";
        check("${NONE:-${HOST:-z}}", Err(&[nested]));
        check(
            "${NONE} ${OTHER}",
            Err(&[
                "the environment variable NONE is not set; set it, or give a default: ${NONE:-DEFAULT}",
                "the environment variable OTHER is not set; set it, or give a default: ${OTHER:-DEFAULT}",
            ]),
        );
        check("${RAW}", Err(&["the environment variable RAW is not UTF-8"]));
        let name = "does not name an environment variable, such as ${NAME} or ${NAME:-default}; write \"$${\" for a literal \"${\"";
        check("${}", Err(&[&format!("\"${{}}\" {name}")]));
        check("${1}", Err(&[&format!("\"${{1}}\" {name}")]));
        check("${a.b}", Err(&[&format!("\"${{a.b}}\" {name}")]));
        check("x ${HOST", Err(&["\"${\" has no \"}\"; write \"$${\" for a literal \"${\""]));
    }

    #[test]
    fn a_value_in_a_condition_is_a_quoted_text() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let found = variables(text, VariableSyntax::Condition, &environment).map_err(|it| it.join("|"));
            assert_eq!(
                expect.map(str::to_owned).map_err(str::to_owned),
                found.map(Cow::into_owned),
                "{text}"
            );
        };
        let value = r#"a\" || path ~ \"\\d"#;
        check(r#"host == "x${QUOTES}y""#, Ok(&format!(r#"host == "x{value}y""#)));
        check(
            r#"host == "\"${HOST}\\" && path == "$${HOST}""#,
            Ok(r#"host == "\"example.com\\" && path == "${HOST}""#),
        );
        check(r#"host == "${NONE:-a"b}""#, Ok(r#"host == "a\"b""#));
        let outside = "is not in quotes; write \"${HOST}\": the value of a variable is a text in a condition";
        check(r#"host == ${HOST}"#, Err(&format!("${{HOST}} {outside}")));
        check(r#"host == "a"${HOST:-x}"#, Err(&format!("${{HOST}} {outside}")));
        check(r#"host == "\\"${HOST}"#, Err(&format!("${{HOST}} {outside}")));
        check(
            r#"host == "\${HOST}""#,
            Err("a backslash stands in front of ${HOST}; the value of a variable needs none"),
        );
    }

    #[test]
    fn secrets_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let check = |bytes: &[u8], expect: Result<&str, &str>| {
            let path = folder.path().join("secret");
            std::fs::write(&path, bytes).unwrap();
            let expect = expect.map_err(|it| format!("the secret file {} {it}", path.display()));
            assert_eq!(expect.map(str::to_owned), secret_of(&path), "{bytes:?}");
        };
        check(b"abc\n", Ok("abc"));
        check(b"abc\r\n", Ok("abc"));
        check(b"abc\n\n", Ok("abc\n"));
        check(b" a b ", Ok(" a b "));
        check(b"\n", Err("is empty"));
        check(b"\xff", Err("is not UTF-8"));
        check(&vec![b'a'; 64 << 10], Ok(&"a".repeat(64 << 10)));
        check(&vec![b'a'; (64 << 10) + 1], Err("cannot be read: it is larger than 64KiB"));
        let none = secret_of(&folder.path().join("none")).unwrap_err();
        assert!(none.ends_with("none cannot be read: no such file or directory"), "{none}");
        assert!(secret_of(folder.path()).unwrap_err().ends_with("is not a regular file"));
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(secret_of(&pipe).unwrap_err().ends_with("is not a regular file"));
        assert_eq!(Some(PathBuf::from("/a/b")), secret_path("file:b", Path::new("/a")));
        assert_eq!(Some(PathBuf::from("/b")), secret_path("file:/b", Path::new("/a")));
        assert_eq!(None, secret_path("files:b", Path::new("/a")));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[$ {}:A-Z\\-ü]{0,24}") {
            if let Ok(found) = variables(&text, VariableSyntax::Plain, &environment) {
                let is_plain = !text.contains("${");
                prop_assert!(!is_plain || found == text);
            }
        }
    }
}
