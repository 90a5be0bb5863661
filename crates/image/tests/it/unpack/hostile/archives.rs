//! Archives that are damaged, too large, or could be understood in two ways.

use std::io::Write as _;

use ferroplane_image::Hasher;
use ferroplane_image::compression::Compression;
use ferroplane_image::unpack::{Limits, Unpacker};

use super::Expected::{Refused, Unpacked};
use super::{case, check, tar};
use crate::raw_tar::{Block, header};
use crate::unpack::{Surroundings, chain, unpack};

#[test]
fn archives_are_understood_in_one_way_or_not_at_all() {
    let with_size = |flag: u8, size: &'static [u8; 12]| Block { flag, size: Some(size), ..Block::default() };
    let mut broken = header(&Block::default());
    broken[0] = b'g';
    check(|_| {
        vec![
            case("sum", [tar().bytes(&broken).end()], Refused("checksum")),
            case(
                "half a header",
                [tar().bytes(&header(&Block::default())[..200]).cut()],
                Refused("ends in the middle"),
            ),
            case(
                "half a file",
                [tar().bytes(&header(&with_size(b'0', b"00000001000\0"))).zeros(100).cut()],
                Refused("ends in the middle"),
            ),
            case(
                "no padding after the last file, as umoci leaves it",
                [tar()
                    .file("a", "")
                    .bytes(&header(&Block { content: b"last", ..Block::default() }))
                    .bytes(b"last")
                    .cut()],
                Unpacked(&["a", "f"]),
            ),
            case(
                "half of the padding after the last file",
                [tar()
                    .bytes(&header(&Block { content: b"last", ..Block::default() }))
                    .bytes(b"last")
                    .zeros(100)
                    .cut()],
                Unpacked(&["f"]),
            ),
            case(
                "no padding after an extended header",
                [tar()
                    .bytes(&header(&Block { flag: b'x', content: b"9 path=a\n", ..Block::default() }))
                    .bytes(b"9 path=a\n")
                    .cut()],
                Refused("followed by no entry"),
            ),
            case(
                "size that is no number",
                [tar().block(&with_size(b'0', b"0000000008x\0")).end()],
                Refused("the size"),
            ),
            case("negative size", [tar().block(&with_size(b'0', &[0xff; 12])).end()], Refused("the size")),
            case(
                "endless size",
                [tar().block(&with_size(b'0', b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")).end()],
                Refused("the size"),
            ),
            case(
                "large file",
                [tar().block(&with_size(b'0', b"77777777777\0")).end()],
                Refused("8589934591 bytes; 4294967296"),
            ),
            case(
                "directory with content",
                [tar().block(&with_size(b'5', b"00000001000\0")).zeros(512).end()],
                Refused("has content"),
            ),
            case(
                "hard link with content",
                [tar()
                    .file("a", "")
                    .block(&Block { link: b"a", ..with_size(b'1', b"00000001000\0") })
                    .zeros(512)
                    .end()],
                Refused("has content"),
            ),
            case("sparse file", [tar().block(&with_size(b'S', b"00000000000\0")).end()], Refused("sparse")),
            case(
                "sparse file of POSIX",
                [tar().pax(&[("GNU.sparse.major", b"1")]).file("a", "").end()],
                Refused("sparse"),
            ),
            case(
                "unknown type",
                [tar().block(&Block { flag: b'Z', ..Block::default() }).end()],
                Refused("unknown type `Z`"),
            ),
            case(
                "second volume",
                [tar().block(&Block { flag: b'M', ..Block::default() }).end()],
                Refused("unknown type"),
            ),
        ]
    });
}

#[test]
fn extended_headers_leave_no_choice() {
    let with_size = |flag: u8, size: &'static [u8; 12]| Block { flag, size: Some(size), ..Block::default() };
    let long_name = Block { flag: b'L', content: b"long\0", ..Block::default() };
    check(|_| {
        vec![
            case(
                "two names",
                [tar().pax(&[("path", b"a")]).block(&long_name).file("b", "").end()],
                Refused("name of an entry is given twice"),
            ),
            case(
                "two long names",
                [tar().block(&long_name).block(&long_name).file("b", "").end()],
                Refused("given twice"),
            ),
            case(
                "two names in one header",
                [tar().pax(&[("path", b"a"), ("path", b"b")]).file("b", "").end()],
                Refused("given twice"),
            ),
            case(
                "two extended headers",
                [tar().pax(&[("path", b"a")]).pax(&[("size", b"0")]).file("b", "").end()],
                Refused("given twice"),
            ),
            case(
                "name for all",
                [tar().pax_of(b'g', &[("path", b"a")]).file("b", "").end()],
                Refused("the name for all entries"),
            ),
            case(
                "size for all",
                [tar().pax_of(b'g', &[("size", b"0")]).file("b", "").end()],
                Refused("the size for all entries"),
            ),
            case(
                "comment for all",
                [tar().pax_of(b'g', &[("comment", b"c")]).file("b", "").end()],
                Unpacked(&["b"]),
            ),
            case(
                "extended header at the end",
                [tar().pax(&[("path", b"a")]).end()],
                Refused("followed by no entry"),
            ),
            case(
                "malformed extended header",
                [tar().block(&Block { flag: b'x', content: b"9 path=a", ..Block::default() }).end()],
                Refused("malformed"),
            ),
            case(
                "large extended header",
                [tar().block(&with_size(b'x', b"00010000000\0")).end()],
                Refused("more than 1048576"),
            ),
            case(
                "large long name",
                [tar().block(&with_size(b'L', b"77777777777\0")).end()],
                Refused("more than 1048576"),
            ),
            case(
                "entry after a zero block",
                [tar().zeros(512).file("a", "").end()],
                Refused("block of zeros"),
            ),
            // Readers that take the size for that of the long name see two files.
            case(
                "size that belongs to the file",
                [tar()
                    .pax(&[("size", b"1024")])
                    .block(&long_name)
                    .block(&with_size(b'0', b"00000000000\0"))
                    .bytes(&header(&Block { path: b"smuggled", ..Block::default() }))
                    .zeros(512)
                    .end()],
                Unpacked(&["long"]),
            ),
            case("nothing at all", [Vec::new()], Unpacked(&[])),
            case("no end", [tar().file("a", "").cut()], Unpacked(&["a"])),
            case(
                "something behind the end",
                [tar().file("a", "").zeros(1024).file("b", "").end()],
                Unpacked(&["a"]),
            ),
        ]
    });
}

#[test]
fn limits_hold_across_layers() {
    let small =
        Limits { layers: 3, bytes: 9000, entries: 4, name_bytes: 100, file_bytes: 2000, ..Limits::default() };
    let three = || tar().file("a", "").file("b", "").file("c", "").end();
    let big = "x".repeat(1999);
    for (layers, text) in [
        (vec![three(), three()], "more than 4 entries"),
        (vec![tar().file("f", &"x".repeat(2001)).end()], "2001 bytes; 2000 are allowed"),
        (
            vec![tar().file("a", &big).file("b", &big).end(), tar().file("c", &big).end()],
            "more than 9000 bytes",
        ),
        (vec![tar().file(&"n".repeat(99), "").file("ab", "").end()], "more than 100 bytes"),
        (vec![tar().end(), tar().end(), tar().end(), tar().end()], "an image of 4 layers: 3 are allowed"),
        // What comes behind the end counts, too.
        (vec![tar().zeros(20_000).end()], "more than 9000 bytes"),
    ] {
        let around = Surroundings::new();
        let error = unpack(&around.root(), &layers, small.clone()).unwrap_err();
        assert!(chain(&error).contains(text), "{text}: {}", chain(&error));
        around.check();
    }
}

fn unpack_compressed(content: &[u8], compression: Compression) -> String {
    let around = Surroundings::new();
    let mut unpacker = Unpacker::new(&around.root(), Limits::default()).unwrap();
    let error = unpacker.layer(content, compression, &Hasher::digest(b"something else")).unwrap_err();
    around.check();
    chain(&error)
}

#[test]
fn bombs_are_stopped() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&header(&Block { size: Some(b"02000000000\0"), ..Block::default() })).unwrap();
    (0..128).for_each(|_| gzip.write_all(&vec![0; 1 << 20]).unwrap());
    let error = unpack_compressed(&gzip.finish().unwrap(), Compression::Gzip);
    assert!(error.contains("more than 200 times its size"), "{error}");

    // A frame of blocks that each say "this byte, 128 KiB times".
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    (0..2000).for_each(|_| zstd.extend([0x02, 0x00, 0x10, 0x00]));
    let error = unpack_compressed(&zstd, Compression::Zstd);
    assert!(error.contains("more than 200 times its size") || error.contains("block of zeros"), "{error}");

    // A frame that wants 1 GiB of memory.
    let error = unpack_compressed(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0xa0, 0x01, 0, 0], Compression::Zstd);
    assert!(error.to_lowercase().contains("window"), "{error}");
}

