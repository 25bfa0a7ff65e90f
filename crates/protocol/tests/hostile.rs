//! Damaged frames of every message and version: no panic, no allocation out of proportion, and whatever is read is
//! written back the same.
//! Not here: undamaged frames (`golden.rs`), record batches (crates/records).
//! One thread: the allocator counts per thread. `KAVKA_HOSTILE_FRAMES` sets the count of frames, `KAVKA_HOSTILE_SEED`
//! the first state of the random numbers. Faults: CVE-2022-34917, KAFKA-14063.

#![allow(clippy::disallowed_methods)] // a test reads its data files
#![allow(unsafe_code)] // the counting allocator

mod golden_rows;

use bytes::Bytes;
use kavka_protocol::{AnyRequest, ApiKey, Message, Request, frame, messages};
use serde_json::Value;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The largest single allocation while `n` bytes are decoded is at most `SINGLE_FACTOR * n + SLACK_BYTES`.
const SINGLE_FACTOR: usize = 48;
/// The sum of all allocations (freed ones included) is at most `TOTAL_FACTOR * n + SLACK_BYTES`.
const TOTAL_FACTOR: usize = 128;
const SLACK_BYTES: usize = 4096;
const DEFAULT_FRAMES: u64 = 500_000;

thread_local! {
    static SINGLE: Cell<usize> = const { Cell::new(0) };
    static TOTAL: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize) {
    SINGLE.with(|single| single.set(single.get().max(bytes)));
    TOTAL.with(|total| total.set(total.get().saturating_add(bytes)));
}

// SAFETY: all calls go to the system's allocator unchanged; the cells are constant-initialised and have no destructor,
// so touching them neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// xorshift64*: the same seed gives the same frames on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % (limit.max(1) as u64)) as usize
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Bytes that mean something where a length, a count, a tag or a marker is read.
const TELLING: [&[u8]; 22] = [
    &[0],
    &[1],
    &[2],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff, 0xff],
    &[0x7f, 0xff],
    &[0x80, 0x00],
    &[0xff, 0xfe],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xfe],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    &[0, 0x10, 0, 0],
    &[0, 0, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    &[0xff, 0xff, 0x03],
    &[0x80, 0x80, 0x80, 0x80, 0x08],
    &[1, 0xff, 0xff, 0xff, 0xff, 0x0f],
];

