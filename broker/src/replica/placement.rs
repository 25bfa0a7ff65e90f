//! In which directory a replica's log is made that is not found on disk, or that it must not be made.
//! Not here: the directories (kavka_storage::LogDirs), making the log (apply.rs).
//! Pure. Kafka: Partition.createLogInAssignedDirectoryId, LogManager.getOrCreateLog; KIP-858, KAFKA-16234.

use kavka_common::{NodeId, PartitionEpoch, Uuid};
use kavka_metadata::PartitionRegistration;

/// Where the log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into the directory with this id, which works.
    Assigned(Uuid),
    /// Into whichever directory is used least.
    Any,
    /// It may lie in a directory that does not work: an empty one in its place would count for what it does not have.
    Refused,
}

/// `is_live`: a directory with that id works here. `any_offline`: one of `log.dirs` does not work.
pub fn place(
    registration: &PartitionRegistration,
    local: NodeId,
    is_live: impl Fn(Uuid) -> bool,
    any_offline: bool,
) -> Placement {
    let unknown = Uuid::DIR_UNASSIGNED;
    let assigned = registration.directory(local).unwrap_or(unknown);
    if is_live(assigned) {
        return Placement::Assigned(assigned);
    }
    if !any_offline {
        // all directories are here, and it is in none of them: the one that it lay in was taken out or replaced
        return Placement::Any;
    }
    if assigned != Uuid::DIR_UNASSIGNED && assigned != Uuid::DIR_MIGRATING {
        return Placement::Refused;
    }
    // Nobody has told the controller yet where it lies. Whoever is not relied upon may start empty.
    let is_untouched = registration.partition_epoch == PartitionEpoch(0);
    if is_untouched || !is_relied_upon(registration, local) {
        Placement::Any
    } else {
        Placement::Refused
    }
}

/// Whether others count on what this replica holds.
fn is_relied_upon(registration: &PartitionRegistration, local: NodeId) -> bool {
    registration.leader == local
        || [
            &registration.isr,
            &registration.elr,
            &registration.last_known_elr,
        ]
        .into_iter()
        .any(|replicas| replicas.contains(&local))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_protocol::messages::PartitionRecord;

    const LIVE: Uuid = Uuid::from_bytes([1; 16]);
    const DEAD: Uuid = Uuid::from_bytes([2; 16]);

    fn placed(directory: Uuid, isr: &[i32], partition_epoch: i32, any_offline: bool) -> Placement {
        let record = PartitionRecord {
            replicas: vec![1, 2],
            isr: isr.to_vec(),
            leader: isr.first().copied().unwrap_or(-1),
            partition_epoch,
            directories: vec![directory, LIVE],
            ..Default::default()
        };
        let registration = PartitionRegistration::from_record(&record).unwrap();
        place(&registration, NodeId(1), |id| id == LIVE, any_offline)
    }

    #[test]
    fn the_assigned_directory_is_taken_while_it_works() {
        assert_eq!(placed(LIVE, &[1, 2], 5, true), Placement::Assigned(LIVE));
    }

    #[test]
    fn a_replica_of_a_failed_directory_is_not_made_anew_elsewhere() {
        assert_eq!(placed(DEAD, &[1, 2], 5, true), Placement::Refused);
        assert_eq!(placed(DEAD, &[2], 5, true), Placement::Refused);
        assert_eq!(placed(Uuid::DIR_LOST, &[1], 5, true), Placement::Refused);
    }

    #[test]
    fn one_whose_directory_was_replaced_is_made_anew() {
        assert_eq!(placed(DEAD, &[2], 5, false), Placement::Any);
        assert_eq!(placed(Uuid::DIR_LOST, &[2], 5, false), Placement::Any);
    }

    #[test]
    fn without_an_assignment_only_one_that_nobody_relies_upon_starts_empty() {
        let unassigned = Uuid::DIR_UNASSIGNED;
        assert_eq!(placed(unassigned, &[1, 2], 0, true), Placement::Any, "new");
        assert_eq!(placed(unassigned, &[2], 5, true), Placement::Any, "added");
        assert_eq!(placed(unassigned, &[1, 2], 5, true), Placement::Refused);
        assert_eq!(placed(unassigned, &[1, 2], 5, false), Placement::Any);
    }
}
