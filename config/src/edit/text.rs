//! The edits themselves: the replaced bytes, and their replacement.

use super::node::{TomlHeader, TomlNode};
use super::{PathStep, spell};
use serde_json::Value as Json;
use std::ops::Range;
use toml_edit::Document;

fn read(text: &str) -> Result<Document<&str>, String> {
    Document::parse(text).map_err(|it| format!("The text is not TOML: {}.", it.message()))
}

/// Sets a value: see [`super::Change::Set`].
pub fn set(text: String, path: &[PathStep], value: &Json) -> Result<String, String> {
    let document = read(&text)?;
    let root = TomlNode::Table(document.as_table());
    let (depth, node) = root.walk(path);
    let missing = &path[depth..];
    let whole = |keys: &[PathStep]| pair(keys, value);
    match (node, missing) {
        (TomlNode::Array(_), []) if value.is_array() => set_list(&text, path, node, value),
        (TomlNode::Table(_) | TomlNode::Tables(_), []) => {
            Err(format!("{} is a section; edit its keys one by one.", spell(path)))
        }
        (_, []) => Ok(replaced(&text, span(node)?, &literal(value)?)),
        (TomlNode::Tables(_), [PathStep::At(number)]) if *number == node.len() && value.is_object() => {
            add_section(&text, root, &path[..depth], value)
        }
        (TomlNode::Table(table), [names @ .., PathStep::Name(_), PathStep::At(0)])
            if value.is_object()
                && !table.is_dotted()
                && names.iter().all(|it| matches!(it, PathStep::Name(_))) =>
        {
            add_section(&text, root, &path[..path.len() - 1], value)
        }
        // Where a header would not belong to it, the list is a value.
        (TomlNode::Table(_) | TomlNode::Inline(_), [.., PathStep::Name(_), PathStep::At(0)]) => {
            let list = Json::Array(vec![value.clone()]);
            set(text.clone(), &path[..path.len() - 1], &list)
        }
        (TomlNode::Array(_), [PathStep::At(number)]) if *number == node.len() => {
            Ok(added(&text, span(node)?, &node.members(), &literal(value)?))
        }
        (TomlNode::Inline(_), keys) => {
            let pairs: Vec<_> = node.pairs().into_iter().map(|it| it.1).collect();
            Ok(added(&text, span(node)?, &pairs, &whole(keys)?))
        }
        (TomlNode::Table(table), keys @ [PathStep::Name(_), ..]) => {
            let in_list = path[..depth].iter().any(|it| matches!(it, PathStep::At(_)));
            if table.is_dotted() {
                add_dotted(&text, root, path, depth, value)
            } else if (table.is_implicit() && depth > 0) || (keys.len() > 1 && !in_list) {
                add_header(&text, path, value)
            } else {
                add_entry(&text, root, node, &whole(keys)?)
            }
        }
        _ => Err(format!("{} does not exist.", spell(&path[..=depth]))),
    }
}

/// Removes: see [`super::Change::Remove`].
pub fn remove(text: String, path: &[PathStep]) -> Result<String, String> {
    let document = read(&text)?;
    let root = TomlNode::Table(document.as_table());
    let (last, way) = path.split_last().ok_or("The path is empty.")?;
    let (depth, parent) = root.walk(way);
    let Some(node) = parent.step(last).filter(|_| depth == way.len()) else { return Ok(text) };
    let is_in_key = matches!(way.last(), Some(PathStep::Name(_)));
    if matches!(parent, TomlNode::Inline(_)) && is_in_key && parent.pairs().len() == 1 {
        // Nothing would be left of it.
        return remove(text.clone(), way);
    }
    let cuts = match (parent, node, last) {
        (TomlNode::Array(_), _, PathStep::At(number)) => vec![member_cut(&text, &parent.members(), *number)],
        (TomlNode::Inline(_), _, PathStep::Name(name)) => {
            let pairs = parent.pairs();
            let at =
                pairs.iter().position(|it| it.0 == *name).ok_or("The position of an entry is missing.")?;
            let ranges: Vec<_> = pairs.into_iter().map(|it| it.1).collect();
            vec![member_cut(&text, &ranges, at)]
        }
        (_, TomlNode::Table(_) | TomlNode::Tables(_), _) => {
            let beneath = |it: &TomlHeader| it.path.starts_with(path);
            let headers = root.headers().into_iter().filter(beneath);
            let mut cuts: Vec<_> = headers.map(|it| line_of(&text, it.start).start..it.end).collect();
            if let TomlNode::Table(it) = node
                && it.is_dotted()
            {
                cuts.extend(node.entries());
            }
            cuts
        }
        (TomlNode::Table(_), value, PathStep::Name(_)) => {
            // The entry with this value; its key may have dots before it.
            let end = span(value)?.end;
            parent.entries().into_iter().filter(|it| it.end == end).collect()
        }
        _ => Vec::new(),
    };
    let mut text = text.clone();
    for cut in cuts.into_iter().rev() {
        text = without(&text, cut, matches!(parent, TomlNode::Table(_) | TomlNode::Tables(_)));
    }
    Ok(text)
}

