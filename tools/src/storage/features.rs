//! Levels of features: which go with a release, which need others, what `--feature name=level` may ask for.
//! Not here: the tables of levels (kavka-metadata). Pure.
//! Kafka: Feature, MetadataVersion, StorageTool.{runVersionMappingCommand, runFeatureDependenciesCommand}; KIP-1022.

use super::Stop;
use crate::java::Exception;
use kavka_metadata::features::{
    ELIGIBLE_LEADER_REPLICAS_VERSION, GROUP_VERSION, KRAFT_VERSION, METADATA_VERSION,
    MetadataVersion, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION, production_features,
    supported_features,
};
use std::collections::BTreeMap;

/// The order in which Kafka lists them.
const LISTED: [&str; 6] = [
    KRAFT_VERSION,
    TRANSACTION_VERSION,
    GROUP_VERSION,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
];
/// A level that Kafka knows but does not call stable.
const UNSTABLE: (i16, &str) = (31, "4.4-IV0");
/// From 3.9 on a quorum's voters can change.
const KRAFT_VERSION_1: MetadataVersion = MetadataVersion(21);
/// Eligible leader replicas need its records.
const ELR_NEEDS: MetadataVersion = MetadataVersion(23);

/// A release by name; `unstable`: the complaint names the unstable level, too.
pub(crate) fn release(text: &str, unstable: bool) -> Result<MetadataVersion, Stop> {
    MetadataVersion::from_name(text).ok_or_else(|| {
        let mut known: Vec<&str> = MetadataVersion::all().map(MetadataVersion::name).collect();
        if unstable {
            known.push(UNSTABLE.1);
        }
        Stop::Terse(format!(
            "Unknown metadata.version '{text}'. Supported metadata.version are: {}",
            known.join(", ")
        ))
    })
}

/// The level that a new cluster of this release begins with.
pub(crate) fn default_level(feature: &str, release: MetadataVersion) -> i16 {
    if feature == KRAFT_VERSION {
        return i16::from(release >= KRAFT_VERSION_1);
    }
    production_features(release)
        .find(|(name, _)| *name == feature)
        .map_or(0, |(_, level)| level)
}

/// `kafka-storage version-mapping`.
pub(crate) fn version_mapping(text: Option<&str>) -> Result<String, Stop> {
    let (version, name) = match text {
        None => (
            MetadataVersion::LATEST_PRODUCTION,
            MetadataVersion::LATEST_PRODUCTION.name(),
        ),
        Some(text) => (release(text, true)?, text),
    };
    let mut out = format!("{METADATA_VERSION}={} ({name})\n", version.0);
    for feature in LISTED {
        out.push_str(&format!("{feature}={}\n", default_level(feature, version)));
    }
    Ok(out)
}

fn highest(feature: &str) -> Option<i16> {
    supported_features().get(feature).map(|range| range.max)
}

/// `kafka-storage feature-dependencies`.
pub(crate) fn dependencies<'a>(features: impl Iterator<Item = &'a str>) -> Result<String, Stop> {
    let mut out = String::new();
    for text in features {
        let (name, level_text) = text.split_once('=').ok_or_else(|| {
            Stop::Terse(format!(
                "Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
            ))
        })?;
        let level: i16 = level_text.parse().map_err(|_| {
            Stop::Terse(format!(
                "Invalid version format: {level_text} for feature {name}"
            ))
        })?;
        if name == METADATA_VERSION {
            let known = MetadataVersion::from_level(level)
                .map(MetadataVersion::name)
                .or_else(|| (level == UNSTABLE.0).then_some(UNSTABLE.1))
                .ok_or_else(|| Stop::Terse(format!("Unknown metadata.version {level}")))?;
            out.push_str(&format!("{name}={level} ({known}) has no dependencies.\n"));
            continue;
        }
        let highest =
            highest(name).ok_or_else(|| Stop::Terse(format!("Unknown feature: {name}")))?;
        if !(0..=highest).contains(&level) {
            return Err(Stop::Terse(format!(
                "Feature level {level} is not supported for feature {name}"
            )));
        }
        if name == ELIGIBLE_LEADER_REPLICAS_VERSION && level > 0 {
            out.push_str(&format!(
                "{name}={level} requires:\n    {METADATA_VERSION}={} ({})\n",
                ELR_NEEDS.0,
                ELR_NEEDS.name()
            ));
        } else {
            out.push_str(&format!("{name}={level} has no dependencies.\n"));
        }
    }
    Ok(out)
}

