//! The `kafka-server-start` program. Everything is in the library: see `kavka_broker::program`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kavka_broker::program::main(kavka_broker::program::Program::KafkaServer)
}