/// Moves a member of a list: see [`super::Change::Move`].
pub fn move_to(text: String, path: &[PathStep], to: usize) -> Result<String, String> {
    let document = read(&text)?;
    let root = TomlNode::Table(document.as_table());
    let nothing = || format!("{} does not exist.", spell(path));
    let Some((PathStep::At(from), way)) = path.split_last() else { return Err(nothing()) };
    let (depth, list) = root.walk(way);
    if depth < way.len() || list.len() <= (*from).max(to) {
        return Err(nothing());
    }
    let places = match list {
        TomlNode::Array(_) => list.members(),
        _ => sections(&text, &root.headers(), way, list.len())?,
    };
    let mut order: Vec<usize> = (0..places.len()).collect();
    let moved = order.remove(*from);
    order.insert(to, moved);
    Ok(reordered(&text, &places, &order, matches!(list, TomlNode::Tables(_))))
}

/// Puts the texts of `places` into another order.
fn reordered(text: &str, places: &[Range<usize>], order: &[usize], are_lines: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    let mut at = 0;
    for (place, which) in places.iter().zip(order) {
        out.push_str(&text[at..place.start]);
        let piece = &text[places[*which].clone()];
        out.push_str(piece);
        if are_lines && !piece.ends_with('\n') {
            out.push_str(newline(text));
        }
        at = place.end;
    }
    out.push_str(&text[at..]);
    out
}

/// The lines of each member of a list of sections, with the comments right above it.
fn sections(
    text: &str,
    headers: &[TomlHeader],
    list: &[PathStep],
    count: usize,
) -> Result<Vec<Range<usize>>, String> {
    let member = |number: usize| {
        let path = [list, &[PathStep::At(number)]].concat();
        let beneath = |it: &TomlHeader| it.path.starts_with(&path);
        let first = headers.iter().position(beneath)?;
        let after = first + headers[first..].iter().take_while(|it| beneath(it)).count();
        if headers[after..].iter().any(beneath) {
            return None; // In two parts.
        }
        let end = headers.get(after).map_or(text.len(), |it| with_comments(text, it.start));
        Some(with_comments(text, headers[first].start)..end)
    };
    let all: Option<Vec<_>> = (0..count).map(member).collect();
    all.ok_or_else(|| format!("The parts of a {} are not adjacent in the file; edit the text.", spell(list)))
}

/// `[[path]]` and its keys, after the last one of its kind.
fn add_section(text: &str, root: TomlNode<'_>, list: &[PathStep], value: &Json) -> Result<String, String> {
    let mut lines = Vec::new();
    section_lines(list, value, &mut lines)?;
    let headers = root.headers();
    let owner = match list.iter().rposition(|it| matches!(it, PathStep::At(_))) {
        // Within its site.
        Some(at) => &list[..=at],
        None => list,
    };
    let last = headers.iter().rposition(|it| it.path.starts_with(owner));
    let at = match last.and_then(|it| headers.get(it + 1)) {
        Some(next) => with_comments(text, next.start),
        None => text.len(),
    };
    let end = newline(text);
    let before = if at == 0 {
        ""
    } else if text[..at].ends_with('\n') {
        end
    } else {
        &format!("{end}{end}")
    };
    let before = if text[..at].ends_with(&format!("{end}{end}")) { "" } else { before };
    let after = if at < text.len() { end } else { "" };
    Ok(replaced(text, at..at, &format!("{before}{}{end}{after}", lines.join(end))))
}

