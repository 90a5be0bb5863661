//! Text to segments. Positions in errors are bytes, counted from zero.

use super::{Error, Segment};

/// Read the segments of a path. Quotes around names are dropped; they never keep a period from separating.
pub(super) fn segments(text: &str) -> Result<Vec<Segment>, Error> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        if end > 0 {
            segments.push(field(&rest[..end]));
        }
        at += end;
        at = match text.as_bytes().get(at) {
            None => at,
            Some(b'.') => after_period(text, at)?,
            Some(b'[') => {
                let (segment, next) = in_brackets(text, at)?;
                segments.push(segment);
                next
            }
            Some(_) => return Err(unexpected(']', at)),
        };
    }
    Ok(segments)
}

/// A period stands between names: never first, last, or before a bracket or another period.
fn after_period(text: &str, at: usize) -> Result<usize, Error> {
    if at == 0 || at + 1 == text.len() {
        return Err(unexpected('.', at));
    }
    match text.as_bytes()[at + 1] {
        b'.' => Err(unexpected('.', at + 1)),
        b'[' => Err(unexpected('[', at + 1)),
        _ => Ok(at + 1),
    }
}

/// Brackets hold an index, or a name in which periods mean nothing.
fn in_brackets(text: &str, at: usize) -> Result<(Segment, usize), Error> {
    let inside = &text[at + 1..];
    let Some(end) = inside.find(']') else {
        return Err(Error::new(format!("unterminated '[' at position {at}")));
    };
    if end == 0 {
        return Err(unexpected(']', at + 1));
    }
    let inside = &inside[..end];
    if let Some(bracket) = inside.find('[') {
        return Err(unexpected('[', at + 1 + bracket));
    }
    Ok((field_or_index(inside), at + 1 + end + 1))
}

/// An index is what fits 32 bits; longer digits are a name.
pub(super) fn field_or_index(text: &str) -> Segment {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u32>() {
        // `parse` alone would take `+1` for an index.
        Ok(index) if is_digits => Segment::Index(index as usize),
        _ => field(text),
    }
}

pub(super) fn field(text: &str) -> Segment {
    // All quotes at both ends, matching or not: the original calls `strings.Trim` with both.
    Segment::Field(text.trim_matches(['\'', '"']).to_owned())
}

fn unexpected(what: char, at: usize) -> Error {
    Error::new(format!("unexpected '{what}' at position {at}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Path, Segments};
    use super::*;

    fn name(text: &str) -> Segment {
        Segment::Field(text.into())
    }

    fn parse(text: &str) -> Result<Vec<Segment>, String> {
        Path::parse(text).map(|path| path.segments).map_err(|error| error.to_string())
    }

    #[test]
    fn names_indexes_and_brackets_are_told_apart() {
        assert_eq!(parse("a.b"), Ok(vec![name("a"), name("b")]));
        assert_eq!(
            parse("a[0][12].b"),
            Ok(vec![name("a"), Segment::Index(0), Segment::Index(12), name("b")])
        );
        assert_eq!(parse("a[0]b"), Ok(vec![name("a"), Segment::Index(0), name("b")]));
        assert_eq!(parse("a[.x.y]"), Ok(vec![name("a"), name(".x.y")]));
        assert_eq!(parse("a['x.y']['0']"), Ok(vec![name("a"), name("x.y"), name("0")]));
        assert_eq!(parse("a.0"), Ok(vec![name("a"), name("0")]));
        assert_eq!(parse("a[4294967296]"), Ok(vec![name("a"), name("4294967296")]));
        assert_eq!(parse("a[+1][-1]"), Ok(vec![name("a"), name("+1"), name("-1")]));
        assert_eq!(parse("a[007]"), Ok(vec![name("a"), Segment::Index(7)]));
        assert_eq!(parse("é.[".trim_end_matches(['.', '['])), Ok(vec![name("é")]));
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn mistake_is_named_with_its_position() {
        for (path, problem) in [
            (".a", "unexpected '.' at position 0"),
            ("a..b", "unexpected '.' at position 2"),
            ("a.b.", "unexpected '.' at position 3"),
            ("a[]", "unexpected ']' at position 2"),
            ("a.[0]", "unexpected '[' at position 2"),
            ("a]", "unexpected ']' at position 1"),
            ("é]", "unexpected ']' at position 2"),
            ("a[0", "unterminated '[' at position 1"),
            ("a[b[0]]", "unexpected '[' at position 3"),
        ] {
            assert_eq!(parse(path), Err(format!("cannot parse path \"{path}\": {problem}")));
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in ".*") {
            let _ = Path::parse(&text);
        }

        #[test]
        fn plain_paths_print_as_they_were_written(text in r"[a-z]{1,3}(\.[a-z]{1,3}|\[[1-9][0-9]?\]|\[\*\]){0,4}") {
            let path = Path::parse(&text).unwrap();
            prop_assert_eq!(Segments(&path.segments).to_string(), text);
        }
    }
}
