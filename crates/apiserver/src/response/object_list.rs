//! A list of stored objects as JSON, made piece by piece while it is sent.
//!
//! Its text is never there as a whole: a client that reads slowly, or not at all, has objects kept that the store has most often
//! anyway, and not a copy of them.

use std::sync::Arc;

use bytes::Bytes;

use super::PIECE;
use crate::store::Entry;

/// What follows the last object.
const TAIL: &[u8] = b"]}\n";

/// What is left of a list. Clones continue from the same place.
#[derive(Debug, Clone)]
pub struct ObjectList {
    /// What comes before the next object: the head of the list, or a comma behind an object that was a piece of its own.
    before: Bytes,
    objects: Arc<Vec<Arc<Entry>>>,
    next: usize,
    /// How many bytes are still to come.
    left: usize,
}

impl ObjectList {
    /// For a head that ends where the first object begins, and objects that have so many bytes together.
    pub(crate) fn new(head: Bytes, objects: Vec<Arc<Entry>>, size: usize) -> Self {
        let commas = objects.len().saturating_sub(1);
        let left = head.len() + size + commas + TAIL.len();
        Self { before: head, objects: Arc::new(objects), next: 0, left }
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    fn has_more_objects(&self) -> bool {
        self.next < self.objects.len()
    }

    /// An object as it is stored, if it is large enough for a piece of its own.
    fn large_object(&mut self) -> Option<Bytes> {
        let object = self.objects.get(self.next)?.bytes();
        if !self.before.is_empty() || object.len() < PIECE {
            return None;
        }
        let object = object.clone();
        self.next += 1;
        let separator: &'static [u8] = if self.has_more_objects() { b"," } else { b"" };
        self.before = Bytes::from_static(separator);
        Some(object)
    }

    /// As many objects as fit into a piece.
    fn small_objects(&mut self) -> Bytes {
        let mut piece = Vec::with_capacity(self.left.min(PIECE + TAIL.len()));
        piece.extend_from_slice(&std::mem::take(&mut self.before));
        while let Some(entry) = self.objects.get(self.next) {
            let object = entry.bytes();
            // With the comma behind it.
            if piece.len() + object.len() + 1 > PIECE && !piece.is_empty() {
                return piece.into();
            }
            piece.extend_from_slice(object);
            self.next += 1;
            if self.has_more_objects() {
                piece.push(b',');
            }
        }
        piece.extend_from_slice(TAIL);
        piece.into()
    }
}

impl Iterator for ObjectList {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let piece = self.large_object().unwrap_or_else(|| self.small_objects());
        self.left -= piece.len();
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::store::{Change, Draft, Expect, Operation, Options, Store};

    /// Objects of about these sizes.
    async fn stored(store: &Store, sizes: &[usize]) -> Vec<Arc<Entry>> {
        if sizes.is_empty() {
            return Vec::new();
        }
        let collection = store.collection("/things");
        let operation = |(index, size): (usize, &usize)| {
            let object = json!({"kind": "Thing", "metadata": {}, "text": "x".repeat(*size)});
            let draft = Draft::new(object.as_object().unwrap()).unwrap();
            let key = collection.key("here", &format!("thing-{index}"));
            Operation { key, expect: Expect::Any, change: Change::Put(draft) }
        };
        store.submit(sizes.iter().enumerate().map(operation).collect()).await.unwrap()
    }

    #[tokio::test]
    async fn pieces_of_a_list_are_the_list_whatever_the_sizes_of_its_objects() {
        let store = Store::in_memory(Options::default()).unwrap();
        let many = [700; 500];
        let cases: [&[usize]; 9] = [
            &[],
            &[10],
            &[PIECE],
            &[10, 10],
            &[PIECE, PIECE],
            &[10, PIECE, 3 * PIECE, 10, PIECE, 10],
            &[PIECE - 100, PIECE - 50, PIECE - 75, PIECE - 60],
            &[PIECE / 2, PIECE / 2 - 60, PIECE],
            &many,
        ];
        for sizes in cases {
            let objects = stored(&store, sizes).await;
            let texts: Vec<_> = objects.iter().map(|entry| str::from_utf8(entry.bytes()).unwrap()).collect();
            let expected = format!("{{\"items\":[{}]}}\n", texts.join(","));
            let size = texts.iter().map(|text| text.len()).sum();
            let mut list = ObjectList::new(Bytes::from_static(b"{\"items\":["), objects.clone(), size);
            assert_eq!(list.left(), expected.len());
            let pieces: Vec<Bytes> = list.by_ref().collect();
            assert_eq!(pieces.concat(), expected.as_bytes(), "{sizes:?}");
            assert_eq!((list.left(), list.next()), (0, None));
            let parsed: Value = serde_json::from_slice(&pieces.concat()).unwrap();
            assert_eq!(parsed["items"].as_array().unwrap().len(), sizes.len());
            // Large objects are those of the store, and small ones are put together.
            let is_stored =
                |piece: &Bytes| objects.iter().any(|entry| entry.bytes().as_ptr() == piece.as_ptr());
            assert!(pieces.iter().all(|piece| is_stored(piece) || piece.len() <= PIECE + TAIL.len()));
        }
    }
}
