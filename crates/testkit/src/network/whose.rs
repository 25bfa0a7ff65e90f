//! Whose a connection is: the process that has the other end open, by its ports.
//! Not here: what is done with that (proxy).
//! Runs once for each connection, in the proxy's task. The kernel is asked by netlink (sock_diag(7)), because its tables
//! in /proc/net are long where many connections come and go; /proc/<pid>/fd says who has the socket open. Neither
//! needs rights for processes of one's own. Kafka: no counterpart.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};
use std::collections::BTreeMap;
use std::fs;

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
/// nlmsghdr, inet_diag_req_v2 without its inet_diag_sockid, that id.
const REQUEST_BYTES: usize = 16 + 8 + 48;
/// Of `idiag_inode` in an answer: nlmsghdr, inet_diag_msg up to it.
const INODE_AT: usize = 16 + 4 + 48 + 16;

/// The node whose process has a socket from this port `to` that one; `None` for every other process.
pub(super) fn node_of(port: u16, to: u16, processes: &BTreeMap<i32, i32>) -> Option<i32> {
    let name = format!("socket:[{}]", inode_of(port, to)?);
    processes
        .iter()
        .find(|(process_id, _)| has_open(**process_id, &name))
        .map(|(_, node)| *node)
}

/// The inode of the socket on 127.0.0.1 with these ports, its own and the other end's.
fn inode_of(port: u16, to: u16) -> Option<u32> {
    let asking = socket(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        Some(netlink::SOCK_DIAG),
    )
    .ok()?;
    send(&asking, &request(port, to), SendFlags::empty()).ok()?;
    let mut answer = [0; 512];
    let (_, length) = recv(&asking, &mut answer, RecvFlags::empty()).ok()?;
    let answer = &answer[..length];
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let inode = u32::from_ne_bytes(answer.get(INODE_AT..INODE_AT + 4)?.try_into().ok()?);
    // Where no connection has these ports, the kernel finds a listener.
    let other_end = u16::from_be_bytes(answer.get(22..24)?.try_into().ok()?);
    (kind == BY_FAMILY && other_end == to && inode != 0).then_some(inode)
}

fn request(port: u16, to: u16) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    let length = u32::try_from(REQUEST_BYTES).expect("small");
    put(0, &length.to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(16, &[AF_INET, IPPROTO_TCP]);
    // every state
    put(20, &u32::MAX.to_ne_bytes());
    put(24, &port.to_be_bytes());
    put(26, &to.to_be_bytes());
    put(28, &LOOPBACK);
    put(44, &LOOPBACK);
    // INET_DIAG_NOCOOKIE
    put(64, &[0xff; 8]);
    request
}

fn has_open(process_id: i32, name: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process_id}/fd")) else {
        return false;
    };
    files
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .any(|target| target.as_os_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let there = TcpStream::connect(address).expect("a connection");
        let (_here, peer) = listener.accept().expect("a connection");
        let ours = i32::try_from(std::process::id()).expect("a process id");
        let node = |of: i32| node_of(peer.port(), address.port(), &BTreeMap::from([(of, 3)]));
        assert_eq!(node(ours), Some(3));
        assert_eq!(node(1), None);
        assert_eq!(
            node_of(address.port(), 1, &BTreeMap::from([(ours, 3)])),
            None
        );
        drop(there);
    }
}
