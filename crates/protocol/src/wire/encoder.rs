//! Writes Kafka's primitive encodings, and collects record batches as segments without copying them.
//! Not here: which fields a message has (generated), the sending of segments (broker/src/network).
//! Pure. Hot path: every response.
//! Kafka: ByteBufferAccessor, MessageSizeAccumulator, SendBuilder; KIP-482.

use super::reader::STRING_MAX_BYTES;
use super::{RawTaggedField, Records, Segment, Wire};
use crate::error::{EncodeError, EncodeFault};
use bytes::{BufMut, Bytes, BytesMut};

/// Byte fields below this length are cheaper to copy than to send as a segment of their own.
const SEGMENT_MIN_BYTES: usize = 4096;

/// Collects what is written as a list of segments.
#[derive(Debug, Default)]
pub struct Encoder {
    buf: BytesMut,
    /// Segments and the position in `buf` before which each belongs; positions ascend.
    inserts: Vec<(usize, Segment)>,
    inserted_bytes: usize,
    version: i16,
    flexible: bool,
    /// Over zero inside of a tagged field, whose length is in front of it: everything is copied there.
    tag_depth: u32,
}

impl Encoder {
    pub fn new() -> Self {
        Encoder::default()
    }

    /// Bytes written so far, those in files included.
    pub fn len(&self) -> usize {
        self.buf.len() + self.inserted_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The segments, in order, none empty.
    pub fn finish(self) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(self.inserts.len() * 2 + 1);
        let mut rest = self.buf.freeze();
        let mut written = 0;
        for (position, segment) in self.inserts {
            if position > written {
                segments.push(Segment::Bytes(rest.split_to(position - written)));
                written = position;
            }
            segments.push(segment);
        }
        if !rest.is_empty() {
            segments.push(Segment::Bytes(rest));
        }
        segments
    }

    /// One piece of memory; parts in files are read.
    pub fn into_bytes(self) -> Result<Bytes, EncodeError> {
        if self.inserts.is_empty() {
            return Ok(self.buf.freeze());
        }
        let fault = EncodeError {
            message: "",
            version: self.version,
            field: "",
            fault: EncodeFault::FileRegion,
        };
        let mut flat = BytesMut::with_capacity(self.len());
        for segment in self.finish() {
            match segment {
                Segment::Bytes(bytes) => flat.put_slice(&bytes),
                Segment::File(region) => flat.put_slice(&region.read().map_err(|_| fault)?),
            }
        }
        Ok(flat.freeze())
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn flexible(&self) -> bool {
        self.flexible
    }

    /// Sets the version for what is written next and gives the former one, to be set again afterwards.
    pub(crate) fn set_version(&mut self, version: (i16, bool)) -> (i16, bool) {
        let former = (self.version, self.flexible);
        (self.version, self.flexible) = version;
        former
    }

    #[cold]
    pub(crate) fn fault(&self, fault: EncodeFault) -> EncodeError {
        EncodeError {
            message: "",
            version: self.version,
            field: "",
            fault,
        }
    }

    /// The error of a field that is set in a version without it.
    #[cold]
    pub fn not_in_version(&self, field: &'static str) -> EncodeError {
        self.fault(EncodeFault::FieldNotInVersion).at(field)
    }

    /// Writes a field; an error names it.
    #[inline]
    pub fn put<T: Wire>(&mut self, field: &'static str, value: &T) -> Result<(), EncodeError> {
        value.write(self).map_err(|e| e.at(field))
    }

    /// Writes a field that may be null in some versions only.
    pub fn put_nullable_if<T: Wire>(
        &mut self,
        field: &'static str,
        value: &Option<T>,
        nullable: bool,
    ) -> Result<(), EncodeError> {
        if value.is_none() && !nullable {
            return Err(self.fault(EncodeFault::UnexpectedNull).at(field));
        }
        self.put(field, value)
    }

    /// Writes a field in the encoding of versions that are not flexible, whatever this version is.
    pub fn put_not_flexible<T: Wire>(
        &mut self,
        field: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        let flexible = std::mem::replace(&mut self.flexible, false);
        let result = self.put(field, value);
        self.flexible = flexible;
        result
    }

    #[inline]
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.buf.put_slice(bytes);
    }

