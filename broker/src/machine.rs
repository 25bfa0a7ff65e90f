//! What this machine, or the control group around the process, offers.
//! Not here: what is made of it.
//! Read once at start.
//! Kafka: the JVM's container support.

#![allow(clippy::disallowed_methods)] // the kernel's own files, not the broker's storage

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

/// Lets this process open as many files as the machine allows it, and gives that number.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Refused for an unlimited maximum: then what there is must do.
    if setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum.unwrap_or(u64::MAX);
    }
    limit.current.unwrap_or(u64::MAX)
}

/// How many files this process may have open.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The name by which other machines may reach this one, as far as this one knows.
pub fn host_name() -> String {
    match rustix::system::uname().nodename().to_str() {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_limit_is_raised_to_what_is_allowed() {
        let allowed = getrlimit(Resource::Nofile).maximum;
        let low = Rlimit {
            current: allowed.map(|max| max.min(4096)),
            maximum: allowed,
        };
        setrlimit(Resource::Nofile, low).unwrap();
        let raised = raise_descriptor_limit();
        assert_eq!(raised, allowed.unwrap_or(raised));
        assert_eq!(descriptor_limit(), raised);
    }
}
