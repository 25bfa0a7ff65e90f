//! The program; everything is in kavka_tools::storage. Kafka: bin/kafka-storage.sh.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kavka_tools::output::checked(kavka_tools::storage::main(std::env::args_os()))
}
