//! The program; everything is in kavka_tools::cluster. Kafka: bin/kafka-cluster.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::cluster::main(std::env::args_os()))
}
