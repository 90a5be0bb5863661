//! What a scalar stands for.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `resolve.go`, `decode.go`.

use super::{Library, Node, resolve};
use crate::base64;

/// Tags that YAML itself defines begin with this.
const YAML_TAG: &str = "tag:yaml.org,2002:";

/// Words that mean something to version 2 only.
const OLD_TRUE: [&str; 8] = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"];
const OLD_FALSE: [&str; 8] = ["n", "N", "no", "No", "NO", "off", "Off", "OFF"];

/// The value of a scalar with this tag, which is empty if it has none. Quoted ones are strings unless a tag says otherwise.
pub(super) fn value(text: &str, tag: &str, is_quoted: bool, library: Library) -> Result<Node, String> {
    let short = match tag.strip_prefix(YAML_TAG) {
        Some(known) => known,
        None if tag.is_empty() || tag == "!" && !is_quoted => "",
        // A tag of somebody's own: the text is kept as it is.
        None => "str",
    };
    if short == "binary" {
        let bytes =
            base64::decode(text.as_bytes()).map_err(|_| "!!binary value contains invalid base64 data")?;
        return Ok(
            String::from_utf8(bytes).map_or_else(|error| Node::Bytes(error.into_bytes()), Node::String)
        );
    }
    if short == "str" || is_quoted && short.is_empty() {
        return Ok(Node::String(text.to_owned()));
    }
    let node = plain(text, library);
    match (short, node) {
        ("", node) => Ok(node),
        ("float", Node::Int(integer)) =>
        {
            #[expect(clippy::cast_precision_loss, reason = "Go converts it like this, too")]
            Ok(Node::Float(integer as f64))
        }
        (wanted, node) if wanted == name(&node) => Ok(node),
        // Version 2 has read it as text already, and the tag asks for no more than that.
        ("timestamp", Node::String(text)) if resolve::is_timestamp(&text) => Ok(Node::String(text)),
        // Tags such as `!!set` are not known to the libraries, and keep the text.
        (wanted, node) => match wanted {
            "bool" | "int" | "float" | "null" | "timestamp" => {
                Err(format!("cannot decode !!{} `{text}` as a !!{wanted}", name(&node)))
            }
            _ => Ok(Node::String(text.to_owned())),
        },
    }
}

fn name(node: &Node) -> &'static str {
    match node {
        Node::Null => "null",
        Node::Bool(_) => "bool",
        Node::Int(_) | Node::Uint(_) => "int",
        Node::Float(_) => "float",
        Node::String(_) | Node::Bytes(_) => "str",
        Node::Time(_) => "timestamp",
        Node::List(_) => "seq",
        Node::Map(_) => "map",
    }
}

/// Whether a text that stands there by itself is certainly a string: asked first, because nearly all of them are.
pub(super) fn is_certainly_string(text: &str) -> bool {
    // What means something else and begins with a letter is a word of at most five letters, and begins with one of these.
    let begins_word = |first: &u8| matches!(first.to_ascii_lowercase(), b'f' | b'n' | b'o' | b't' | b'y');
    let first = text.as_bytes().first();
    first.is_some_and(|first| first.is_ascii_alphabetic() && (text.len() > 5 || !begins_word(first)))
}

/// What a text means that stands there by itself.
fn plain(text: &str, library: Library) -> Node {
    let string = || Node::String(text.to_owned());
    if is_certainly_string(text) {
        return string();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Node::Null,
        "true" | "True" | "TRUE" => return Node::Bool(true),
        "false" | "False" | "FALSE" => return Node::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Node::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Node::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Node::Float(f64::NEG_INFINITY),
        // None of these words is longer, so that long texts are not compared with all of them.
        word if library == Library::V2 && word.len() <= 3 => {
            if OLD_TRUE.contains(&word) {
                return Node::Bool(true);
            }
            if OLD_FALSE.contains(&word) {
                return Node::Bool(false);
            }
        }
        _ => {}
    }
    match text.as_bytes()[0] {
        b'+' | b'-' | b'0'..=b'9' if resolve::is_timestamp(text) => match library {
            // It looks like a moment, but programs that read it into anything have always got a string.
            Library::V2 => string(),
            Library::V3 => Node::Time(text.to_owned()),
        },
        b'+' | b'-' | b'0'..=b'9' => resolve::number(&text.replace('_', ""), library).unwrap_or_else(string),
        b'.' if resolve::has_tidy_underscores(text) => {
            let float = text.replace('_', "").parse::<f64>().ok().filter(|float| float.is_finite());
            float.map_or_else(string, Node::Float)
        }
        _ => string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_means_something_is_never_certainly_a_string() {
        let mut words: Vec<_> = OLD_TRUE.into_iter().chain(OLD_FALSE).collect();
        words.extend(["true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "~", ""]);
        words.extend([".nan", ".inf", "+.inf", "-1", "1", "0x1", "1e3", "2026-01-01", "<<"]);
        for word in words {
            assert!(!is_certainly_string(word), "{word}");
        }
        for word in ["kind", "spec", "a", "metadata", "falsely", "yesterday"] {
            assert!(is_certainly_string(word), "{word}");
        }
    }
}
