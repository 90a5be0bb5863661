//! How much an image may ask for. `docs/unpacking.md` has the same numbers for users.

/// How much an image may ask for before it is refused.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Layers of an image. Docker's limit is 127.
    pub layers: usize,
    /// Bytes of all layers together, uncompressed, headers and padding included.
    pub bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Uncompressed bytes for each compressed byte, counted from [`Limits::FREE_BYTES`] on.
    pub ratio: u64,
    /// Entries of all layers together.
    pub entries: u64,
    /// Bytes of all names together. It bounds the memory that unpacking takes.
    pub name_bytes: u64,
    /// Bytes of one path.
    pub path_bytes: usize,
    /// Bytes of one part of a path.
    pub component_bytes: usize,
    /// Parts of one path.
    pub depth: usize,
}

impl Limits {
    /// What a layer may unpack to however small it is. Many zeros are no attack yet.
    pub const FREE_BYTES: u64 = 64 << 20;

    /// How many links are followed for one path, as in Linux.
    pub const MAX_LINKS: usize = 40;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layers: 128,
            bytes: 8 << 30,
            file_bytes: 4 << 30,
            ratio: 200,
            entries: 500_000,
            name_bytes: 64 << 20,
            path_bytes: 4095,
            component_bytes: 255,
            depth: 128,
        }
    }
}
