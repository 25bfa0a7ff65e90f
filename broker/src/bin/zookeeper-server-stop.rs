//! The `zookeeper-server-stop` program. Everything is in the library: see `kavka_broker::stop_program`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kavka_broker::stop_program::main(kavka_broker::program::Program::ZooKeeperServer)
}
