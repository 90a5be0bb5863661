//! Writes archives in the ustar format, with extended headers where ustar has no room.
//!
//! # Invariants
//! * The same members give the same bytes: no times, owners or names of this machine get in.

use std::io::{self, Read, Write};

use super::{BLOCK, EntryKind};

/// What ustar has room for.
const MAX_NAME: usize = 100;
const MAX_SIZE: u64 = 0o777_7777_7777;

/// An entry to write. It belongs to root and is from 1970.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Relative, with `/` between the parts. Directories get another one at their end.
    pub path: &'a [u8],
    /// Where a link points to.
    pub link: &'a [u8],
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
}

impl<'a> Member<'a> {
    pub fn directory(path: &'a [u8], mode: u32) -> Self {
        Self { path, link: b"", kind: EntryKind::Directory, mode, size: 0 }
    }

    pub fn file(path: &'a [u8], mode: u32, size: u64) -> Self {
        Self { path, link: b"", kind: EntryKind::File, mode, size }
    }

    pub fn symlink(path: &'a [u8], link: &'a [u8]) -> Self {
        Self { path, link, kind: EntryKind::Symlink, mode: 0o777, size: 0 }
    }
}

/// Writes an archive to anything.
#[derive(Debug)]
pub struct Writer<W> {
    target: W,
}

impl<W: Write> Writer<W> {
    pub fn new(target: W) -> Self {
        Self { target }
    }

    /// Write an entry without content.
    pub fn add(&mut self, member: Member) -> io::Result<()> {
        self.add_file(member, io::empty())
    }

    /// Write an entry with exactly as much content as its size says.
    pub fn add_file(&mut self, member: Member, content: impl Read) -> io::Result<()> {
        let path = match member.kind {
            EntryKind::Directory => [member.path, b"/"].concat(),
            _ => member.path.to_vec(),
        };
        let records = records(&path, &member);
        if !records.is_empty() {
            let size = records.len() as u64;
            self.target.write_all(&header(b"PaxHeader", b"", b'x', 0o644, size))?;
            self.content(records.as_slice(), size)?;
        }
        let size = if member.size > MAX_SIZE { 0 } else { member.size };
        self.target.write_all(&header(&path, member.link, flag(member.kind), member.mode, size))?;
        self.content(content, member.size)
    }

    /// Write the end of the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.target.write_all(&[0; 2 * BLOCK])?;
        Ok(self.target)
    }

    fn content(&mut self, content: impl Read, size: u64) -> io::Result<()> {
        // One byte more is asked for to notice a file that grows while it is read.
        let mut content = content.take(size.saturating_add(1));
        let written = io::copy(&mut content.by_ref().take(size), &mut self.target)?;
        if written != size || io::copy(&mut content, &mut io::sink())? != 0 {
            return Err(io::Error::other("the file changed its size while it was read"));
        }
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        io::copy(&mut io::repeat(0).take(padding), &mut self.target)?;
        Ok(())
    }
}

/// Extended records for what the header has no room for.
fn records(path: &[u8], member: &Member) -> Vec<u8> {
    let mut records = Vec::new();
    if path.len() > MAX_NAME {
        records.extend(record(b"path", path));
    }
    if member.link.len() > MAX_NAME {
        records.extend(record(b"linkpath", member.link));
    }
    if member.size > MAX_SIZE {
        records.extend(record(b"size", member.size.to_string().as_bytes()));
    }
    records
}

/// A record says its own length, digits of the length included.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

fn header(path: &[u8], link: &[u8], flag: u8, mode: u32, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put(&mut block[0..100], path);
    put(&mut block[100..108], format!("{:07o}", mode & 0o7777).as_bytes());
    put(&mut block[108..116], b"0000000");
    put(&mut block[116..124], b"0000000");
    put(&mut block[124..136], format!("{size:011o}").as_bytes());
    put(&mut block[136..148], b"00000000000");
    put(&mut block[148..156], b"        ");
    block[156] = flag;
    put(&mut block[157..257], link);
    put(&mut block[257..265], b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    put(&mut block[148..156], format!("{sum:06o}\0 ").as_bytes());
    block
}

/// As much of the value as there is room for. What is cut off is in a record.
fn put(field: &mut [u8], value: &[u8]) {
    let length = value.len().min(field.len());
    field[..length].copy_from_slice(&value[..length]);
}

fn flag(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::File => b'0',
        EntryKind::HardLink => b'1',
        EntryKind::Symlink => b'2',
        EntryKind::Device => b'3',
        EntryKind::Directory => b'5',
        EntryKind::Fifo => b'6',
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Reader};
    use super::*;

    fn read(archive: &[u8]) -> Vec<(Entry, Vec<u8>)> {
        let mut reader = Reader::new(archive);
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            entries.push((entry, content));
        }
        entries
    }

    #[test]
    fn what_is_written_is_read_again() {
        let long = [b'n'; 300];
        for length in [1, 99, 100, 101, 155, 300] {
            let mut writer = Writer::new(Vec::new());
            writer.add(Member::directory(&long[..length], 0o755)).unwrap();
            writer.add_file(Member::file(&long[..length], 0o640, 3), &b"abc"[..]).unwrap();
            writer.add(Member::symlink(b"link", &long[..length])).unwrap();
            let entries = read(&writer.finish().unwrap());
            assert_eq!(entries[0].0.path, [&long[..length], b"/"].concat());
            assert_eq!(
                (entries[1].0.path.as_slice(), entries[1].0.mode, entries[1].1.as_slice()),
                (&long[..length], 0o640, &b"abc"[..])
            );
            assert_eq!(
                (entries[2].0.kind, entries[2].0.link.as_slice()),
                (EntryKind::Symlink, &long[..length])
            );
        }
    }

    #[test]
    fn file_that_grows_or_shrinks_is_noticed() {
        for content in [&b"ab"[..], b"abcd"] {
            let error = Writer::new(Vec::new()).add_file(Member::file(b"f", 0o644, 3), content).unwrap_err();
            assert!(error.to_string().contains("changed its size"), "{error}");
        }
    }
}
