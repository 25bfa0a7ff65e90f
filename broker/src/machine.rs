//! What this machine, or the control group around the process, offers.
//! Not here: what is made of it.
//! Read once at start.
//! Kafka: the JVM's container support.

#![allow(clippy::disallowed_methods)] // the kernel's own files, not the broker's storage

/// Memory that the process may use: the machine's, or the control group's limit where that is lower.
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info
        .totalram
        .saturating_mul(u64::from(info.mem_unit.max(1)));
    [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok())
    .fold(machine, u64::min)
}

/// The name by which other machines may reach this one, as far as this one knows.
pub fn host_name() -> String {
    match rustix::system::uname().nodename().to_str() {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => "localhost".to_owned(),
    }
}
