//! Zigzag varints of the record format.
//! Not here: unsigned varints of the flexible protocol versions (crates/protocol).
//! Hot path: several per record. Kafka: org.apache.kafka.common.utils.ByteUtils.

use crate::error::BatchError;

const TOO_LONG: BatchError = BatchError::Malformed("varint is too long");
const CUT: BatchError = BatchError::Malformed("record ends inside a varint");

/// Reads a signed varint of at most ten bytes from the front of `buf`.
pub fn read_i64(buf: &mut &[u8]) -> Result<i64, BatchError> {
    let mut raw: u64 = 0;
    for (n, &byte) in buf.iter().enumerate() {
        // the tenth byte holds one bit
        if n == 9 && byte > 1 {
            return Err(TOO_LONG);
        }
        raw |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            *buf = &buf[n + 1..];
            return Ok(unzigzag(raw));
        }
        if n == 9 {
            return Err(TOO_LONG);
        }
    }
    Err(CUT)
}

/// Reads a signed varint of at most five bytes from the front of `buf`.
pub fn read_i32(buf: &mut &[u8]) -> Result<i32, BatchError> {
    let mut raw: u32 = 0;
    for (n, &byte) in buf.iter().enumerate() {
        if n == 4 && byte > 0x0f {
            return Err(TOO_LONG);
        }
        raw |= u32::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            *buf = &buf[n + 1..];
            #[allow(clippy::cast_possible_wrap)]
            return Ok(((raw >> 1) as i32) ^ -((raw & 1) as i32));
        }
    }
    Err(CUT)
}

pub(crate) fn unzigzag(raw: u64) -> i64 {
    ((raw >> 1) as i64) ^ -((raw & 1) as i64)
}

pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push((raw as u8 & 0x7f) | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

pub fn write_i32(out: &mut Vec<u8>, value: i32) {
    write_i64(out, i64::from(value));
}

/// Encoded size of `value`.
pub fn size_bytes(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (raw | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_cuts() {
        assert_eq!(read_i32(&mut &[0x80, 0x80][..]), Err(CUT));
        assert_eq!(
            read_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x10][..]),
            Err(TOO_LONG)
        );
        assert_eq!(
            read_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f][..]),
            Ok(i32::MIN)
        );
        assert_eq!(read_i64(&mut &[0xff; 11][..]), Err(TOO_LONG));
        assert_eq!(read_i64(&mut &[0xff; 9][..]), Err(CUT));
    }

    proptest::proptest! {
        #[test]
        fn round_trips(long: i64, int: i32) {
            for value in [long, i64::from(int)] {
                let mut out = Vec::new();
                write_i64(&mut out, value);
                proptest::prop_assert_eq!(out.len(), size_bytes(value));
                let mut rest = &out[..];
                proptest::prop_assert_eq!(read_i64(&mut rest), Ok(value));
                proptest::prop_assert!(rest.is_empty());
            }
            let mut out = Vec::new();
            write_i32(&mut out, int);
            proptest::prop_assert_eq!(read_i32(&mut &out[..]), Ok(int));
        }
    }
}