fn unsigned_varint(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// One to three changes. The frame stays near a real one, so that reading gets deep before it fails.
fn damage(random: &mut Random, frame: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(3) {
        let at = random.below(frame.len() + 1);
        match random.below(10) {
            0 => frame.truncate(at),
            1 if at < frame.len() => frame[at] ^= 1 << random.below(8),
            // A telling number instead of what is there.
            2 | 3 => {
                let telling = random.pick(&TELLING);
                let end = (at + telling.len()).min(frame.len());
                frame.splice(at..end, telling.iter().copied());
            }
            4 => {
                let telling = random.pick(&TELLING);
                frame.splice(at..at, telling.iter().copied());
            }
            // A piece is gone, or there twice.
            5 => {
                let end = at + random.below(9).min(frame.len() - at);
                frame.drain(at..end);
            }
            6 => {
                let end = at + random.below(64).min(frame.len() - at);
                let piece = frame[at..end].to_vec();
                frame.splice(at..at, piece);
            }
            // The front of this frame, the tail of another version or instance.
            7 => {
                frame.truncate(at);
                frame.extend_from_slice(&other[at.min(other.len())..]);
            }
            // A count, and as many small elements as the frame may hold: the dearest thing to decode per byte.
            8 => {
                let fill = *random.pick(&[0u8, 1, 2]);
                let length = random.below(2000);
                let count = match random.below(3) {
                    0 => length,
                    1 => length / 2,
                    _ => random.below(length + 1),
                } as u32;
                frame.truncate(at);
                if random.below(2) == 0 {
                    frame.extend_from_slice(&unsigned_varint(count + 1));
                } else {
                    frame.extend_from_slice(&count.to_be_bytes());
                }
                frame.resize(frame.len() + length, fill);
            }
            // Tagged fields: tag, size, content.
            _ => {
                let mut tags = unsigned_varint(1 + random.below(3) as u32);
                tags.extend(unsigned_varint(random.below(4) as u32));
                let size = random.below(5);
                tags.extend(unsigned_varint(size as u32));
                tags.resize(tags.len() + size, random.next() as u8);
                let end = (at + random.below(2)).min(frame.len());
                frame.splice(at..end, tags);
            }
        }
    }
}

/// Decodes; what is decoded must be written and read back to the same. True if it was decoded.
fn decode<M: Message>(bytes: &Bytes, version: i16) -> (bool, usize, usize) {
    let mut buf = bytes.clone();
    SINGLE.set(0);
    TOTAL.set(0);
    let result = M::decode(&mut buf, version);
    let (single, total) = (SINGLE.get(), TOTAL.get());
    let Ok(message) = result else {
        return (false, single, total);
    };
    let written = message
        .encode_to_bytes(version)
        .expect("what was read can be written");
    let again = M::decode_exact(&written, version).expect("what was written can be read");
    assert_eq!(
        again.encode_to_bytes(version).as_ref(),
        Ok(&written),
        "{} v{version}",
        M::NAME
    );
    let _ = message.to_json(version);
    (true, single, total)
}

/// Reads JSON; what is read must not panic when it is written, though it may be refused.
fn from_json<M: Message>(value: &Value, version: i16) -> bool {
    match M::from_json(value, version) {
        Ok(message) => {
            let _ = message.encode_to_bytes(version);
            true
        }
        Err(_) => false,
    }
}

/// Replaces or removes one value somewhere in the tree.
fn damage_json(random: &mut Random, value: &mut Value) {
    let inside = random.below(4) > 0;
    match value {
        Value::Object(fields) if inside && !fields.is_empty() => {
            let at = random.below(fields.len());
            let Some((key, field)) = fields.iter_mut().nth(at) else {
                return;
            };
            if random.below(8) == 0 {
                let key = key.clone();
                fields.remove(&key);
            } else {
                damage_json(random, field);
            }
        }
        Value::Array(elements) if inside && !elements.is_empty() => {
            let at = random.below(elements.len());
            damage_json(random, &mut elements[at]);
        }
        other => {
            *other = match random.below(8) {
                0 => Value::Null,
                1 => Value::from(i64::MAX),
                2 => Value::from(-1),
                3 => Value::from(0.5),
                4 => Value::from("?"),
                5 => Value::from(true),
                6 => Value::Array(vec![Value::Null]),
                _ => Value::Object(serde_json::Map::new()),
            }
        }
    }
}

/// Goes through a connection's whole path: header, key, body.
fn decode_request<R: Request>(body: &Bytes, version: i16) {
    let key = R::API_KEY.code().to_be_bytes();
    let mut frame = Vec::with_capacity(body.len() + 16);
    frame.extend_from_slice(&key);
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0, 7, 0, 1, b'c']);
    if R::API_KEY.request_header_version(version) == 2 {
        frame.push(0);
    }
    frame.extend_from_slice(body);
    let mut buf = Bytes::from(frame);
    let (api_key, found, header) = frame::decode_request_header(&mut buf).expect("header is sound");
    assert_eq!(
        (api_key, found, header.correlation_id),
        (R::API_KEY, version, 7)
    );
    let direct = R::decode(&mut body.clone(), version);
    match (AnyRequest::decode(api_key, version, &mut buf), direct) {
        (Ok(any), Ok(_)) => assert_eq!(any.api_key(), R::API_KEY),
        (Err(any), Err(direct)) => assert_eq!(any, direct),
        (any, direct) => panic!("{any:?} and {direct:?}"),
    }
}

struct Target {
    name: &'static str,
    decode: fn(&Bytes, i16) -> (bool, usize, usize),
    from_json: fn(&Value, i16) -> bool,
    decode_request: Option<fn(&Bytes, i16)>,
    rows: Vec<golden_rows::Row>,
}

