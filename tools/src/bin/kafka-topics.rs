//! The program; everything is in kavka_tools::topics. Kafka: bin/kafka-topics.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::topics::main(std::env::args_os()))
}
