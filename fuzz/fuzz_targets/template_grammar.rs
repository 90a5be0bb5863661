//! Templates that are put together from words of the language, all functions among them, end within their budget.
#![no_main]

#[path = "../../crates/template/tests/it/soup/words.rs"]
mod words;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use words::Words;

static WORDS: LazyLock<Words> = LazyLock::new(Words::new);

fuzz_target!(|input: &[u8]| {
    let mut numbers = input.chunks_exact(2).map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
    let text = WORDS.template(&mut || numbers.next().unwrap_or_default());
    // An output that is longer than the budget panics; libFuzzer's own limit is there for the memory.
    let _ = WORDS.run(&text);
});