/// `name=level` arguments; a name given twice has its last level.
pub(crate) fn parse_levels<'a>(
    arguments: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, i16>, Stop> {
    arguments
        .map(|text| {
            let complain = |why: String| {
                Stop::Uncaught(Exception::new(
                    "java.lang.RuntimeException",
                    format!("Can't parse feature=level string {text}: {why}"),
                ))
            };
            let (name, level) = text
                .split_once('=')
                .ok_or_else(|| complain("equals sign not found.".into()))?;
            let level = level
                .trim()
                .parse()
                .map_err(|_| complain(format!("unable to parse {level} as a short.")))?;
            Ok((name.trim().to_owned(), level))
        })
        .collect()
}

/// What a new cluster begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) metadata_version: MetadataVersion,
    /// Without metadata.version and kraft.version; levels above 0.
    pub(super) features: BTreeMap<String, i16>,
    /// `None`: as the quorum's kind demands.
    pub(super) kraft_version: Option<i16>,
}

/// The levels of a release with those that were asked for in place of its own.
pub(super) fn effective(
    release_text: Option<&str>,
    mut asked: BTreeMap<String, i16>,
) -> Result<Levels, Stop> {
    let illegal = |text: String| Stop::Uncaught(Exception::illegal_argument(text));
    let asked_version = asked.remove(METADATA_VERSION);
    let metadata_version = match (release_text, asked_version) {
        (Some(_), Some(_)) => {
            return Err(Stop::Terse(format!(
                "Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity."
            )));
        }
        (Some(text), None) => release(text, false)?,
        (None, Some(level)) => MetadataVersion::from_level(level).ok_or_else(|| {
            if level == UNSTABLE.0 {
                Stop::Terse(format!("metadata.version {} is not yet stable.", UNSTABLE.1))
            } else {
                illegal(format!(
                    "No MetadataVersion with feature level {level}. Valid feature levels are from {} to {}.",
                    MetadataVersion::MINIMUM.0,
                    UNSTABLE.0
                ))
            }
        })?,
        (None, None) => MetadataVersion::LATEST_PRODUCTION,
    };
    for name in asked.keys() {
        if highest(name).is_none() {
            let known: Vec<_> = supported_features()
                .into_keys()
                .filter(|known| &**known != METADATA_VERSION)
                .map(|known| known.to_string())
                .collect();
            return Err(Stop::Terse(format!(
                "Unsupported feature: {name}. Supported features are: {}",
                known.join(", ")
            )));
        }
    }
    for (name, level) in &asked {
        if !(0..=highest(name).unwrap_or(0)).contains(level) {
            return Err(illegal(format!(
                "No feature:{name} with feature level {level}"
            )));
        }
    }
    let kraft_version = asked.remove(KRAFT_VERSION);
    let mut features: BTreeMap<String, i16> = production_features(metadata_version)
        .map(|(name, level)| (name.to_owned(), level))
        .collect();
    features.extend(asked);
    features.retain(|_, level| *level > 0);
    if let Some(level) = features.get(ELIGIBLE_LEADER_REPLICAS_VERSION)
        && metadata_version < ELR_NEEDS
    {
        return Err(illegal(format!(
            "{ELIGIBLE_LEADER_REPLICAS_VERSION} could not be set to {level} because it depends on {METADATA_VERSION} level {}",
            ELR_NEEDS.0
        )));
    }
    Ok(Levels {
        metadata_version,
        features,
        kraft_version,
    })
}
