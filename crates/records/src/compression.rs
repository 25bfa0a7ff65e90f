//! The four compressions of record batches, streamed and under a cap on the decoded size.
//! Not here: any other use of these codecs; no other crate links them.
//! Hot path: decoding runs once for each compressed batch produced. Kafka: org.apache.kafka.common.compress; KIP-110, KIP-390.

use crate::error::BatchError;
use crate::snappy;
use std::io::{self, Read, Write};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    pub fn from_id(id: u8) -> Result<Compression, BatchError> {
        Self::ALL
            .get(usize::from(id))
            .copied()
            .ok_or(BatchError::UnknownCompression(id))
    }

    pub const fn id(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        }
    }

    /// As in `compression.type`. (The value `producer` is `TopicCompression::Producer`.)
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    pub fn from_name(name: &str) -> Option<Compression> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// `compression.{gzip,lz4,zstd}.level`; `None` is the codec's own default.
/// Snappy has no levels; the lz4 encoder here has one, so every lz4 level writes the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressionLevel(pub Option<i32>);

impl CompressionLevel {
    pub const DEFAULT: CompressionLevel = CompressionLevel(None);
}

/// Encodes `records` as Java's producer would.
pub fn compress(
    compression: Compression,
    level: CompressionLevel,
    records: &[u8],
) -> io::Result<Vec<u8>> {
    let out = Vec::with_capacity(records.len() / 2 + 64);
    match compression {
        Compression::None => Ok(records.to_vec()),
        Compression::Gzip => {
            let level = match level.0.and_then(|l| u32::try_from(l).ok()) {
                Some(level) => flate2::Compression::new(level.min(9)),
                None => flate2::Compression::default(),
            };
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder.write_all(records)?;
            encoder.finish()
        }
        Compression::Snappy => snappy::compress(records),
        Compression::Lz4 => {
            // Java reads independent blocks only
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
            encoder.write_all(records)?;
            encoder.finish().map_err(io::Error::from)
        }
        Compression::Zstd => {
            let level = level.0.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            zstd::bulk::compress(records, level)
        }
    }
}

/// Decodes `compressed`, at most `max_bytes` of output. Memory grows as output appears, never by what a header says.
pub fn decompress(
    compression: Compression,
    compressed: &[u8],
    max_bytes: usize,
) -> Result<Vec<u8>, BatchError> {
    let mut out = Vec::new();
    let mut reader = decoder(compression, compressed, max_bytes)?;
    reader
        .read_to_end(&mut out)
        .map_err(|e| read_error(&e, max_bytes))?;
    Ok(out)
}

/// A capped reader of the decoded records.
pub(crate) fn decoder<'a>(
    compression: Compression,
    compressed: &'a [u8],
    max_bytes: usize,
) -> Result<Capped<Decoder<'a>>, BatchError> {
    let inner = match compression {
        Compression::None => Decoder::Plain(compressed),
        Compression::Gzip => {
            Decoder::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(compressed)))
        }
        Compression::Snappy => Decoder::Snappy(snappy::Decoder::new(compressed, max_bytes)),
        Compression::Lz4 => Decoder::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(compressed))),
        Compression::Zstd => Decoder::Zstd(
            zstd::stream::read::Decoder::with_buffer(compressed)
                .map_err(|e| BatchError::Decompress(e.to_string()))?,
        ),
    };
    Ok(Capped {
        inner,
        left: max_bytes,
    })
}

pub(crate) enum Decoder<'a> {
    Plain(&'a [u8]),
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
    Snappy(snappy::Decoder<'a>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl Read for Decoder<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Plain(bytes) => bytes.read(buf),
            Decoder::Gzip(r) => r.read(buf),
            Decoder::Snappy(r) => r.read(buf),
            Decoder::Lz4(r) => r.read(buf),
            Decoder::Zstd(r) => r.read(buf),
        }
    }
}

/// Passes at most `left` bytes; one more is an error, not an end.
pub(crate) struct Capped<R> {
    inner: R,
    left: usize,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.left = self
            .left
            .checked_sub(n)
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(n)
    }
}

/// Tells the cap's error from the codec's.
pub(crate) fn read_error(error: &io::Error, max_bytes: usize) -> BatchError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        BatchError::DecompressedTooLarge { max_bytes }
    } else {
        BatchError::Decompress(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bombs_stop_at_the_cap() {
        let zeros = vec![0u8; 8 << 20];
        for compression in Compression::ALL {
            let small = compress(compression, CompressionLevel::DEFAULT, &zeros).unwrap();
            assert_eq!(
                decompress(compression, &small, 1 << 20),
                Err(BatchError::DecompressedTooLarge { max_bytes: 1 << 20 }),
                "{compression:?}"
            );
            assert_eq!(
                decompress(compression, &small, zeros.len()).unwrap(),
                zeros,
                "{compression:?}"
            );
        }
    }

    #[test]
    fn levels_are_taken() {
        let data: Vec<u8> = (0..20_000u32)
            .flat_map(|n| (n % 977).to_be_bytes())
            .collect();
        for (compression, levels) in [
            (Compression::Gzip, vec![-1, 1, 9]),
            (Compression::Lz4, vec![1, 17]),
            (Compression::Zstd, vec![-7, 1, 3, 19]),
        ] {
            for level in levels {
                let small = compress(compression, CompressionLevel(Some(level)), &data).unwrap();
                assert_eq!(decompress(compression, &small, data.len()).unwrap(), data);
            }
        }
    }

    #[test]
    fn lz4_frames_are_the_kind_java_reads() {
        let frame = compress(Compression::Lz4, CompressionLevel::DEFAULT, b"hello").unwrap();
        assert_eq!(&frame[..4], &[0x04, 0x22, 0x4d, 0x18]);
        // version 1, independent blocks, no checksums, no sizes
        assert_eq!(frame[4], 0x60);
        // blocks of 64 KiB
        assert_eq!(frame[5], 0x40);
    }

    proptest::proptest! {
        #[test]
        fn round_trips(data: Vec<u8>) {
            for compression in Compression::ALL {
                let small = compress(compression, CompressionLevel::DEFAULT, &data).unwrap();
                proptest::prop_assert_eq!(decompress(compression, &small, data.len()), Ok(data.clone()));
            }
        }

        #[test]
        fn garbage_is_an_error_or_bounded(data: Vec<u8>, compression in 1u8..5) {
            let compression = Compression::from_id(compression).unwrap();
            if let Ok(out) = decompress(compression, &data, 4096) {
                proptest::prop_assert!(out.len() <= 4096);
            }
        }
    }
}
