//! `simulate [--first SEED] [--threads N] [--guard NAME] [--print] COUNT`: runs schedules and says what they came to.
//! Not here: a schedule (run.rs).
//! One schedule per thread at a time; the order in which they end does not matter. scripts/sim starts it. Kafka: none.

use kavka_common::Guard;
use kavka_sim::{Stats, run};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Arguments {
    first: u64,
    count: u64,
    threads: usize,
    guard: Option<Guard>,
    print: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        first: 1,
        count: 1_000,
        threads: 1,
        guard: None,
        print: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<u64>()
                .map_err(|_| format!("{text} is no number"))
        };
        match &*word {
            "--first" => parsed.first = number(value()?)?,
            "--threads" => {
                parsed.threads = usize::try_from(number(value()?)?).unwrap_or(1).max(1);
            }
            "--guard" => {
                let name = value()?;
                let guard = Guard::ALL.into_iter().find(|g| format!("{g:?}") == name);
                parsed.guard =
                    Some(guard.ok_or(format!("no guard {name}; there are {:?}", Guard::ALL))?);
            }
            "--print" => parsed.print = true,
            count => parsed.count = number(count.to_owned())?,
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("simulate: {message}");
            return ExitCode::FAILURE;
        }
    };
    // a panic of a core is a violation, and is told with its seed
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicU64::new(arguments.first);
    let end = arguments.first + arguments.count;
    let failed = AtomicBool::new(false);
    let total = Mutex::new(Stats::default());
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = run(seed, arguments.guard, arguments.print);
                    if let Some(violation) = outcome.violation {
                        failed.store(true, Ordering::Relaxed);
                        println!("seed {seed}: {violation}");
                    }
                    if let Ok(mut total) = total.lock() {
                        total.add(&outcome.stats);
                    }
                }
            });
        }
    });
    if let Ok(total) = total.into_inner() {
        println!("{total}");
    }
    if failed.into_inner() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
