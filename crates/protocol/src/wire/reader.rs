//! Reads Kafka's primitive encodings from one frame, without copying and without trusting a length.
//! Not here: which fields a message has (generated), record batches (crates/records).
//! Pure. Hot path: every request. No allocation is sized by a number from the wire alone.
//! Kafka: ByteBufferAccessor, ByteUtils; KIP-482. Faults: CVE-2022-34917, KAFKA-14063.

use super::{RawTaggedField, StrBytes, Wire};
use crate::error::{DecodeError, Fault};
use bytes::Bytes;

/// Longest string that Kafka writes or accepts, in both encodings.
pub(crate) const STRING_MAX_BYTES: usize = i16::MAX as usize;

/// Elements are allocated ahead only up to this multiple of the bytes that are left; beyond it the vector grows as
/// elements are really there.
const PREALLOCATION_FACTOR: usize = 8;

/// A cursor over the bytes of one message in one version.
#[derive(Debug)]
pub struct Reader {
    source: Bytes,
    position: usize,
    end: usize,
    version: i16,
    flexible: bool,
}

impl Reader {
    pub fn new(source: Bytes, version: i16, flexible: bool) -> Self {
        let end = source.len();
        Reader {
            source,
            position: 0,
            end,
            version,
            flexible,
        }
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn flexible(&self) -> bool {
        self.flexible
    }

    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// What was not read.
    pub fn into_rest(self) -> Bytes {
        let mut source = self.source;
        source.split_off(self.position)
    }

    /// Reads a field; an error names it.
    #[inline]
    pub fn get<T: Wire>(&mut self, field: &'static str) -> Result<T, DecodeError> {
        T::read(self).map_err(|e| e.at(field))
    }

    /// Reads a field that may be null in some versions only.
    pub fn get_nullable_if<T: Wire>(
        &mut self,
        field: &'static str,
        nullable: bool,
    ) -> Result<Option<T>, DecodeError> {
        match T::read_nullable(self) {
            Ok(None) if !nullable => Err(DecodeError::new(Fault::UnexpectedNull).at(field)),
            Ok(value) => Ok(value),
            Err(e) => Err(e.at(field)),
        }
    }

    /// Reads a field in the encoding of versions that are not flexible, whatever this version is.
    pub fn get_not_flexible<T: Wire>(&mut self, field: &'static str) -> Result<T, DecodeError> {
        let flexible = std::mem::replace(&mut self.flexible, false);
        let value = self.get(field);
        self.flexible = flexible;
        value
    }

    /// Reads a nullable struct that is a tagged field: its marker differs from the one outside of tags.
    pub fn get_tagged_nullable<T: Wire>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, DecodeError> {
        let marker = self.unsigned_varint().map_err(|e| e.at(field))?;
        if marker == 0 {
            return Ok(None);
        }
        self.get(field).map(Some)
    }

    #[inline]
    pub(crate) fn array_of<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.source[self.position..self.end].first_chunk::<N>();
        match bytes {
            Some(bytes) => {
                let bytes = *bytes;
                self.position += N;
                Ok(bytes)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        DecodeError::new(Fault::Truncated {
            needed,
            remaining: self.remaining(),
        })
    }

    /// A slice that shares the frame's memory.
    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.remaining() {
            return Err(self.truncated(length));
        }
        let start = self.position;
        self.position += length;
        Ok(self.source.slice(start..self.position))
    }

    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array_of::<1>()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0x0f {
                return Err(DecodeError::new(Fault::InvalidVarint));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::new(Fault::InvalidVarint))
    }

    /// A length or count: `None` for null.
    fn size<const SHORT: bool>(&mut self) -> Result<Option<usize>, DecodeError> {
        let size = if self.flexible {
            i64::from(self.unsigned_varint()?) - 1
        } else if SHORT {
            i64::from(i16::from_be_bytes(self.array_of()?))
        } else {
            i64::from(i32::from_be_bytes(self.array_of()?))
        };
        match size {
            -1 => Ok(None),
            size => match usize::try_from(size) {
                Ok(size) => Ok(Some(size)),
                Err(_) => Err(DecodeError::new(Fault::InvalidLength(size))),
            },
        }
    }

    pub(crate) fn string(&mut self) -> Result<Option<StrBytes>, DecodeError> {
        let Some(length) = self.size::<true>()? else {
            return Ok(None);
        };
        if length > STRING_MAX_BYTES {
            return Err(DecodeError::new(Fault::InvalidLength(length as i64)));
        }
        match StrBytes::from_utf8(self.take(length)?) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(DecodeError::new(Fault::NotUtf8)),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Option<Bytes>, DecodeError> {
        match self.size::<false>()? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn array<T: Wire>(&mut self) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.size::<false>()? else {
            return Ok(None);
        };
        let element_min_bytes = T::min_bytes(self.version, self.flexible).max(1);
        if count > self.remaining() / element_min_bytes {
            return Err(DecodeError::new(Fault::CountTooLarge {
                count: count as u64,
                remaining: self.remaining(),
            }));
        }
        let ahead = self.remaining() * PREALLOCATION_FACTOR / size_of::<T>().max(1);
        let mut elements = Vec::with_capacity(count.min(ahead.max(1)));
        for _ in 0..count {
            if elements.len() == elements.capacity() {
                // At most doubled, and never beyond the count.
                elements.reserve_exact(elements.len().min(count - elements.len()));
            }
            elements.push(T::read(self)?);
        }
        Ok(Some(elements))
    }

    /// Reads the tagged fields at the end of a struct. `known` reads the field of a tag and says so, or leaves the
    /// reader alone.
    pub fn tags(
        &mut self,
        unknown: &mut Vec<RawTaggedField>,
        mut known: impl FnMut(&mut Reader, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.unsigned_varint()?;
        if count as usize > self.remaining() / 2 {
            return Err(DecodeError::new(Fault::CountTooLarge {
                count: u64::from(count),
                remaining: self.remaining(),
            }));
        }
        let mut previous = None;
        for _ in 0..count {
            let tag = self.unsigned_varint()?;
            if let Some(previous) = previous.filter(|previous| tag <= *previous) {
                return Err(DecodeError::new(Fault::TagOrder { tag, previous }));
            }
            previous = Some(tag);
            let length = self.unsigned_varint()? as usize;
            if length > self.remaining() {
                return Err(self.truncated(length));
            }
            let outer_end = std::mem::replace(&mut self.end, self.position + length);
            if known(self, tag)? {
                if self.remaining() > 0 {
                    let unread = self.remaining();
                    return Err(DecodeError::new(Fault::TagSize { tag, unread }));
                }
            } else {
                let data = self.take(length)?;
                unknown.push(RawTaggedField { tag, data });
            }
            self.end = outer_end;
        }
        Ok(())
    }

    /// Reads the tagged fields of a struct that has none of its own.
    #[inline]
    pub fn no_tags(&mut self, unknown: &mut Vec<RawTaggedField>) -> Result<(), DecodeError> {
        if self.source.get(self.position) == Some(&0) && self.position < self.end {
            self.position += 1;
            return Ok(());
        }
        self.tags(unknown, |_, _| Ok(false))
    }
}
