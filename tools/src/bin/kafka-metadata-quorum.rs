//! The program; everything is in kavka_tools::metadata_quorum. Kafka: bin/kafka-metadata-quorum.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::metadata_quorum::main(std::env::args_os()))
}
