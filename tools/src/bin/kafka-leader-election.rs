//! The program; everything is in kavka_tools::leader_election. Kafka: bin/kafka-leader-election.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::leader_election::main(std::env::args_os()))
}
