//! Snappy in the two shapes that clients send: xerial's framed stream (Java) and one raw block (others).
//! Not here: the snappy block format itself (crate snap).
//! Kafka: SnappyCompression over org.xerial.snappy.{SnappyOutputStream, SnappyInputStream}.

use std::io::{self, Read};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_BYTES: usize = 16;
/// SnappyOutputStream's default block size.
const BLOCK_BYTES: usize = 32 * 1024;

/// Writes xerial's header (version 1, readable from version 1 on) and blocks with a big-endian length each.
pub(crate) fn compress(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER_BYTES + data.len() / 2);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&1u32.to_be_bytes());
    out.extend_from_slice(&1u32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in data.chunks(BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + snap::raw::max_compress_len(block.len()), 0);
        let n = encoder.compress(block, &mut out[start + 4..])?;
        let length = u32::try_from(n).map_err(|_| io::ErrorKind::InvalidInput)?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        out.truncate(start + 4 + n);
    }
    Ok(out)
}

/// Decodes block by block; each block's declared size is checked against what is left of the cap before it is allocated.
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
    framed: bool,
    left: usize,
    block: Vec<u8>,
    read: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(data: &'a [u8], max_bytes: usize) -> Self {
        let framed = data.len() >= HEADER_BYTES && data.starts_with(&MAGIC);
        Decoder {
            rest: data,
            framed,
            left: max_bytes,
            block: Vec::new(),
            read: 0,
        }
    }

    fn next_block(&mut self) -> io::Result<bool> {
        // a header may stand again between blocks, where streams were joined
        while self.framed && self.rest.starts_with(&MAGIC) {
            self.rest = self
                .rest
                .get(HEADER_BYTES..)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
        }
        if self.rest.is_empty() {
            return Ok(false);
        }
        let compressed = if self.framed {
            let (length, rest) = self
                .rest
                .split_first_chunk::<4>()
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let length = usize::try_from(u32::from_be_bytes(*length))
                .map_err(|_| io::ErrorKind::InvalidData)?;
            let (block, rest) = rest
                .split_at_checked(length)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            self.rest = rest;
            block
        } else {
            std::mem::take(&mut self.rest)
        };
        let size = snap::raw::decompress_len(compressed)?;
        self.left = self
            .left
            .checked_sub(size)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        self.block.resize(size, 0);
        let n = snap::raw::Decoder::new().decompress(compressed, &mut self.block)?;
        self.block.truncate(n);
        self.read = 0;
        Ok(true)
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.read == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let n = buf.len().min(self.block.len() - self.read);
        buf[..n].copy_from_slice(&self.block[self.read..self.read + n]);
        self.read += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Decoder::new(data, 1 << 20).read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn raw_and_framed_and_joined() {
        let data: Vec<u8> = (0..100_000u32).map(|n| (n / 7) as u8).collect();
        let framed = compress(&data).unwrap();
        assert_eq!(decode(&framed).unwrap(), data);
        let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
        assert_eq!(decode(&raw).unwrap(), data);
        assert_eq!(
            decode(&[framed.clone(), framed].concat()).unwrap(),
            [data.clone(), data].concat()
        );
    }

    #[test]
    fn cut_headers_and_blocks_are_errors() {
        let framed = compress(b"hello hello hello").unwrap();
        for cut in 1..framed.len() {
            if cut != HEADER_BYTES {
                assert!(decode(&framed[..cut]).is_err(), "{cut}");
            }
        }
    }
}
