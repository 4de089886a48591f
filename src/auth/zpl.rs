//! ZPL (RFC 4) as CZMQ reads and writes it: indented names with values, a line each.

use std::borrow::Cow;

/// CZMQ reads this much of a line, and reads on in the wrong place after a longer one.
pub(super) const LINE: usize = 1024;

/// How many spaces a level is indented by.
const INDENT: usize = 4;

/// A name, with or without a value, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// Counted from 1.
    pub(super) line: usize,
    /// 0 for a section.
    pub(super) level: usize,
    pub(super) name: &'a str,
    /// Empty when there is none.
    pub(super) value: &'a str,
}

/// What is wrong with a line. It does not quote the line, which may hold a secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) reason: Cow<'static, str>,
}

/// The items of a text. Ends with the first fault.
pub(super) fn items(text: &[u8]) -> impl Iterator<Item = Result<Item<'_>, Fault>> {
    let mut deepest = 0;
    let mut faulty = false;
    text.split(|byte| *byte == b'\n')
        .enumerate()
        .map_while(move |(index, bytes)| {
            if faulty {
                return None;
            }
            let line = index + 1;
            let read = match read_line(bytes) {
                Ok(Some((level, _, _))) if level > deepest => {
                    Err("it is indented deeper than what is above allows".into())
                }
                Ok(Some((level, name, value))) => {
                    deepest = level + 1;
                    Ok(Some(Item { line, level, name, value }))
                }
                Ok(None) => Ok(None),
                Err(reason) => Err(reason),
            };
            faulty = read.is_err();
            Some(read.map_err(|reason| Fault { line, reason }).transpose())
        })
        .flatten()
}

/// Level, name and value; `None` for a line of neither.
fn read_line(bytes: &[u8]) -> Result<Option<(usize, &str, &str)>, Cow<'static, str>> {
    if bytes.len() > LINE {
        return Err(format!("it is longer than {LINE} bytes").into());
    }
    let line = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?.trim_ascii_end();
    let content = line.trim_start_matches(' ');
    if content.is_empty() || content.starts_with('#') {
        return Ok(None);
    }
    let spaces = line.len() - content.len();
    if spaces % INDENT != 0 {
        return Err(
            format!("it is indented by {spaces} spaces, which should be {INDENT} a level").into()
        );
    }
    let end = content.find(|character| !in_name(character)).unwrap_or(content.len());
    let (name, rest) = content.split_at(end);
    if !is_name(name) {
        return Err(NAME.into());
    }
    let rest = rest.trim_ascii_start();
    let value = match rest.strip_prefix('=') {
        Some(value) => read_value(value.trim_ascii_start())?,
        None if is_comment(rest) => "",
        None => return Err("a name is followed by neither = nor a comment".into()),
    };
    Ok(Some((spaces / INDENT, name, value)))
}

fn read_value(text: &str) -> Result<&str, &'static str> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        let end = text.find('#').unwrap_or(text.len());
        return Ok(text[..end].trim_ascii_end());
    };
    let (value, rest) = text[1..].split_once(quote).ok_or("a quote is not closed")?;
    if !is_comment(rest.trim_ascii_start()) {
        return Err("something that is no comment follows a quoted value");
    }
    Ok(value)
}

fn is_comment(text: &str) -> bool {
    text.is_empty() || text.starts_with('#')
}

/// What a name is made of.
pub(super) const NAME: &str =
    "a name is made of ASCII letters, digits and $-_@.&+/, with no / at its ends";

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(in_name) && !name.starts_with('/') && !name.ends_with('/')
}

fn in_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "$-_@.&+/".contains(character)
}

/// The value as it is written, or why it cannot be: ZPL has no escapes.
pub(super) fn quoted(value: &str) -> Result<[&str; 3], &'static str> {
    if value.chars().any(|character| character.is_control() && character != '\t') {
        return Err("a value is one line, without control characters");
    }
    let plain =
        !value.contains('#') && value.trim_ascii() == value && !value.starts_with(['"', '\'']);
    match (value.contains('"'), value.contains('\'')) {
        (false, _) => Ok(["\"", value, "\""]),
        (true, false) => Ok(["'", value, "'"]),
        (true, true) if plain => Ok(["", value, ""]),
        (true, true) => {
            Err("a value that has both \" and ' must have no #, and neither space nor \
                             quote at its ends")
        }
    }
}
