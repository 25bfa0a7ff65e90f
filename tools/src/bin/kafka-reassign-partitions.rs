//! The program; everything is in kavka_tools::reassign_partitions. Kafka: bin/kafka-reassign-partitions.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::reassign_partitions::main(std::env::args_os()))
}
