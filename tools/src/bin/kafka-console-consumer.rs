//! The program; everything is in kavka_tools::console_consumer. Kafka: bin/kafka-console-consumer.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::console_consumer::main(std::env::args_os()))
}
