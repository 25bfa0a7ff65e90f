//! Where the programs are started from: a folder with spaces, a link, the search path, another directory.
//! Not here: what they do then (walkthrough_kraft).
//! Kafka: bin/*.sh, where each of these has failed its users; wishes.md.

use crate::walkthrough_kraft::{all_there, first_steps};
use kavka_testkit::sandbox::{built_programs, workspace};
use kavka_testkit::{Broker, Sandbox, run};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A copy of `bin/` and `config/`, with the programs in `libexec/`, as a release is laid out.
fn install(home: &Path) {
    for folder in ["bin", "config", "config/kraft", "libexec"] {
        std::fs::create_dir_all(home.join(folder)).expect("a folder");
    }
    for folder in ["bin", "config", "config/kraft"] {
        for file in std::fs::read_dir(workspace().join(folder)).expect("a folder") {
            let file = file.expect("a file").path();
            if file.is_file() {
                let name = file.file_name().expect("a name");
                // copies its permissions, too
                std::fs::copy(&file, home.join(folder).join(name)).expect("a copy");
            }
        }
    }
    for program in std::fs::read_dir(built_programs()).expect("a folder") {
        let program = program.expect("a file").path();
        let name = program.file_name().expect("a name").to_owned();
        let is_program = name.to_str().is_some_and(|name| {
            (name.starts_with("kafka-") || name.starts_with("zookeeper-")) && !name.contains('.')
        });
        if is_program {
            symlink(&program, home.join("libexec").join(name)).expect("a link");
        }
    }
}

/// A sandbox whose programs lie in `name` inside it.
pub(crate) fn installed(name: &str) -> Sandbox {
    let mut sandbox = Sandbox::new();
    let home = sandbox.path(name);
    install(&home);
    sandbox.home = home;
    sandbox.programs = None;
    sandbox
}

fn walk_through(sandbox: &Sandbox, broker: &Broker) {
    let server = broker.start(sandbox);
    first_steps(sandbox, broker);
    sandbox.tool("kafka-server-stop", &[]).success();
    assert_eq!(server.ended().code(), Some(143), "{}", server.output());
    let _server = broker.start(sandbox);
    all_there(sandbox, broker);
}

#[test]
fn from_a_folder_with_spaces_and_data_in_another() {
    let sandbox = installed("my own kafka (new) $HOME 'x'");
    let broker = Broker::combined(&sandbox, "data with  spaces");
    walk_through(&sandbox, &broker);
}

#[test]
fn through_links_to_the_scripts_and_to_their_folder() {
    let mut sandbox = installed("releases/kafka-4.3");
    let links = sandbox.path("links");
    std::fs::create_dir_all(&links).expect("a folder");
    symlink("../releases/kafka-4.3", links.join("kafka")).expect("a link");
    let real = sandbox.home.clone();
    sandbox.home = links.join("kafka");
    let broker = sandbox.broker();
    walk_through(&sandbox, &broker);

    // one script linked from elsewhere, as package managers do; by way of a second, relative link
    symlink(real.join("bin/kafka-topics.sh"), links.join("inner")).expect("a link");
    symlink("inner", links.join("kafka-topics.sh")).expect("a link");
    let mut command = Command::new(links.join("kafka-topics.sh"));
    sandbox.adopt(&mut command);
    let said = run(command.arg("--version"), "").success();
    assert!(said.starts_with("4.3"), "{said}");

    // all scripts through a link to their folder, under its own name or another, from there and from elsewhere
    for name in ["bin", "commands"] {
        symlink(real.join("bin"), links.join(name)).expect("a link");
        let inside = links.join(name);
        for (script, directory) in [
            (inside.join("kafka-topics.sh"), Path::new("/")),
            (Path::new(name).join("kafka-topics.sh"), &*links),
            ("./kafka-topics.sh".into(), &*inside),
        ] {
            let mut command = Command::new(script);
            sandbox.adopt(&mut command);
            let said = run(command.current_dir(directory).arg("--version"), "").success();
            assert!(said.starts_with("4.3"), "{said}");
        }
    }
}

