//! The program; everything is in kavka_tools::features. Kafka: bin/kafka-features.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::features::main(std::env::args_os()))
}
