//! One connection of a ZooKeeper client: session handshake, then reads of the tree.
//! Not here: sockets, time (the shell closes a connection that is silent for longer than `timeout_ms`).
//! Pure; owned by the connection task. Watches are accepted and never fire; writes are refused.
//! ZooKeeper 3.5: ZooKeeperServer.processConnectRequest, FinalRequestProcessor; opcodes of ZooDefs.OpCode.

use crate::jute::{JuteError, Reader, Writer};
use crate::tree::{ClusterView, Tree, ZNode};
use bytes::{Buf, Bytes, BytesMut};

/// Longest frame that a client may send.
pub const FRAME_MAX_BYTES: usize = 1 << 20;

const OP_EXISTS: i32 = 3;
const OP_GET_DATA: i32 = 4;
const OP_GET_CHILDREN: i32 = 8;
const OP_SYNC: i32 = 9;
const OP_PING: i32 = 11;
const OP_GET_CHILDREN2: i32 = 12;
const OP_AUTH: i32 = 100;
const OP_SET_WATCHES: i32 = 101;
const OP_CLOSE: i32 = -11;

const XID_PING: i32 = -2;
const XID_AUTH: i32 = -4;
const XID_SET_WATCHES: i32 = -8;

const ERR_OK: i32 = 0;
const ERR_UNIMPLEMENTED: i32 = -6;
const ERR_NO_NODE: i32 = -101;
/// `NotReadOnly`: what a read-only ZooKeeper says to a write.
const ERR_NOT_READ_ONLY: i32 = -119;

/// What the connection task does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame is not complete.
    NeedMore,
    /// Send these bytes.
    Send(Bytes),
    /// Send these bytes, then close.
    SendAndClose(Bytes),
    /// Close; the reason is for the log.
    Close(String),
}

/// The state of one client's connection.
#[derive(Debug)]
pub struct Session {
    session_id: i64,
    password: [u8; 16],
    timeout_range_ms: (i32, i32),
    timeout_ms: Option<i32>,
}

impl Session {
    /// `session_id` and `password` are what a client without a session gets.
    pub fn new(session_id: i64, password: [u8; 16], timeout_range_ms: (i32, i32)) -> Self {
        Session {
            session_id,
            password,
            timeout_range_ms,
            timeout_ms: None,
        }
    }

    /// The negotiated timeout, once the session is open.
    pub fn timeout_ms(&self) -> Option<i32> {
        self.timeout_ms
    }

    pub fn session_id(&self) -> i64 {
        self.session_id
    }

    /// Takes one frame from the input and answers it.
    pub fn step<V: ClusterView + ?Sized>(&mut self, input: &mut BytesMut, view: &V) -> Step {
        let Some(head) = input.first_chunk::<4>() else {
            return Step::NeedMore;
        };
        let raw = i32::from_be_bytes(*head);
        let Some(length) = usize::try_from(raw)
            .ok()
            .filter(|length| (4..=FRAME_MAX_BYTES).contains(length))
        else {
            return Step::Close(format!("Unreasonable length = {raw}"));
        };
        if input.len() < 4 + length {
            return Step::NeedMore;
        }
        input.advance(4);
        let mut frame = input.split_to(length).freeze();
        let answer = if self.timeout_ms.is_none() {
            self.connect(&mut frame)
        } else {
            request(&mut frame, view)
        };
        answer.unwrap_or_else(|error| Step::Close(format!("malformed ZooKeeper request: {error}")))
    }

    fn connect(&mut self, frame: &mut Bytes) -> Result<Step, JuteError> {
        let mut reader = Reader(frame);
        let _protocol_version = reader.int()?;
        let _last_zxid_seen = reader.long()?;
        let timeout_ms = reader.int()?;
        let session_id = reader.long()?;
        let password = reader.buffer()?;
        // Clients since 3.4 add the read-only flag, and read it from the answer only if they sent it.
        let flagged = reader.boolean().is_ok();
        if session_id != 0 {
            // A session that is resumed keeps its identity: nothing of it is state here, so nothing can be lost.
            self.session_id = session_id;
            if let Some(password) = password
                && let Ok(password) = <[u8; 16]>::try_from(&password[..])
            {
                self.password = password;
            }
        }
        let timeout_ms = timeout_ms.clamp(self.timeout_range_ms.0, self.timeout_range_ms.1);
        self.timeout_ms = Some(timeout_ms);
        let mut out = Writer::new();
        out.int(0)
            .int(timeout_ms)
            .long(self.session_id)
            .buffer(&self.password);
        if flagged {
            out.boolean(false);
        }
        Ok(Step::Send(out.finish()))
    }
}

