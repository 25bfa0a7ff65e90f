//! The program; everything is in kavka_tools::broker_api_versions. Kafka: bin/kafka-broker-api-versions.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::broker_api_versions::main(std::env::args_os()))
}