    /// Overwrites four bytes at the very start: the length of a frame.
    pub(crate) fn patch_length(&mut self, length: i32) {
        self.buf[..4].copy_from_slice(&length.to_be_bytes());
    }

    pub fn put_unsigned_varint(&mut self, value: u32) {
        let (bytes, length) = unsigned_varint(value);
        self.buf.put_slice(&bytes[..length]);
    }

    /// A length or count in front of its content; `None` is null.
    fn put_size<const SHORT: bool>(&mut self, size: Option<usize>) -> Result<(), EncodeError> {
        let max = if SHORT {
            STRING_MAX_BYTES
        } else {
            i32::MAX as usize
        };
        if let Some(size) = size.filter(|size| *size > max) {
            return Err(self.fault(EncodeFault::TooLong(size)));
        }
        // Both casts are safe below the maximum.
        if self.flexible {
            self.put_unsigned_varint(size.map_or(0, |size| size as u32 + 1));
        } else if SHORT {
            self.buf.put_i16(size.map_or(-1, |size| size as i16));
        } else {
            self.buf.put_i32(size.map_or(-1, |size| size as i32));
        }
        Ok(())
    }

    pub(crate) fn put_string(&mut self, text: Option<&str>) -> Result<(), EncodeError> {
        self.put_size::<true>(text.map(str::len))?;
        self.buf.put_slice(text.unwrap_or_default().as_bytes());
        Ok(())
    }

    pub(crate) fn put_bytes(&mut self, bytes: Option<&Bytes>) -> Result<(), EncodeError> {
        self.put_size::<false>(bytes.map(Bytes::len))?;
        if let Some(bytes) = bytes {
            self.put_shared(bytes);
        }
        Ok(())
    }

    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < SEGMENT_MIN_BYTES || self.tag_depth > 0 {
            self.buf.put_slice(bytes);
        } else {
            self.insert(Segment::Bytes(bytes.clone()));
        }
    }

    fn insert(&mut self, segment: Segment) {
        self.inserted_bytes += segment.len();
        self.inserts.push((self.buf.len(), segment));
    }

    pub(crate) fn put_records(&mut self, records: Option<&Records>) -> Result<(), EncodeError> {
        self.put_size::<false>(records.map(Records::len))?;
        match records {
            None => {}
            Some(Records::Bytes(bytes)) => self.put_shared(bytes),
            Some(Records::Segments(segments)) => {
                for segment in segments {
                    match segment {
                        Segment::Bytes(bytes) => self.put_shared(bytes),
                        Segment::File(_) if self.tag_depth > 0 => {
                            return Err(self.fault(EncodeFault::FileRegion));
                        }
                        Segment::File(region) if region.length == 0 => {}
                        Segment::File(_) => self.insert(segment.clone()),
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn put_array<T: Wire>(&mut self, elements: Option<&[T]>) -> Result<(), EncodeError> {
        self.put_size::<false>(elements.map(<[T]>::len))?;
        for element in elements.unwrap_or_default() {
            element.write(self)?;
        }
        Ok(())
    }

    /// Ends a struct that has no tagged fields of its own.
    #[inline]
    pub fn no_tags(&mut self, unknown: &[RawTaggedField]) -> Result<(), EncodeError> {
        if self.flexible && unknown.is_empty() {
            self.buf.put_u8(0);
            return Ok(());
        }
        self.tags(unknown)?.end()
    }

    /// Starts the tagged fields at the end of a struct. In a version without tags, unknown ones are an error.
    pub fn tags<'a>(
        &'a mut self,
        unknown: &'a [RawTaggedField],
    ) -> Result<TagsEncoder<'a>, EncodeError> {
        if !self.flexible && !unknown.is_empty() {
            return Err(self.not_in_version("unknown tagged fields"));
        }
        let start = self.buf.len();
        Ok(TagsEncoder {
            encoder: self,
            unknown,
            start,
            count: 0,
            previous: None,
        })
    }

    /// Puts a variable-length size in front of what was written from `start` on.
    fn prefix_with_size(&mut self, start: usize, size: u32) {
        let (bytes, length) = unsigned_varint(size);
        let end = self.buf.len();
        self.buf.put_slice(&bytes[..length]);
        self.buf.copy_within(start..end, start + length);
        self.buf[start..start + length].copy_from_slice(&bytes[..length]);
    }
}

fn unsigned_varint(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut length = 0;
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        bytes[length] = if value == 0 { low } else { low | 0x80 };
        length += 1;
        if value == 0 {
            return (bytes, length);
        }
    }
}

/// Writes the tagged fields of one struct in ascending order, the unknown ones in their places.
#[derive(Debug)]
pub struct TagsEncoder<'a> {
    encoder: &'a mut Encoder,
    unknown: &'a [RawTaggedField],
    start: usize,
    count: u32,
    previous: Option<u32>,
}