/// librdkafka cannot be built below such a folder, so the build happens elsewhere, and its programs are found.
#[test]
fn the_first_call_builds_outside_a_folder_with_spaces() {
    let sandbox = installed("my own kafka (new) $HOME 'x'");
    let home = &sandbox.home;
    let programs = sandbox.path("programs");
    std::fs::rename(home.join("libexec"), &programs).expect("a folder");
    std::fs::create_dir_all(home.join("scripts")).expect("a folder");
    for script in ["build", "target-folder"] {
        std::fs::copy(
            workspace().join("scripts").join(script),
            home.join("scripts").join(script),
        )
        .expect("a copy");
    }
    // a cargo that has everything built already
    let tools = sandbox.path("tools");
    let cargo = tools.join("cargo");
    std::fs::create_dir_all(&tools).expect("a folder");
    std::fs::write(
        &cargo,
        "#!/bin/sh\necho \"built in $CARGO_TARGET_DIR\"\nmkdir -p \"$CARGO_TARGET_DIR\"\n\
         ln -s \"$PROGRAMS\" \"$CARGO_TARGET_DIR/release\"\n",
    )
    .expect("a file");
    std::fs::set_permissions(&cargo, Permissions::from_mode(0o755)).expect("its mode");
    let search_path = format!(
        "{}:{}",
        tools.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let cache = sandbox.path("cache");
    let version = || {
        let mut command = sandbox.script("kafka-topics");
        command
            .env("PATH", &search_path)
            .env("PROGRAMS", &programs)
            .env("XDG_CACHE_HOME", &cache);
        run(command.arg("--version"), "")
    };
    let first = version();
    let wanted = format!("built in {}/kavka/target-", cache.display());
    assert!(first.stderr.contains(&wanted), "{}", first.stderr);
    assert!(first.success().starts_with("4.3"));
    let second = version();
    assert_eq!(second.stderr, "", "built once");
    assert!(second.success().starts_with("4.3"));

    // products of the time before the folder got its name cannot be built on
    std::fs::remove_file(home.join("target")).expect("a link");
    std::fs::create_dir(home.join("target")).expect("a folder");
    let said = version().failure();
    assert!(said.contains("rm -r target"), "{said}");
}

#[test]
fn every_program_tells_its_version() {
    let sandbox = Sandbox::new();
    for script in [
        "kafka-server-start",
        "kafka-server-stop",
        "zookeeper-server-start",
        "zookeeper-server-stop",
        "kafka-storage",
        "kafka-topics",
    ] {
        let said = sandbox.tool(script, &["--version"]).success();
        assert!(said.starts_with("4.3"), "{script}: {said}");
    }
}

#[test]
fn by_the_search_path_and_from_any_directory() {
    let sandbox = installed("kafka");
    let bin = sandbox.home.join("bin");
    let search_path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let version = |program: &str, directory: &Path| {
        let mut command = Command::new(program);
        sandbox.adopt(&mut command);
        command.current_dir(directory).env("PATH", &search_path);
        run(command.arg("--version"), "").success()
    };
    // the shell looks a script up by PATH, and `sh kafka-topics.sh` gives it no folder at all
    let mut by_shell = Command::new("sh");
    sandbox.adopt(&mut by_shell);
    by_shell.current_dir("/").env("PATH", &search_path);
    let said = run(by_shell.args(["-c", "kafka-topics.sh --version"]), "").success();
    assert!(said.starts_with("4.3"), "{said}");
    let mut without_folder = Command::new("sh");
    sandbox.adopt(&mut without_folder);
    let said = run(
        without_folder
            .current_dir(&bin)
            .args(["kafka-topics.sh", "--version"]),
        "",
    )
    .success();
    assert!(said.starts_with("4.3"), "{said}");
    assert!(version("./kafka-topics.sh", &bin).starts_with("4.3"));
    assert!(version("bin/kafka-topics.sh", &sandbox.home).starts_with("4.3"));
    assert!(version("../bin/kafka-topics.sh", &sandbox.home.join("config")).starts_with("4.3"));
}

#[test]
fn a_missing_program_is_named_with_the_way_out() {
    let mut sandbox = installed("kafka");
    let nowhere = sandbox.path("nowhere");
    std::fs::create_dir_all(&nowhere).expect("a folder");
    sandbox.programs = Some(nowhere.clone());
    let said = sandbox.tool("kafka-topics", &["--version"]).failure();
    assert!(said.contains("kafka-topics: KAVKA_BIN is"), "{said}");
    assert!(said.contains("scripts/build"), "{said}");

    sandbox.programs = None;
    std::fs::remove_dir_all(sandbox.home.join("libexec")).expect("a folder");
    let said = sandbox.tool("kafka-topics", &["--version"]).failure();
    assert!(said.contains("no built program"), "{said}");
    // nothing to build there, so Rust would not help
    assert!(said.contains("scripts/build"), "{said}");
    assert!(!said.contains("Install Rust"), "{said}");
}
