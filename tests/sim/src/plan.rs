//! What one schedule is made of: sizes, rates and which faults it knows, all drawn from the seed.
//! Not here: carrying the faults out (faults.rs).
//! Plain data. Each schedule knows only some faults ("swarm"): with all of them at once the rare sequences drown.

use kavka_controller::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The process dies, the page cache lives.
    KillBroker,
    /// The machine dies: what was not fsynced is gone.
    PowerLossBroker,
    /// The machine dies in the middle of one of the next disk operations.
    CrashInDiskStep,
    /// One of the next disk operations fails.
    DiskError,
    /// SIGTERM: leaderships are handed over first.
    StopBroker,
    PauseBroker,
    KillController,
    PauseController,
    /// One node is cut off from all others, or can only hear, or only speak.
    Isolate,
    /// Two groups that see each other only through one node.
    Bridge,
    /// One pair is cut, in one direction or both.
    CutPair,
    /// A broker loses the controllers only.
    CutFromControllers,
    Reassign,
    CancelReassignment,
    ElectPreferred,
    /// A broker is unregistered while it is down; it comes back as a new one.
    Unregister,
    /// The controller that has just voted loses power.
    CrashAfterVote,
}

pub const FAULTS: [FaultKind; 17] = [
    FaultKind::KillBroker,
    FaultKind::PowerLossBroker,
    FaultKind::CrashInDiskStep,
    FaultKind::DiskError,
    FaultKind::StopBroker,
    FaultKind::PauseBroker,
    FaultKind::KillController,
    FaultKind::PauseController,
    FaultKind::Isolate,
    FaultKind::Bridge,
    FaultKind::CutPair,
    FaultKind::CutFromControllers,
    FaultKind::Reassign,
    FaultKind::CancelReassignment,
    FaultKind::ElectPreferred,
    FaultKind::Unregister,
    FaultKind::CrashAfterVote,
];

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub controllers: i32,
    pub brokers: i32,
    pub partitions: i32,
    pub replication_factor: i16,
    pub min_isr: i32,
    pub producers: i32,
    pub consumers: i32,
    /// How long faults happen.
    pub chaos_ms: i64,
    /// How long a healed cluster may take until everything is well again.
    pub heal_ms_max: i64,
    pub faults: Vec<FaultKind>,
    pub fault_interval_ms: i64,
    pub delay_ms_max: i64,
    pub drop_permille: usize,
    pub late_permille: usize,
    pub duplicate_permille: usize,
    pub produce_interval_ms: i64,
    pub flush_interval_ms: i64,
    pub session_timeout_ms: i64,
    pub replica_lag_ms_max: i64,
    /// Metadata as a snapshot and a tail rather than from the log's start, per mille of fetches from 0.
    pub snapshot_permille: usize,
    pub segment_bytes: u32,
    /// How far apart controllers lose their patience with a leader: close together they stand at the same time.
    pub election_spread_ms: i64,
}

impl Plan {
    pub fn from_seed(seed: u64) -> Plan {
        let mut bytes = [0x5a; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let random = &mut Random::from_seed(bytes);
        // the first numbers of neighbouring seeds are alike
        for _ in 0..8 {
            random.next_u64();
        }
        let pick = |random: &mut Random, of: &[i64]| of[random.below(of.len())];
        let small = |n: i64| i32::try_from(n).unwrap_or(1);
        let permille = |n: i64| usize::try_from(n).unwrap_or(0);
        let brokers = small(pick(random, &[3, 3, 4, 5]));
        let faults = FAULTS.into_iter().filter(|_| random.below(3) > 0).collect();
        let full_size = random.below(4) > 0;
        Plan {
            seed,
            controllers: small(pick(random, &[1, 3, 3, 3, 5])),
            brokers,
            partitions: small(pick(random, &[1, 2, 3])),
            replication_factor: 3,
            min_isr: if full_size { 2 } else { 1 },
            producers: small(pick(random, &[1, 2, 2])),
            consumers: 1,
            chaos_ms: pick(random, &[4_000, 6_000, 8_000]),
            heal_ms_max: 20_000,
            faults,
            fault_interval_ms: pick(random, &[150, 300, 600, 1_200]),
            delay_ms_max: pick(random, &[2, 5, 20, 60]),
            drop_permille: permille(pick(random, &[0, 0, 5, 30, 80])),
            late_permille: permille(pick(random, &[0, 5, 20, 50])),
            duplicate_permille: permille(pick(random, &[0, 5, 20, 80])),
            produce_interval_ms: pick(random, &[20, 60, 150]),
            flush_interval_ms: pick(random, &[100, 400, 1_000_000]),
            session_timeout_ms: pick(random, &[400, 900]),
            replica_lag_ms_max: pick(random, &[300, 800]),
            snapshot_permille: permille(pick(random, &[0, 300, 1_000])),
            segment_bytes: u32::try_from(pick(random, &[400, 2_000, 1 << 20])).unwrap_or(1 << 20),
            election_spread_ms: pick(random, &[250, 250, 40]),
        }
    }
}
