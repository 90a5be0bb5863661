//! Work for all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What recursion over anything that can be read needs, and more.
const STACK_BYTES: usize = 16 << 20;

/// How many items a thread takes at once.
const CHUNK: usize = 16;

/// The results of some work for each item, in the order of the items.
pub(super) fn map<Item: Sync, Result: Send>(
    items: &[Item],
    work: impl Fn(&Item) -> Result + Sync,
) -> std::io::Result<Vec<Result>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(items.len().div_ceil(CHUNK));
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(chunk) = items.get(start..(start + CHUNK).min(items.len())) else { return done };
            if chunk.is_empty() {
                return done;
            }
            // With its place, because threads finish in any order.
            done.push((start, chunk.iter().map(&work).collect::<Vec<_>>()));
        }
    };
    let mut chunks = thread::scope(|scope| {
        let mut helpers = Vec::new();
        for _ in 0..threads {
            helpers.push(thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, take)?);
        }
        let done = helpers.into_iter().map(|helper| {
            // What went wrong there went wrong here.
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok::<_, std::io::Error>(done.flatten().collect::<Vec<_>>())
    })?;
    chunks.sort_unstable_by_key(|(start, _)| *start);
    Ok(chunks.into_iter().flat_map(|(_, results)| results).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 15, 16, 17, 1000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(
                map(&items, |item| item * 2).unwrap(),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
        }
    }
}