fn request<V: ClusterView + ?Sized>(frame: &mut Bytes, view: &V) -> Result<Step, JuteError> {
    let mut reader = Reader(frame);
    let xid = reader.int()?;
    let op = reader.int()?;
    let zxid = view.zxid();
    let header = |error: i32| {
        let mut out = Writer::new();
        out.int(xid).long(zxid).int(error);
        out
    };
    match (xid, op) {
        (XID_PING, _) | (_, OP_PING) => return Ok(Step::Send(header(ERR_OK).finish())),
        (XID_AUTH, _) | (_, OP_AUTH) | (XID_SET_WATCHES, _) | (_, OP_SET_WATCHES) => {
            return Ok(Step::Send(header(ERR_OK).finish()));
        }
        (_, OP_CLOSE) => return Ok(Step::SendAndClose(header(ERR_OK).finish())),
        _ => {}
    }
    let tree = Tree(view);
    match op {
        OP_EXISTS | OP_GET_DATA | OP_GET_CHILDREN | OP_GET_CHILDREN2 => {
            let path = reader.string()?;
            let _watch = reader.boolean()?;
            let Some(node) = tree.node(&path) else {
                return Ok(Step::Send(header(ERR_NO_NODE).finish()));
            };
            let mut out = header(ERR_OK);
            match op {
                OP_EXISTS => stat(&mut out, &node),
                OP_GET_DATA => {
                    match &node.data {
                        Some(data) => out.buffer(data.as_bytes()),
                        None => out.int(-1),
                    };
                    stat(&mut out, &node);
                }
                _ => {
                    out.int(i32::try_from(node.children.len()).unwrap_or(i32::MAX));
                    for child in &node.children {
                        out.buffer(child.as_bytes());
                    }
                    if op == OP_GET_CHILDREN2 {
                        stat(&mut out, &node);
                    }
                }
            }
            Ok(Step::Send(out.finish()))
        }
        OP_SYNC => {
            let path = reader.string()?;
            let mut out = header(ERR_OK);
            out.buffer(path.as_bytes());
            Ok(Step::Send(out.finish()))
        }
        // create, delete, setData, setACL, check, multi, create2, reconfig, createContainer, createTTL.
        1 | 2 | 5 | 7 | 13 | 14 | 15 | 16 | 19 | 21 => {
            Ok(Step::Send(header(ERR_NOT_READ_ONLY).finish()))
        }
        _ => Ok(Step::Send(header(ERR_UNIMPLEMENTED).finish())),
    }
}

fn stat(out: &mut Writer, node: &ZNode) {
    let children = i32::try_from(node.children.len()).unwrap_or(i32::MAX);
    let bytes = node
        .data
        .as_ref()
        .map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX));
    out.long(node.zxid)
        .long(node.zxid)
        .long(node.timestamp_ms)
        .long(node.timestamp_ms)
        .int(0)
        .int(children)
        .int(0)
        .long(node.owner)
        .int(bytes)
        .int(children)
        .long(node.zxid);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::Recorded;

    fn hex(text: &str) -> BytesMut {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }

    /// Frames of ZooKeeper 3.5.7's shell against its server, recorded on the wire.
    const CONNECT: &str = "0000002d000000000000000000000000000075300000000000000000000000100000000000000000000000000000000000";
    const CONNECTED: &str =
        "0000002500000000000075300100001143230010000000108d5f2980e1129f41e1170cfcefaacd9f00";
    const GET_CHILDREN2: &str = "00000019000000010000000c0000000c2f62726f6b6572732f69647300";
    const EXISTS_NOPE: &str = "000000120000000200000003000000052f6e6f706500";
    const NO_NODE: &str = "00000010000000020000000000000035ffffff9b";
    const GET_CONTROLLER: &str = "0000001800000003000000040000000b2f636f6e74726f6c6c657200";
    const CREATE: &str = "000000320000000200000001000000022f610000000162000000010000001f00000005776f726c6400000006616e796f6e6500000000";
    const CLOSE: &str = "0000000800000004fffffff5";

    fn connected() -> Session {
        let password = <[u8; 16]>::try_from(&hex("8d5f2980e1129f41e1170cfcefaacd9f")[..]).unwrap();
        let mut session = Session::new(0x0100_0011_4323_0010, password, (6000, 60000));
        let step = session.step(&mut hex(CONNECT), &Recorded);
        assert_eq!(step, Step::Send(hex(CONNECTED).freeze()));
        session
    }

    #[test]
    fn the_shells_own_frames_are_answered_as_zookeeper_answers_them() {
        let mut session = connected();
        assert_eq!(session.timeout_ms(), Some(30000));
        let Step::Send(children) = session.step(&mut hex(GET_CHILDREN2), &Recorded) else {
            panic!("no answer");
        };
        // Header, one child named 1, then 68 bytes of stat.
        assert_eq!(
            &children[..29],
            &hex("0000005d000000010000000000000035000000000000000100000001310000")[..29]
        );
        assert_eq!(children.len(), 4 + 0x5d);
        assert_eq!(
            session.step(&mut hex(EXISTS_NOPE), &Recorded),
            Step::Send(hex(NO_NODE).freeze())
        );
        let Step::Send(controller) = session.step(&mut hex(GET_CONTROLLER), &Recorded) else {
            panic!("no answer");
        };
        assert_eq!(controller.len(), 4 + 0x8e);
        assert!(
            controller
                .windows(12)
                .any(|window| window == br#""brokerid":1"#)
        );
        assert!(matches!(
            session.step(&mut hex(CLOSE), &Recorded),
            Step::SendAndClose(_)
        ));
    }

    #[test]
    fn writes_are_refused_and_the_session_goes_on() {
        let mut session = connected();
        let Step::Send(answer) = session.step(&mut hex(CREATE), &Recorded) else {
            panic!("no answer");
        };
        assert_eq!(&answer[16..20], &(-119_i32).to_be_bytes());
        assert!(matches!(
            session.step(&mut hex(EXISTS_NOPE), &Recorded),
            Step::Send(_)
        ));
    }

    #[test]
    fn frames_may_arrive_in_pieces() {
        let mut session = connected();
        let whole = hex(EXISTS_NOPE);
        let mut input = BytesMut::new();
        for (at, byte) in whole.iter().enumerate() {
            input.extend_from_slice(&[*byte]);
            let step = session.step(&mut input, &Recorded);
            if at + 1 < whole.len() {
                assert_eq!(step, Step::NeedMore);
            } else {
                assert!(matches!(step, Step::Send(_)));
            }
        }
        assert!(input.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered_or_refused(bytes: Vec<u8>, open: bool) {
            let mut session = if open { connected() } else { Session::new(1, [0; 16], (1, 2)) };
            let mut input = BytesMut::new();
            input.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
            input.extend_from_slice(&bytes);
            let _ = session.step(&mut input, &Recorded);
        }
    }
}
