//! The program; everything is in kavka_tools::consumer_groups. Kafka: bin/kafka-consumer-groups.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::consumer_groups::main(std::env::args_os()))
}
