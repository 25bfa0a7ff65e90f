#![allow(clippy::disallowed_methods)] // the tests make files of their own

use super::voters::parse_list;
use super::*;
use kavka_metadata::features::MetadataVersion;
use kavka_records::batch::batches;
use std::path::Path;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn output(line: &str) -> String {
    run(&words(line)).unwrap()
}

fn refusal(line: &str) -> String {
    match run(&words(line)).unwrap_err() {
        Stop::Terse(text) => text,
        Stop::Uncaught(exception) => exception.trace(),
        other => format!("{other:?}"),
    }
}

#[test]
fn levels_go_with_releases() {
    assert_eq!(
        output("version-mapping"),
        "metadata.version=30 (4.3-IV0)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\neligible.leader.replicas.version=1\nshare.version=1\nstreams.version=1\n"
    );
    assert_eq!(
        output("version-mapping --release-version 3.9"),
        "metadata.version=21 (3.9)\nkraft.version=1\ntransaction.version=0\ngroup.version=0\neligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n"
    );
    assert!(output("version-mapping -r 3.3-IV3").contains("kraft.version=0"));
    assert!(refusal("version-mapping -r 9.9").ends_with("4.3-IV0, 4.4-IV0"));
}

#[test]
fn features_depend_on_others() {
    assert_eq!(
        output("feature-dependencies -f metadata.version=29 -f eligible.leader.replicas.version=1"),
        "metadata.version=29 (4.2-IV1) has no dependencies.\neligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
    );
    for (line, text) in [
        (
            "group.version=9",
            "Feature level 9 is not supported for feature group.version",
        ),
        ("nonsense=1", "Unknown feature: nonsense"),
        ("metadata.version=99", "Unknown metadata.version 99"),
        (
            "group.version=x",
            "Invalid version format: x for feature group.version",
        ),
    ] {
        assert_eq!(refusal(&format!("feature-dependencies -f {line}")), text);
    }
}

#[test]
fn effective_levels_are_checked() {
    let levels = |release: Option<&str>, asked: &[&str]| {
        features::parse_levels(asked.iter().copied())
            .and_then(|asked| features::effective(release, asked))
    };
    let newest = levels(None, &["share.version=0"]).unwrap();
    assert_eq!(newest.metadata_version, MetadataVersion(30));
    assert!(!newest.features.contains_key("share.version"));
    assert_eq!(newest.features["transaction.version"], 2);
    assert_eq!(
        levels(Some("3.9"), &["eligible.leader.replicas.version=1"]).unwrap_err(),
        Stop::Uncaught(Exception::illegal_argument(
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23"
        ))
    );
    assert_eq!(
        levels(None, &["nonsense=1"]).unwrap_err(),
        Stop::Terse("Unsupported feature: nonsense. Supported features are: eligible.leader.replicas.version, group.version, kraft.version, share.version, streams.version, transaction.version".into())
    );
    assert!(levels(Some("4.0"), &["metadata.version=20"]).is_err());
    assert!(levels(None, &["group.version=7"]).is_err());
    assert!(levels(None, &["group.version"]).is_err());
}

#[test]
fn voters_are_read_with_kafkas_complaints() {
    let voters = parse_list("2@[::1]:9,1@h:8:JEXY6aqzQY-32P5TStzaFg").unwrap_err();
    assert_eq!(
        voters,
        Stop::Uncaught(Exception::illegal_argument(
            "No colon following port could be found."
        ))
    );
    let voters =
        parse_list("2@[::1]:9:JEXY6aqzQY-32P5TStzaFg,1@h:8:MvDxzVmcRsaTz33bUuRU6A").unwrap();
    assert_eq!(
        voters
            .iter()
            .map(|v| (v.id, v.host.as_str(), v.port))
            .collect::<Vec<_>>(),
        [(1, "h", 8), (2, "::1", 9)]
    );
    assert!(parse_list("1@h:8:JEXY6aqzQY-32P5TStzaFg,1@h:9:JEXY6aqzQY-32P5TStzaFg").is_err());
}