/// The lines of a section: its keys, and then its lists of sections.
fn section_lines(list: &[PathStep], value: &Json, out: &mut Vec<String>) -> Result<(), String> {
    let names = |it: &PathStep| match it {
        PathStep::Name(name) => Some(key(name)),
        PathStep::At(_) => None,
    };
    let header: Vec<String> = list.iter().filter_map(names).collect();
    out.push(format!("[[{}]]", header.join(".")));
    let map = value.as_object().into_iter().flatten();
    let is_list =
        |it: &Json| it.as_array().is_some_and(|it| !it.is_empty() && it.iter().all(Json::is_object));
    let (lists, keys): (Vec<_>, Vec<_>) = map.filter(|it| !it.1.is_null()).partition(|it| is_list(it.1));
    for (name, value) in keys {
        out.push(format!("{} = {}", key(name), literal(value)?));
    }
    for (name, members) in lists {
        let inner = [list, &[PathStep::At(0), PathStep::Name(name.clone())]].concat();
        for member in members.as_array().into_iter().flatten() {
            out.push(String::new());
            section_lines(&inner, member, out)?;
        }
    }
    Ok(())
}

/// A new section at the end, with one key.
fn add_header(text: &str, path: &[PathStep], value: &Json) -> Result<String, String> {
    let (last, section) = path.split_last().ok_or("The path is empty.")?;
    let names: Vec<String> = section.iter().map(step_key).collect();
    let end = newline(text);
    let before = match text {
        "" => "",
        _ if text.ends_with('\n') => end,
        _ => &format!("{end}{end}"),
    };
    let own = pair(std::slice::from_ref(last), value)?;
    Ok(format!("{text}{before}[{}]{end}{own}{end}", names.join(".")))
}

/// Adds a line to a section with a header, or to the document before all headers.
fn add_entry(text: &str, root: TomlNode<'_>, table: TomlNode<'_>, line: &str) -> Result<String, String> {
    let end = newline(text);
    let entries = table.entries();
    if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
        let at = line_of(text, last.end).end;
        return Ok(inserted_line(text, at, &format!("{}{line}", indent(text, first.start))));
    }
    let headers = root.headers();
    let is_root = matches!((table, root), (TomlNode::Table(a), TomlNode::Table(b)) if std::ptr::eq(a, b));
    if is_root {
        let at = headers.first().map_or(text.len(), |it| with_comments(text, it.start));
        let line = if headers.is_empty() { line.to_owned() } else { format!("{line}{end}") };
        return Ok(inserted_line(text, at, &line));
    }
    let at = line_of(text, span(table)?.start).end;
    Ok(inserted_line(text, at, &format!("{}{line}", indent(text, span(table)?.start))))
}

/// Adds a line of dotted keys, after the last one with the same beginning.
fn add_dotted(
    text: &str,
    root: TomlNode<'_>,
    path: &[PathStep],
    depth: usize,
    value: &Json,
) -> Result<String, String> {
    let dotted =
        |it: &usize| matches!(root.walk(&path[..*it]).1, TomlNode::Table(table) if table.is_dotted());
    let first = (1..=depth).rev().take_while(dotted).last().unwrap_or(depth) - 1;
    let names: Vec<String> = path[first..].iter().map(step_key).collect();
    let entries = root.walk(&path[..depth]).1.entries();
    let last = entries.last().ok_or("A section has no index.")?;
    let line = format!("{}{} = {}", indent(text, last.start), names.join("."), literal(value)?);
    Ok(inserted_line(text, line_of(text, last.end).end, &line))
}

