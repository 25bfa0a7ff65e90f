//! The program; everything is in kavka_tools::replica_verification. Kafka: bin/kafka-replica-verification.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::replica_verification::main(std::env::args_os()))
}
