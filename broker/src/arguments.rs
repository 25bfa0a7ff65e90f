//! The command line of the server programs, as Kafka's scripts and its main class take it together.
//! Not here: reading the properties file, acting on the result (program.rs).
//! Pure; runs before any thread exists.
//! Kafka: bin/kafka-server-start.sh, bin/kafka-run-class.sh, kafka.Kafka.getPropsFromArgs.

use std::path::PathBuf;

/// What the user asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Start(StartArguments),
    Version,
    Help,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartArguments {
    pub properties_file: PathBuf,
    /// `--override key=value`, in order.
    pub overrides: Vec<(String, String)>,
    /// Leave the terminal; see daemon.rs.
    pub daemon: bool,
    /// `-name`: the stem of the console output file of a daemon.
    pub name: Option<String>,
}

/// The command line is not understood.
#[derive(Debug, PartialEq, Eq)]
pub enum ArgumentError {
    /// No properties file: only the usage is printed.
    NoPropertiesFile,
    /// Printed in front of the usage.
    Usage(String),
    /// Printed like the exception of Kafka's option parser.
    Option {
        exception: &'static str,
        message: String,
    },
}

/// Parses the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Command, ArgumentError> {
    if arguments.iter().any(|a| a == "--help" || a == "-help") {
        return Ok(Command::Help);
    }
    if arguments
        .iter()
        .any(|a| a == "--version" || a == "-version")
    {
        return Ok(Command::Version);
    }
    let mut start = StartArguments::default();
    let mut files = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-daemon" | "--daemon" => start.daemon = true,
            // Garbage collection logs have no counterpart; scripts pass the flag on.
            "-loggc" => {}
            "-name" => start.name = Some(required(rest.next(), "name")?),
            option if option.starts_with('-') && option.len() > 1 => {
                let bare = option.trim_start_matches('-');
                let (name, inline) = match bare.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (bare, None),
                };
                if name != "override" {
                    return Err(ArgumentError::Option {
                        exception: "joptsimple.UnrecognizedOptionException",
                        message: format!("{name} is not a recognized option"),
                    });
                }
                let pair = match inline {
                    Some(value) => value,
                    None => required(rest.next(), "override")?,
                };
                start.overrides.push(key_and_value(&pair)?);
            }
            file => files.push(file.to_owned()),
        }
    }
    let mut files = files.into_iter();
    let Some(file) = files.next() else {
        return Err(ArgumentError::NoPropertiesFile);
    };
    let stray: Vec<String> = files.collect();
    if !stray.is_empty() {
        return Err(ArgumentError::Usage(format!(
            "Found non argument parameters: {}",
            stray.join(",")
        )));
    }
    start.properties_file = file.into();
    Ok(Command::Start(start))
}

fn required(argument: Option<&String>, option: &str) -> Result<String, ArgumentError> {
    argument.cloned().ok_or_else(|| ArgumentError::Option {
        exception: "joptsimple.OptionMissingRequiredArgumentException",
        message: format!("Option {option} requires an argument"),
    })
}

/// `key=value`; a key alone gets an empty value, as in Kafka.
fn key_and_value(pair: &str) -> Result<(String, String), ArgumentError> {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if key.is_empty() {
        return Err(ArgumentError::Option {
            exception: "java.lang.IllegalArgumentException",
            message: format!("Invalid command line properties: {pair}"),
        });
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, ArgumentError> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&arguments)
    }

    #[test]
    fn the_file_and_its_overrides() {
        assert_eq!(
            parsed(
                "-daemon -name kafkaServer -loggc s.properties --override a=b --override=c=d=e --override f"
            ),
            Ok(Command::Start(StartArguments {
                properties_file: "s.properties".into(),
                overrides: vec![
                    ("a".into(), "b".into()),
                    ("c".into(), "d=e".into()),
                    ("f".into(), String::new()),
                ],
                daemon: true,
                name: Some("kafkaServer".into()),
            }))
        );
    }

    #[test]
    fn help_and_version_win() {
        assert_eq!(parsed("--version"), Ok(Command::Version));
        assert_eq!(parsed("s.properties --help"), Ok(Command::Help));
    }

    #[test]
    fn refusals_have_kafkas_words() {
        assert_eq!(parsed(""), Err(ArgumentError::NoPropertiesFile));
        assert_eq!(
            parsed("s.properties stray more"),
            Err(ArgumentError::Usage(
                "Found non argument parameters: stray,more".into()
            ))
        );
        let option = |line: &str| match parsed(line) {
            Err(ArgumentError::Option { exception, message }) => format!("{exception}: {message}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            option("s.properties --override"),
            "joptsimple.OptionMissingRequiredArgumentException: Option override requires an argument"
        );
        assert_eq!(
            option("s.properties --nonsense"),
            "joptsimple.UnrecognizedOptionException: nonsense is not a recognized option"
        );
        assert_eq!(
            option("s.properties --override =v"),
            "java.lang.IllegalArgumentException: Invalid command line properties: =v"
        );
    }
}
