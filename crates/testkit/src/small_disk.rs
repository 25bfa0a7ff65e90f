//! A small file system that can be filled without harm.
//! Not here: filling it (tests/e2e). Needs the right to mount a tmpfs.
//! Owned by one test. Kafka: kafkatest.tests.core.log_dir_failure_test makes a directory unwritable instead.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a tmpfs of so many megabytes; fails, with the reason, where that needs rights which the test has not.
    pub fn mount(at: &Path, megabytes: u32) -> Result<SmallDisk, String> {
        std::fs::create_dir_all(at).expect("a folder");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(at)
            .output()
            .map_err(|e| e.to_string())?;
        if output.status.success() {
            Ok(SmallDisk(at.to_owned()))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // lazily: a server that is being killed may still have it open
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