impl TagsEncoder<'_> {
    fn tag(&mut self, tag: u32) -> Result<(), EncodeError> {
        if self.previous.is_some_and(|previous| tag <= previous) {
            return Err(self.encoder.fault(EncodeFault::TagOrder(tag)));
        }
        self.previous = Some(tag);
        self.count += 1;
        self.encoder.put_unsigned_varint(tag);
        Ok(())
    }

    fn unknown_before(&mut self, limit: Option<u32>) -> Result<(), EncodeError> {
        while let Some((first, rest)) = self.unknown.split_first() {
            if limit.is_some_and(|limit| first.tag >= limit) {
                break;
            }
            self.unknown = rest;
            self.tag(first.tag)?;
            let Ok(length) = u32::try_from(first.data.len()) else {
                return Err(self.encoder.fault(EncodeFault::TooLong(first.data.len())));
            };
            self.encoder.put_unsigned_varint(length);
            self.encoder.put_slice(&first.data);
        }
        Ok(())
    }

    fn put_with(
        &mut self,
        tag: u32,
        field: &'static str,
        write: impl FnOnce(&mut Encoder) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.unknown_before(Some(tag))?;
        self.tag(tag)?;
        let start = self.encoder.buf.len();
        self.encoder.tag_depth += 1;
        let result = write(self.encoder);
        self.encoder.tag_depth -= 1;
        result.map_err(|e| e.at(field))?;
        let length = self.encoder.buf.len() - start;
        let Ok(length) = u32::try_from(length) else {
            return Err(self.encoder.fault(EncodeFault::TooLong(length)).at(field));
        };
        self.encoder.prefix_with_size(start, length);
        Ok(())
    }

    pub fn put<T: Wire>(
        &mut self,
        tag: u32,
        field: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.put_with(tag, field, |encoder| value.write(encoder))
    }

    /// Writes a nullable struct, whose marker differs from the one outside of tags.
    pub fn put_nullable<T: Wire>(
        &mut self,
        tag: u32,
        field: &'static str,
        value: &Option<T>,
    ) -> Result<(), EncodeError> {
        self.put_with(tag, field, |encoder| match value {
            None => {
                encoder.put_unsigned_varint(0);
                Ok(())
            }
            Some(value) => {
                encoder.put_unsigned_varint(1);
                value.write(encoder)
            }
        })
    }

    /// The error of a field that is set in a version without it.
    #[cold]
    pub fn not_in_version(&self, field: &'static str) -> EncodeError {
        self.encoder.not_in_version(field)
    }

    pub fn end(mut self) -> Result<(), EncodeError> {
        self.unknown_before(None)?;
        if self.encoder.flexible {
            self.encoder.prefix_with_size(self.start, self.count);
        }
        Ok(())
    }
}
