//! Jute, ZooKeeper's serialisation, for the messages that the session answers.
//! Not here: what the answers are (session.rs).
//! Pure. ZooKeeper: org.apache.jute.BinaryInputArchive, zookeeper.jute.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Longest path or buffer that is accepted (`jute.maxbuffer`'s default).
pub const BUFFER_MAX_BYTES: usize = 0xfffff;

/// The bytes are not the message they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JuteError {
    #[error("the message ends in the middle of a field")]
    Truncated,
    #[error("unreasonable length {0}")]
    Length(i32),
    #[error("a path is not UTF-8")]
    NotUtf8,
}

/// Reads the fields of one frame.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a mut Bytes);

impl Reader<'_> {
    fn need(&self, bytes: usize) -> Result<(), JuteError> {
        if self.0.remaining() < bytes {
            return Err(JuteError::Truncated);
        }
        Ok(())
    }

    pub fn int(&mut self) -> Result<i32, JuteError> {
        self.need(4)?;
        Ok(self.0.get_i32())
    }

    pub fn long(&mut self) -> Result<i64, JuteError> {
        self.need(8)?;
        Ok(self.0.get_i64())
    }

    pub fn boolean(&mut self) -> Result<bool, JuteError> {
        self.need(1)?;
        Ok(self.0.get_u8() != 0)
    }

    /// A buffer; -1 is none.
    pub fn buffer(&mut self) -> Result<Option<Bytes>, JuteError> {
        let length = self.int()?;
        if length == -1 {
            return Ok(None);
        }
        let bytes = usize::try_from(length).map_err(|_| JuteError::Length(length))?;
        if bytes > BUFFER_MAX_BYTES {
            return Err(JuteError::Length(length));
        }
        self.need(bytes)?;
        Ok(Some(self.0.split_to(bytes)))
    }

    pub fn string(&mut self) -> Result<String, JuteError> {
        let bytes = self.buffer()?.unwrap_or_default();
        String::from_utf8(bytes.to_vec()).map_err(|_| JuteError::NotUtf8)
    }
}

/// Writes the fields of one frame; `finish` puts its length in front.
#[derive(Debug)]
pub struct Writer(BytesMut);

impl Writer {
    pub fn new() -> Self {
        let mut out = BytesMut::with_capacity(64);
        out.put_i32(0);
        Writer(out)
    }

    pub fn int(&mut self, value: i32) -> &mut Self {
        self.0.put_i32(value);
        self
    }

    pub fn long(&mut self, value: i64) -> &mut Self {
        self.0.put_i64(value);
        self
    }

    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.0.put_u8(u8::from(value));
        self
    }

    pub fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.0
            .put_i32(i32::try_from(bytes.len()).expect("answers are far below 2 GiB"));
        self.0.put_slice(bytes);
        self
    }

    pub fn finish(mut self) -> Bytes {
        let length = u32::try_from(self.0.len() - 4).expect("answers are far below 2 GiB");
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0.freeze()
    }
}

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut bytes = Bytes::from(bytes);
            let mut reader = Reader(&mut bytes);
            let _ = reader.string();
            let _ = reader.long();
            let _ = reader.buffer();
        }
    }

    #[test]
    fn lengths_are_bounded_before_allocation() {
        let mut bytes = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(
            Reader(&mut bytes).buffer(),
            Err(JuteError::Length(i32::MAX))
        );
        let mut bytes = Bytes::from_static(&[0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(Reader(&mut bytes).buffer(), Err(JuteError::Length(-2)));
    }
}