/// A list with these members: existing ones keep their places and comments.
fn set_list(text: &str, path: &[PathStep], list: TomlNode<'_>, value: &Json) -> Result<String, String> {
    let wanted = value.as_array().cloned().unwrap_or_default();
    let Json::Array(mut here) = list.json() else { return Err("The list does not exist.".to_owned()) };
    let mut text = text.to_owned();
    let mut left = wanted.clone();
    let mut kept = Vec::new();
    for it in &here {
        let found = left.iter().position(|other| other == it);
        kept.push(found.is_some());
        found.map(|at| left.remove(at));
    }
    for number in (0..here.len()).rev().filter(|it| !kept[*it]) {
        text = remove(text, &[path, &[PathStep::At(number)]].concat())?;
        here.remove(number);
    }
    for it in left {
        text = set(text, &[path, &[PathStep::At(here.len())]].concat(), &it)?;
        here.push(it);
    }
    for (to, it) in wanted.iter().enumerate() {
        let from = to + here[to..].iter().position(|other| other == it).ok_or("A list member is missing.")?;
        if from != to {
            text = move_to(text, &[path, &[PathStep::At(from)]].concat(), to)?;
            let moved = here.remove(from);
            here.insert(to, moved);
        }
    }
    Ok(text)
}

/// Adds a member after the existing ones, between the brackets or braces of `around`.
fn added(text: &str, around: Range<usize>, members: &[Range<usize>], new: &str) -> String {
    let braces = text[around.clone()].starts_with('{');
    let Some(last) = members.last() else {
        let new = if braces { format!(" {new} ") } else { new.to_owned() };
        let inner = &text[around.start + 1..around.end - 1];
        let blank = if inner.trim().is_empty() { inner.len() } else { 0 };
        return replaced(text, around.start + 1..around.start + 1 + blank, &new);
    };
    let comma = comma_after(text, last.end, around.end);
    // If each member has a line of its own, the new one gets one as well.
    let own_line = text[around.start..last.start]
        .rfind('\n')
        .filter(|it| text[around.start + it..last.start].trim().is_empty());
    match (own_line, comma) {
        (None, Some(comma)) => replaced(text, comma + 1..comma + 1, &format!(" {new}")),
        (None, None) => replaced(text, last.end..last.end, &format!(", {new}")),
        (Some(_), comma) => {
            let line = format!("{}{new}{}", indent(text, last.start), if comma.is_some() { "," } else { "" });
            let end = line_of(text, comma.unwrap_or(last.end)).end.min(around.end - 1);
            let with_line = match text[..end].ends_with('\n') {
                true => inserted_line(text, end, &line),
                // The bracket is on the last member's line.
                false => replaced(text, end..end, &format!("{}{line}", newline(text))),
            };
            match comma {
                Some(_) => with_line,
                None => replaced(&with_line, last.end..last.end, ","),
            }
        }
    }
}

/// A list member with its comma.
fn member_cut(text: &str, members: &[Range<usize>], number: usize) -> Range<usize> {
    let it = &members[number];
    if let Some(next) = members.get(number + 1) {
        let comma = comma_after(text, it.end, next.start);
        let end = comma.map_or(it.end, |it| it + 1);
        // The rest of the line stays, without the space before it.
        return it.start
            ..end + text[end..next.start].len() - text[end..next.start].trim_start_matches(' ').len();
    }
    match number.checked_sub(1).map(|it| &members[it]) {
        // The comma before it is removed, unless a comment is between them.
        Some(before)
            if !text[before.end..it.start].contains('#')
                && comma_after(text, it.end, text.len()).is_none() =>
        {
            before.end..it.end
        }
        _ => it.start..comma_after(text, it.end, text.len()).map_or(it.end, |it| it + 1),
    }
}

/// The comma after `from` if only spaces and comments precede it, and before `until`.
fn comma_after(text: &str, from: usize, until: usize) -> Option<usize> {
    let mut in_comment = false;
    for (at, byte) in text.as_bytes()[from..until].iter().enumerate() {
        match byte {
            b'\n' => in_comment = false,
            _ if in_comment => {}
            b'#' => in_comment = true,
            b',' => return Some(from + at),
            b' ' | b'\t' | b'\r' => {}
            _ => return None,
        }
    }
    None
}

