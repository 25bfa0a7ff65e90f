//! The program; everything is in kavka_tools::log_dirs. Kafka: bin/kafka-log-dirs.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::log_dirs::main(std::env::args_os()))
}