#[test]
fn content_that_is_not_what_it_says_is_refused() {
    let layer = tar().file("a", "content").end();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&layer).unwrap();
    let gzip = gzip.finish().unwrap();
    assert!(unpack_compressed(&layer, Compression::Gzip).contains("gzip"));
    assert!(unpack_compressed(&layer, Compression::Zstd).contains("cannot read the archive"));
    assert!(unpack_compressed(&gzip, Compression::None).contains("ends in the middle"));
    assert!(
        unpack_compressed(&gzip[..gzip.len() - 4], Compression::Gzip).contains("cannot read the archive")
    );
    assert!(
        unpack_compressed(&[&gzip[..], b"garbage"].concat(), Compression::Gzip)
            .contains("cannot read the archive")
    );
    assert!(unpack_compressed(&layer, Compression::None).contains("the image's configuration says sha256:"));
}

#[test]
fn digest_is_of_the_whole_layer() {
    let layer = tar().file("a", "").end();
    let longer = [&layer[..], b"behind the end"].concat();
    let around = Surroundings::new();
    let mut unpacker = Unpacker::new(&around.root(), Limits::default()).unwrap();
    let error = unpacker.layer(longer.as_slice(), Compression::None, &Hasher::digest(&layer)).unwrap_err();
    assert!(chain(&error).contains("cannot trust the layer"), "{}", chain(&error));
    around.check();
}
