//! `meta.properties` of a log directory and `partition.metadata` of a log: who owns them.
//! Not here: whether the ids fit the configuration (broker start, kafka-storage).
//! Read once at start; written by a format or a first start. Kafka: MetaProperties, PropertiesUtils, PartitionMetadataFile;
//! KIP-631, KIP-516, KIP-858.

use crate::error::StorageError;
use crate::names;
use crate::vfs::{Durability, Vfs, read_file, replace_file};
use kavka_common::{NodeId, Uuid};
use kavka_config::properties::Properties;
use std::io;
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// The identity of a log directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaProperties {
    /// 0: written by a broker of the ZooKeeper era; 1: since KRaft.
    pub version: i32,
    pub cluster_id: Option<String>,
    /// `node.id` in version 1, `broker.id` in version 0.
    pub node_id: Option<NodeId>,
    pub directory_id: Option<Uuid>,
}

impl MetaProperties {
    /// Reads `<dir>/meta.properties`; `None` when there is none: the directory is not formatted.
    pub fn read(vfs: &dyn Vfs, dir: &Path) -> Result<Option<MetaProperties>, StorageError> {
        let path = dir.join(names::META_PROPERTIES);
        let content = match read_file(vfs, &path, FILE_BYTES_MAX) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StorageError::io("read", &path, error)),
        };
        let corrupt = |reason: String| StorageError::corrupt(&path, reason);
        let properties = Properties::parse(&content).map_err(|error| corrupt(error.to_string()))?;
        let number = |key: &str| match properties.get(key) {
            None => Ok(None),
            Some(text) => text
                .trim()
                .parse::<i32>()
                .map(Some)
                .map_err(|_| corrupt(format!("{key}={text} is no number"))),
        };
        let version = number("version")?.ok_or_else(|| corrupt("no version".into()))?;
        if !(0..=1).contains(&version) {
            return Err(corrupt(format!("version {version} is not known")));
        }
        let node_id = number(if version == 0 { "broker.id" } else { "node.id" })?;
        let directory_id = match properties.get("directory.id") {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|error| corrupt(format!("directory.id: {error}")))?,
            ),
        };
        let meta = MetaProperties {
            version,
            cluster_id: properties.get("cluster.id").map(str::to_owned),
            node_id: node_id.map(NodeId),
            directory_id,
        };
        if version == 1 && (meta.cluster_id.is_none() || meta.node_id.is_none()) {
            return Err(corrupt("version 1 needs cluster.id and node.id".into()));
        }
        Ok(Some(meta))
    }

    /// Writes `<dir>/meta.properties`, durably, as Java's `Properties.store` does.
    pub fn write(&self, vfs: &dyn Vfs, dir: &Path, now_ms: i64) -> io::Result<()> {
        let mut properties = Properties::new();
        // The order that Kafka's own files have.
        if let Some(node_id) = self.node_id {
            let key = if self.version == 0 {
                "broker.id"
            } else {
                "node.id"
            };
            properties.set(key, node_id.to_string());
        }
        if let Some(directory_id) = self.directory_id {
            properties.set("directory.id", directory_id.to_string());
        }
        properties.set("version", self.version.to_string());
        if let Some(cluster_id) = &self.cluster_id {
            properties.set("cluster.id", cluster_id.clone());
        }
        let content = properties.store(&["", &java_date(now_ms)]);
        let path = dir.join(names::META_PROPERTIES);
        replace_file(vfs, &path, content.as_bytes(), Durability::Synced)
    }
}