fn targets() -> Vec<Target> {
    let mut files = golden_rows::load();
    let mut targets = Vec::new();
    macro_rules! add {
        ($m:ident) => {
            targets.push(Target {
                name: messages::$m::NAME,
                decode: decode::<messages::$m>,
                from_json: from_json::<messages::$m>,
                decode_request: None,
                rows: files.remove(messages::$m::NAME).expect("golden rows"),
            });
        };
    }
    kavka_protocol::for_each_message!(add);
    macro_rules! request {
        ($($m:ident)*) => {$(
            let target = targets.iter_mut().find(|t| t.name == messages::$m::NAME);
            target.expect("target").decode_request = Some(decode_request::<messages::$m>);
        )*};
    }
    request!(ProduceRequest FetchRequest MetadataRequest ApiVersionsRequest JoinGroupRequest OffsetCommitRequest);
    targets
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect(name),
        Err(_) => default,
    }
}

#[test]
fn damaged_frames_are_refused_cheaply() {
    let frames = setting("KAVKA_HOSTILE_FRAMES", DEFAULT_FRAMES);
    let mut random = Random(setting("KAVKA_HOSTILE_SEED", 0x006b_6176_6b61));
    let targets = targets();
    let pairs: Vec<(usize, usize)> = targets
        .iter()
        .enumerate()
        .flat_map(|(t, target)| (0..target.rows.len()).map(move |row| (t, row)))
        .collect();
    let mut accepted = 0u64;
    let mut worst_single = (0.0, "");
    let mut worst_total = (0.0, "");
    for index in 0..frames {
        let (t, row) = pairs[index as usize % pairs.len()];
        let target = &targets[t];
        let row = &target.rows[row];
        let version = match random.below(8) {
            0 => random.pick(&target.rows).version,
            _ => row.version,
        };
        let mut frame = row.bytes.to_vec();
        let other = random.pick(&target.rows);
        damage(&mut random, &mut frame, &other.bytes);
        let frame = Bytes::from(frame);
        let (read, single, total) = (target.decode)(&frame, version);
        accepted += u64::from(read);
        let ratio =
            |bytes: usize| bytes.saturating_sub(SLACK_BYTES) as f64 / frame.len().max(1) as f64;
        if ratio(single) > worst_single.0 {
            worst_single = (ratio(single), target.name);
        }
        if ratio(total) > worst_total.0 {
            worst_total = (ratio(total), target.name);
        }
        assert!(
            single <= SINGLE_FACTOR * frame.len() + SLACK_BYTES,
            "{} v{version}, from {}: {single} bytes at once for a frame of {}: {frame:?}",
            target.name,
            row.instance,
            frame.len()
        );
        assert!(
            total <= TOTAL_FACTOR * frame.len() + SLACK_BYTES,
            "{} v{version}: {total} bytes in sum for a frame of {}: {frame:?}",
            target.name,
            frame.len()
        );
        if let Some(decode_request) = target.decode_request {
            decode_request(&frame, version);
        }
    }
    println!(
        "{frames} frames, {accepted} still readable; beyond {SLACK_BYTES} bytes: single {:.1} x input ({}), total {:.1} x input ({})",
        worst_single.0, worst_single.1, worst_total.0, worst_total.1
    );
    assert!(
        accepted > frames / 50,
        "the damage is too coarse to get deep"
    );
}

#[test]
fn damaged_json_is_refused_or_read() {
    let mut random = Random(7);
    let (mut read, mut refused) = (0, 0);
    for target in targets() {
        for row in &target.rows {
            let golden: Value = serde_json::from_str(&row.json).expect("json");
            for _ in 0..8 {
                let mut value = golden.clone();
                damage_json(&mut random, &mut value);
                match (target.from_json)(&value, row.version) {
                    true => read += 1,
                    false => refused += 1,
                }
            }
        }
    }
    assert!(
        read > 500 && refused > 5000,
        "{read} read, {refused} refused"
    );
}

#[test]
fn headers_of_any_bytes_are_read_or_refused() {
    let mut random = Random(42);
    for _ in 0..20_000 {
        let length = random.below(40);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if length > 2 && random.below(4) > 0 {
            bytes[0] = 0;
            bytes[1] = random.pick(&ApiKey::ALL).code() as u8;
        }
        let _ = frame::decode_request_header(&mut Bytes::from(bytes));
    }
}
