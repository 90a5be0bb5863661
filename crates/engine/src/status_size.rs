//! How large the status of an Operation, an ActionSet or a FunctionRollout may become.
//!
//! An API server stores objects of at most 1.5 MiB, and refuses larger ones however often they are sent. What functions return is
//! therefore bounded before it becomes a part of a status.

use std::io;

use serde::Serialize;

/// The most bytes of JSON that a status may have. What is left of 1.5 MiB is for the spec and for managed fields.
pub(crate) const STATUS_LIMIT: usize = 1 << 20;
/// The most bytes of a message in a status.
pub(crate) const MESSAGE_LIMIT: usize = 8 << 10;

/// How many bytes of JSON a value has.
pub(crate) fn json_size(value: &impl Serialize) -> usize {
    let mut size = ByteCount(0);
    // Nothing that is put into a status has keys that are no text, which is all that could fail.
    serde_json::to_writer(&mut size, value).map_or(usize::MAX, |()| size.0)
}

/// A message within the limit. The end of a longer one is left out, which it says.
pub(crate) fn shortened(message: String) -> String {
    shortened_to(MESSAGE_LIMIT, message)
}

/// The same with a limit of so many bytes, for a text that becomes part of a message: to shorten it twice would hide how much is missing.
pub(crate) fn shortened_to(limit: usize, message: String) -> String {
    if message.len() <= limit {
        return message;
    }
    let kept = message.floor_char_boundary(limit);
    format!("{}… ({} more bytes are left out)", &message[..kept], message.len() - kept)
}

/// Counts what is written to it.
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn size_is_that_of_the_text() {
        for value in [json!({"a": [1, "ü", null]}), json!("x".repeat(5000))] {
            assert_eq!(json_size(&value), value.to_string().len());
        }
    }

    #[test]
    fn long_message_is_cut_at_a_character_and_says_so() {
        assert_eq!(shortened("no".to_owned()), "no");
        let message = shortened("ü".repeat(MESSAGE_LIMIT));
        assert!(message.ends_with("ü… (8192 more bytes are left out)"), "{}", &message[message.len() - 60..]);
    }
}