/// The text without `cut`; a line that becomes blank is removed, and a comment behind the cut stays on a line of its own.
/// `is_entry`: the cut is whole lines except a comment behind it, and dots of a key before it.
fn without(text: &str, cut: Range<usize>, is_entry: bool) -> String {
    let line = line_of(text, cut.start).start;
    let end = line_of(text, cut.end).end;
    let start = if is_entry { line + indent(text, cut.start).len() } else { cut.start };
    let (before, after) = (&text[line..start], &text[cut.end..end]);
    if before.trim().is_empty()
        && after.trim().is_empty()
        && (is_entry || text[cut.clone()].contains('\n') || line > 0)
    {
        return replaced(text, line..end, "");
    }
    let after = if before.trim().is_empty() { after.trim_start_matches([' ', '\t']) } else { after };
    format!("{}{before}{after}{}", &text[..line], &text[end..])
}

/// The start of the comments right above a header, or the header's own line.
fn with_comments(text: &str, header: usize) -> usize {
    let mut start = line_of(text, header).start;
    while start > 0 {
        let above = line_of(text, start - 1).start;
        if !text[above..start].trim_start().starts_with('#') {
            break;
        }
        start = above;
    }
    start
}

/// The line of a byte, its end included.
fn line_of(text: &str, at: usize) -> Range<usize> {
    let start = text[..at].rfind('\n').map_or(0, |it| it + 1);
    let end = text[at..].find('\n').map_or(text.len(), |it| at + it + 1);
    start..end
}

/// The blanks at the start of a byte's line.
fn indent(text: &str, at: usize) -> &str {
    let line = &text[line_of(text, at)];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Adds a whole line at `at`, which is the start of a line or the end of the text.
fn inserted_line(text: &str, at: usize, line: &str) -> String {
    let end = newline(text);
    let before = if at == 0 || text[..at].ends_with('\n') { "" } else { end };
    replaced(text, at..at, &format!("{before}{line}{end}"))
}

fn replaced(text: &str, range: Range<usize>, new: &str) -> String {
    format!("{}{new}{}", &text[..range.start], &text[range.end..])
}

/// The line end of this text.
fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn span(node: TomlNode<'_>) -> Result<Range<usize>, String> {
    node.span().ok_or_else(|| "A part of the text has no position.".to_owned())
}

/// `a = { b = VALUE }` for the path `a`, `b`.
fn pair(keys: &[PathStep], value: &Json) -> Result<String, String> {
    match keys {
        [PathStep::Name(name)] => Ok(format!("{} = {}", key(name), literal(value)?)),
        [PathStep::Name(name), rest @ ..] => Ok(format!("{} = {{ {} }}", key(name), pair(rest, value)?)),
        _ => Err("A list is created with its first member.".to_owned()),
    }
}

fn step_key(step: &PathStep) -> String {
    match step {
        PathStep::Name(name) => key(name),
        PathStep::At(number) => number.to_string(),
    }
}

fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_');
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// A basic string (TOML 1.0, "String").
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for it in text.chars() {
        match it {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            it if it.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(it))),
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

/// A value in TOML notation.
fn literal(value: &Json) -> Result<String, String> {
    Ok(match value {
        Json::Bool(it) => it.to_string(),
        Json::Number(it) if it.is_i64() => it.to_string(),
        Json::Number(it) => {
            return Err(format!("{it} is not a whole number within the range of a configuration."));
        }
        Json::String(it) => quoted(it),
        Json::Array(list) => {
            let all: Result<Vec<String>, String> = list.iter().map(literal).collect();
            format!("[{}]", all?.join(", "))
        }
        Json::Object(map) => {
            let keys = map.iter().filter(|it| !it.1.is_null());
            let all: Result<Vec<String>, String> =
                keys.map(|(name, value)| Ok(format!("{} = {}", key(name), literal(value)?))).collect();
            let all = all?;
            if all.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", all.join(", ")) }
        }
        Json::Null => return Err("A list cannot have a null member.".to_owned()),
    })
}
