//! Writes tar archives block by block, as nobody should.

/// An archive under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawTar(Vec<u8>);

/// A header with its content. Everything in it may be wrong.
#[derive(Debug, Clone)]
pub(crate) struct Block<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) flag: u8,
    pub(crate) mode: u32,
    /// The size that the header states, if it is not that of the content.
    pub(crate) size: Option<&'a [u8; 12]>,
    pub(crate) time: &'a [u8; 12],
    pub(crate) link: &'a [u8],
    pub(crate) content: &'a [u8],
}

impl Default for Block<'_> {
    fn default() -> Self {
        Self {
            path: b"f",
            flag: b'0',
            mode: 0o644,
            size: None,
            time: b"00000001750\0",
            link: b"",
            content: b"",
        }
    }
}

impl RawTar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.block(&Block { path: path.as_bytes(), content: content.as_bytes(), ..Block::default() })
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        self.block(&Block { path: path.as_bytes(), flag: b'5', mode: 0o755, ..Block::default() })
    }

    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.link(path, b'2', target)
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.link(path, b'1', target)
    }

    fn link(self, path: &str, flag: u8, target: &str) -> Self {
        let block =
            Block { path: path.as_bytes(), flag, mode: 0o777, link: target.as_bytes(), ..Block::default() };
        self.block(&block)
    }

    /// An extended header of POSIX with some records.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        self.pax_of(b'x', records)
    }

    pub(crate) fn pax_of(self, flag: u8, records: &[(&str, &[u8])]) -> Self {
        let content: Vec<u8> = records.iter().flat_map(|(key, value)| record(key, value)).collect();
        self.block(&Block { path: b"PaxHeader", flag, content: &content, ..Block::default() })
    }

    pub(crate) fn block(mut self, block: &Block) -> Self {
        self.0.extend(header(block));
        self.0.extend(block.content);
        let end = self.0.len().next_multiple_of(512);
        self.0.resize(end, 0);
        self
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn zeros(self, count: usize) -> Self {
        self.bytes(&vec![0; count])
    }

    /// The archive with its end.
    pub(crate) fn end(self) -> Vec<u8> {
        self.zeros(1024).0
    }

    /// The archive as it is, without its end.
    pub(crate) fn cut(self) -> Vec<u8> {
        self.0
    }
}

pub(crate) fn header(block: &Block) -> [u8; 512] {
    let mut header = [0; 512];
    let stated = format!("{:011o}\0", block.content.len());
    let mut put = |at: usize, value: &[u8]| header[at..at + value.len()].copy_from_slice(value);
    put(0, &block.path[..block.path.len().min(100)]);
    put(100, format!("{:07o}\0", block.mode).as_bytes());
    put(108, b"0001750\0");
    put(116, b"0001750\0");
    put(124, block.size.map_or(stated.as_bytes(), |size| size));
    put(136, block.time);
    put(148, b"        ");
    put(156, &[block.flag]);
    put(157, &block.link[..block.link.len().min(100)]);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

pub(crate) fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (1..8).map(|digits| rest + digits).find(|length| length.to_string().len() + rest == *length);
    [length.unwrap().to_string().as_bytes(), b" ", key.as_bytes(), b"=", value, b"\n"].concat()
}
