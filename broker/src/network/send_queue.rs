//! Responses on their way out of one connection: byte segments by vectored writes, file regions by `sendfile`.
//! Not here: the order of responses (connection.rs), where regions come from (crates/storage).
//! Owned by the connection task. Hot path: no copy of record bytes, no blocking read: a region that is not in the
//! page cache is handed back as `Cold` and read on the blocking pool.
//! Kafka: NetworkSend, FileRecords.writeTo, PlaintextTransportLayer.transferFrom.

use bytes::Bytes;
use kavka_common::FileRegion;
use kavka_protocol::Segment;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Slices given to one vectored write.
const SLICES_MAX: usize = 32;
/// Bytes of a file sent by one call, and read at once when they are cold.
const REGION_CHUNK_BYTES: usize = 1 << 20;
/// The page cache is probed at this distance: about the kernel's read-ahead window.
const PROBE_STRIDE_BYTES: usize = 128 << 10;
/// A fast reader does not keep the task from its other duties for longer than this.
const TURN_BYTES_MAX: usize = 8 << 20;

/// What `try_send` left behind.
#[derive(Debug)]
pub enum SendStep {
    /// Everything is with the kernel.
    Empty,
    /// The socket takes no more now.
    Blocked,
    /// More could be sent; others first.
    Yield,
    /// The front region must be read from the disk before it can be sent: see [`SendQueue::fill_cold`].
    Cold(FileRegion),
}

#[derive(Debug)]
enum Part {
    Bytes(Bytes),
    File(FileRegion),
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub struct SendQueue {
    parts: VecDeque<Part>,
    /// Sum of the byte parts; regions cost no memory.
    memory_bytes: usize,
    total_bytes: u64,
    sent_bytes: u64,
}

impl SendQueue {
    pub fn push(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) if bytes.is_empty() => {}
                Segment::Bytes(bytes) => {
                    self.memory_bytes += bytes.len();
                    self.total_bytes += bytes.len() as u64;
                    self.parts.push_back(Part::Bytes(bytes));
                }
                Segment::File(region) if region.length == 0 => {}
                Segment::File(region) => {
                    self.total_bytes += region.length as u64;
                    self.parts.push_back(Part::File(region));
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Bytes that wait, in memory and in files.
    pub fn queued_bytes(&self) -> u64 {
        self.total_bytes - self.sent_bytes
    }

    /// Bytes accepted by the kernel since the connection began.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Sends as much as the socket takes without waiting.
    pub fn try_send(&mut self, stream: &TcpStream) -> io::Result<SendStep> {
        let started_at = self.sent_bytes;
        loop {
            if self.sent_bytes - started_at > TURN_BYTES_MAX as u64 {
                return Ok(SendStep::Yield);
            }
            let sent = match self.parts.front() {
                None => return Ok(SendStep::Empty),
                Some(Part::Bytes(_)) => self.send_bytes(stream),
                Some(Part::File(region)) => {
                    let chunk = region.length.min(REGION_CHUNK_BYTES);
                    let file = descriptor(region);
                    match file {
                        Some(file) if is_resident(file, region.position, chunk) => {
                            match send_file(stream, file, region.position, chunk) {
                                // The file system cannot be sent from.
                                Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                                    return Ok(SendStep::Cold(self.front_chunk()));
                                }
                                other => other,
                            }
                        }
                        Some(_) | None => return Ok(SendStep::Cold(self.front_chunk())),
                    }
                }
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.consume(bytes),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(SendStep::Blocked),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Puts the bytes of a `Cold` region in its place.
    pub fn fill_cold(&mut self, bytes: Bytes) {
        let Some(Part::File(region)) = self.parts.front_mut() else {
            panic!("only the front region is ever cold");
        };
        assert!(bytes.len() <= region.length);
        region.position += bytes.len() as u64;
        region.length -= bytes.len();
        if region.length == 0 {
            self.parts.pop_front();
        }
        self.memory_bytes += bytes.len();
        self.parts.push_front(Part::Bytes(bytes));
    }

    fn front_chunk(&self) -> FileRegion {
        let Some(Part::File(region)) = self.parts.front() else {
            panic!("asked for the front region of a queue that has none");
        };
        FileRegion {
            length: region.length.min(REGION_CHUNK_BYTES),
            ..region.clone()
        }
    }

    fn send_bytes(&self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut flags = SendFlags::NOSIGNAL;
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) if count < SLICES_MAX => {
                    slices[count] = IoSlice::new(bytes);
                    count += 1;
                }
                // The records follow at once: let the kernel fill the packet.
                Part::Bytes(_) | Part::File(_) => {
                    flags |= SendFlags::MORE;
                    break;
                }
            }
        }
        stream.try_io(Interest::WRITABLE, || {
            let mut control = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(
                stream.as_fd(),
                &slices[..count],
                &mut control,
                flags,
            )?)
        })
    }

    fn consume(&mut self, mut bytes: usize) {
        self.sent_bytes += bytes as u64;
        while bytes > 0 {
            match self.parts.front_mut() {
                Some(Part::Bytes(front)) => {
                    let used = bytes.min(front.len());
                    bytes -= used;
                    self.memory_bytes -= used;
                    if used == front.len() {
                        self.parts.pop_front();
                    } else {
                        bytes::Buf::advance(front, used);
                    }
                }
                Some(Part::File(front)) => {
                    let used = bytes.min(front.length);
                    bytes -= used;
                    front.position += used as u64;
                    front.length -= used;
                    if front.length == 0 {
                        self.parts.pop_front();
                    }
                }
                None => panic!("the kernel took more bytes than it was given"),
            }
        }
        if self.parts.is_empty() && self.parts.capacity() > SLICES_MAX {
            self.parts = VecDeque::new();
        }
    }
}

/// The descriptor of a region, where it has one.
#[allow(unsafe_code)]
fn descriptor(region: &FileRegion) -> Option<BorrowedFd<'_>> {
    let fd = region.source.raw_fd().filter(|fd| *fd >= 0)?;
    // SAFETY: the source keeps its descriptor open for as long as it lives, and the borrow ends before the region.
    Some(unsafe { BorrowedFd::borrow_raw(fd) })
}

fn send_file(
    stream: &TcpStream,
    file: BorrowedFd<'_>,
    position: u64,
    length: usize,
) -> io::Result<usize> {
    stream.try_io(Interest::WRITABLE, || {
        let mut offset = position;
        Ok(rustix::fs::sendfile(
            stream.as_fd(),
            file,
            Some(&mut offset),
            length,
        )?)
    })
}

/// Whether the page cache holds the region, by reading single bytes of it with `RWF_NOWAIT`: both ends, and one byte
/// per read-ahead window. A wrong yes costs one blocking read, a wrong no one copy.
fn is_resident(file: BorrowedFd<'_>, position: u64, length: usize) -> bool {
    let mut at = 0;
    loop {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(
            file,
            &mut slices,
            position + at as u64,
            ReadWriteFlags::NOWAIT,
        ) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return false,
            // The kernel or the file system cannot tell.
            Err(_) => return true,
        }
        if at + 1 >= length {
            return true;
        }
        at = (at + PROBE_STRIDE_BYTES).min(length - 1);
    }
}
