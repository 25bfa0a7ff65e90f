//! Whose a connection is: the process that has the other end open, by its port.
//! Not here: what is done with that (proxy).
//! Runs once for each connection, in the proxy's task; reads /proc, which needs no rights for processes of one's own.
//! Kafka: no counterpart.

use std::collections::BTreeMap;
use std::fs;

/// The node whose process has a socket with this local port; `None` for every other process.
pub(super) fn node_of(port: u16, processes: &BTreeMap<i32, i32>) -> Option<i32> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| inode_of(&fs::read_to_string(table).ok()?, port))?;
    let name = format!("socket:[{inode}]");
    processes
        .iter()
        .find(|(process_id, _)| has_open(**process_id, &name))
        .map(|(_, node)| *node)
}

/// The inode of the connected socket with this local port, from a table of the kernel.
fn inode_of(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let local = fields.nth(1)?;
        let remote = fields.next()?;
        let inode = fields.nth(6)?.parse().ok()?;
        let local_port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
        let listens = remote.ends_with(":0000");
        (local_port == port && !listens && inode != 0).then_some(inode)
    })
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
        let _there = TcpStream::connect(address).expect("a connection");
        let (_here, peer) = listener.accept().expect("a connection");
        let ours = i32::try_from(std::process::id()).expect("a process id");
        assert_eq!(node_of(peer.port(), &BTreeMap::from([(ours, 3)])), Some(3));
        assert_eq!(node_of(peer.port(), &BTreeMap::from([(1, 3)])), None);
    }

    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:2710 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1\n\
             1: 0100007F:2710 0100007F:BEEF 01 00000000:00000000 00:00000000 00000000     0        0 78 1\n";
        assert_eq!(inode_of(table, 10_000), Some(78));
        assert_eq!(inode_of(table, 10_001), None);
    }
}