/// Sizes are those of the files that kafka-storage.sh wrote.
#[test]
fn snapshots_are_kafkas() {
    let records: Vec<_> = kavka_metadata::bootstrap::format_records(MetadataVersion(30));
    let file = checkpoint::bootstrap(&records, 1_796_105_479_605).unwrap();
    assert_eq!(file.len(), 411);
    let sizes: Vec<usize> = batches(&file).map(|b| b.unwrap().bytes().len()).collect();
    assert_eq!(sizes, [83, 253, 75]);
    let voters = parse_list("1@127.0.0.1:19142:asTs4gdSR7S5xEjjz8d_Gg").unwrap();
    let file = checkpoint::voter_set(&voters, "CONTROLLER", 1, 1_796_105_479_680).unwrap();
    let sizes: Vec<usize> = batches(&file).map(|b| b.unwrap().bytes().len()).collect();
    assert_eq!(sizes, [166, 75]);
}

fn server_properties(dir: &Path, log_dirs: &str, more: &str) -> String {
    let path = dir.join("server.properties");
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\nlog.dirs={log_dirs}\n{more}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn directories_are_formatted_once() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let log_dirs = format!("{},{}", a.display(), b.display());
    let config = server_properties(
        dir.path(),
        &log_dirs,
        "controller.quorum.bootstrap.servers=127.0.0.1:9093",
    );
    let format = format!("format -t MkU3OEVBNTcwNTJENDM2Qg -c {config}");
    assert!(refusal(&format).starts_with("Because controller.quorum.voters is not set"));
    assert!(!a.exists());
    assert!(
        refusal(&format!(
            "{format} -s --add-scram SCRAM-SHA-256=[name=a,password=b]"
        ))
        .starts_with("--add-scram is not supported")
    );
    assert!(!a.exists());
    output(&format!("{format} --standalone"));
    assert!(
        a.join("__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
            .exists()
    );
    assert!(!b.join("__cluster_metadata-0").exists());
    for directory in [&a, &b] {
        assert!(directory.join("bootstrap.checkpoint").exists());
    }
    assert!(refusal(&format!("{format} -s")).contains("is already formatted"));
    output(&format!("{format} -s -g"));
    assert!(
        refusal(&format!(
            "format -t AAAAAAAAAAAAAAAAAAAAAQ -c {config} -s -g"
        ))
        .contains("Expected AAAAAAAAAAAAAAAAAAAAAQ, but read MkU3OEVBNTcwNTJENDM2Qg")
    );
    let (text, sound) = info::report(&[a.display().to_string(), b.display().to_string()].into());
    assert!(sound);
    assert!(text.contains("Found metadata: {cluster.id=MkU3OEVBNTcwNTJENDM2Qg, directory.id="));
    std::fs::remove_file(b.join("meta.properties")).unwrap();
    let (text, sound) = info::report(&[a.display().to_string(), b.display().to_string()].into());
    assert!(!sound && text.contains("is not formatted."));
}

#[test]
fn static_quorums_have_no_voter_set() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let config = server_properties(
        dir.path(),
        &data.display().to_string(),
        "controller.quorum.voters=1@127.0.0.1:9093",
    );
    let format = format!("format -t x -c {config}");
    assert!(
        refusal(&format!("{format} -s")).starts_with("You cannot specify controller.quorum.voters")
    );
    assert!(
        refusal(&format!("{format} -f kraft.version=1"))
            .starts_with("Cannot set kraft.version to 1")
    );
    output(&format!("{format} -r 4.0"));
    assert!(!data.join("__cluster_metadata-0").exists());
}

#[test]
fn command_lines_are_refused_in_argparse4js_way() {
    let text = |line: &str| match run(&words(line)).unwrap_err() {
        Stop::Arguments(Problem::Refused(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        text(""),
        "usage: kafka-storage [-h]\n                     {info,format,version-mapping,feature-dependencies,random-uuid}\n                     ...\nkafka-storage: error: too few arguments\n"
    );
    assert!(text("nonsense").ends_with("kafka-storage: error:  invalid  choice:  'nonsense'  (choose  from  'info',\n'format', 'version-mapping', 'feature-dependencies', 'random-uuid')\n"));
    assert!(text("info").ends_with("error: argument --config/-c is required\n"));
    let id = output("random-uuid");
    assert_eq!(id.len(), 23);
}