/// `Tue Dec 01 12:31:53 UTC 2026`, as `java.util.Date.toString` writes it.
fn java_date(now_ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = now_ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil date of a day count, in years that start in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        DAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Reads the topic id of the log in `dir`; `None` when the file is absent.
pub fn read_partition_metadata(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Uuid>, StorageError> {
    let path = dir.join(names::PARTITION_METADATA);
    let content = match read_file(vfs, &path, FILE_BYTES_MAX) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("read", &path, error)),
    };
    let text = String::from_utf8(content).map_err(|_| StorageError::corrupt(&path, "not UTF-8"))?;
    let mut lines = text.lines();
    let mut field = |name: &str| -> Result<String, StorageError> {
        lines
            .next()
            .and_then(|line| line.split_once(": "))
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value.trim().to_owned())
            .ok_or_else(|| StorageError::corrupt(&path, format!("no '{name}: ' where it belongs")))
    };
    let version = field("version")?;
    if version != "0" {
        return Err(StorageError::corrupt(
            &path,
            format!("version {version} is not known"),
        ));
    }
    let topic_id: Uuid = field("topic_id")?
        .parse()
        .map_err(|error| StorageError::corrupt(&path, format!("{error}")))?;
    if topic_id == Uuid::ZERO {
        return Err(StorageError::corrupt(&path, "the topic id is zero"));
    }
    Ok(Some(topic_id))
}

/// Writes the topic id of the log in `dir`, durably.
pub fn write_partition_metadata(vfs: &dyn Vfs, dir: &Path, topic_id: Uuid) -> io::Result<()> {
    let content = format!("version: 0\ntopic_id: {topic_id}");
    let path = dir.join(names::PARTITION_METADATA);
    replace_file(vfs, &path, content.as_bytes(), Durability::Synced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::RealVfs;

    #[test]
    fn dates_are_javas() {
        assert_eq!(java_date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(java_date(1_796_128_313_999), "Tue Dec 01 12:31:53 UTC 2026");
        assert_eq!(java_date(951_782_399_000), "Mon Feb 28 23:59:59 UTC 2000");
        assert_eq!(java_date(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
    }

    #[test]
    fn version_1_is_written_as_kafka_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(MetaProperties::read(&RealVfs, dir.path()).unwrap(), None);
        let meta = MetaProperties {
            version: 1,
            cluster_id: Some("7PNKnBxF5hDka0o4slkklw".into()),
            node_id: Some(NodeId(1)),
            directory_id: Some("f9BeeRkO5k2DZSO31o1MRw".parse().unwrap()),
        };
        meta.write(&RealVfs, dir.path(), 1_796_128_313_000).unwrap();
        let text = read_file(&RealVfs, &dir.path().join("meta.properties"), 1000).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "#\n#Tue Dec 01 12:31:53 UTC 2026\nnode.id=1\ndirectory.id=f9BeeRkO5k2DZSO31o1MRw\nversion=1\ncluster.id=7PNKnBxF5hDka0o4slkklw\n"
        );
        assert_eq!(
            MetaProperties::read(&RealVfs, dir.path()).unwrap(),
            Some(meta)
        );
    }

    #[test]
    fn version_0_and_malformed_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.properties");
        let write = |text: &str| {
            replace_file(&RealVfs, &path, text.as_bytes(), Durability::PageCache).unwrap()
        };
        write("#\n#Mon Jan 01\ncluster.id=abc\nversion=0\nbroker.id=7\n");
        let meta = MetaProperties::read(&RealVfs, dir.path()).unwrap().unwrap();
        assert_eq!((meta.version, meta.node_id), (0, Some(NodeId(7))));
        for bad in [
            "",
            "version=2\n",
            "version=1\nnode.id=1\n",
            "version=1\ncluster.id=x\nnode.id=y\n",
        ] {
            write(bad);
            assert!(MetaProperties::read(&RealVfs, dir.path()).is_err(), "{bad}");
        }
    }

    #[test]
    fn partition_metadata_is_kafkas() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_partition_metadata(&RealVfs, dir.path()).unwrap(), None);
        write_partition_metadata(&RealVfs, dir.path(), Uuid::METADATA_TOPIC).unwrap();
        let text = read_file(&RealVfs, &dir.path().join("partition.metadata"), 100).unwrap();
        assert_eq!(text, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(
            read_partition_metadata(&RealVfs, dir.path()).unwrap(),
            Some(Uuid::METADATA_TOPIC)
        );
    }
}
