//! Command lines in the style of argparse4j: subcommands, `-c X`, `-cX`, `--config X`, `--config=X`, and its complaints.
//! Not here: jopt-simple's style (the parent module).
//! Pure; runs before anything else of a tool starts. Kafka: net.sourceforge.argparse4j.

/// Messages are set in lines of this length.
const WIDTH: usize = 75;
const HELP_COLUMN: usize = 25;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// With dashes, the long name first: `--config`, `-c`.
    pub names: &'static [&'static str],
    /// What the value is called; `None`: a flag.
    pub value: Option<&'static str>,
    pub required: bool,
    /// Options of one non-zero group exclude each other.
    pub group: u8,
    pub help: &'static str,
}

impl Arg {
    pub const fn flag(names: &'static [&'static str], help: &'static str) -> Arg {
        Arg {
            names,
            value: None,
            required: false,
            group: 0,
            help,
        }
    }

    pub const fn option(
        names: &'static [&'static str],
        value: &'static str,
        help: &'static str,
    ) -> Arg {
        Arg {
            value: Some(value),
            ..Arg::flag(names, help)
        }
    }

    pub const fn required(self) -> Arg {
        Arg {
            required: true,
            ..self
        }
    }

    pub const fn group(self, group: u8) -> Arg {
        Arg { group, ..self }
    }

    /// Its lines in a help.
    pub fn entry(&self) -> String {
        let names: Vec<String> = self
            .names
            .iter()
            .map(|name| match self.value {
                Some(value) => format!("{name} {value}"),
                None => (*name).to_owned(),
            })
            .collect();
        entry(&names.join(", "), self.help)
    }

    fn title(&self) -> String {
        self.names.join("/")
    }
}

/// A program, or one of its subcommands.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub program: &'static str,
    /// With its line breaks, without the last.
    pub usage: &'static str,
    pub args: &'static [Arg],
}

/// What the command line did not say well, or what it asked for instead of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Usage and complaint for standard error, status 1.
    Refused(String),
    /// Help for standard output, status 0.
    Help(String),
}

/// Values by long name, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, Option<String>)>);

impl Values {
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// The last value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// Every value of an option, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(known, _)| *known == name)
            .filter_map(|(_, value)| value.as_deref())
    }
}

impl Command {
    /// Usage, then the complaint, as argparse4j sets them.
    pub fn refuse(&self, complaint: &str) -> Problem {
        let text = justify(&format!("{}: error: {complaint}", self.program), WIDTH);
        Problem::Refused(format!("{}\n{text}\n", self.usage))
    }

    /// Takes the arguments after the subcommand's name.
    pub fn parse(&self, arguments: &[String]) -> Result<Values, Problem> {
        let (values, rest) = self.take(arguments)?;
        if let Some(token) = rest.first() {
            return Err(self.refuse(&format!("unrecognized arguments: '{token}'")));
        }
        self.check_required(&values)?;
        Ok(values)
    }

    /// Takes the arguments before a subcommand's name, which is one of `names`, and gives back the rest from the name on.
    /// Whether the options before it are complete is for `check_required`, after the subcommand's own.
    pub fn parse_before<'a>(
        &self,
        names: &[&'static str],
        arguments: &'a [String],
    ) -> Result<(Values, &'static str, &'a [String]), Problem> {
        let (values, rest) = self.take(arguments)?;
        let Some((name, rest)) = rest.split_first() else {
            return Err(self.refuse("too few arguments"));
        };
        match names.iter().find(|known| *known == name) {
            Some(known) => Ok((values, known, rest)),
            None => {
                let known: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
                Err(self.refuse(&format!(
                    "invalid choice: '{name}' (choose from {})",
                    known.join(", ")
                )))
            }
        }
    }

    /// Options up to the first argument that is none.
    fn take<'a>(&self, arguments: &'a [String]) -> Result<(Values, &'a [String]), Problem> {
        let mut values = Values::default();
        let mut rest = arguments.iter();
        while let Some(token) = rest.as_slice().first() {
            if !token.starts_with('-') || token == "-" {
                break;
            }
            rest.next();
            if token == "-h" || token == "--help" {
                return Err(Problem::Help(self.help()));
            }
            let Some((arg, attached)) = self.find(token) else {
                return Err(self.refuse(&format!("unrecognized arguments: '{token}'")));
            };
            let excluded = self.args.iter().find(|other| {
                arg.group != 0
                    && other.group == arg.group
                    && other.names[0] != arg.names[0]
                    && values.has(other.names[0])
            });
            if let Some(other) = excluded {
                return Err(self.refuse(&format!(
                    "argument {}: not allowed with argument {}",
                    arg.title(),
                    other.title()
                )));
            }
            let value = match arg.value {
                None => None,
                Some(_) => match attached.or_else(|| {
                    rest.as_slice().first().filter(|next| is_value(next))?;
                    rest.next().cloned()
                }) {
                    Some(value) => Some(value),
                    None => {
                        return Err(self
                            .refuse(&format!("argument {}: expected one argument", arg.title())));
                    }
                },
            };
            values.0.push((arg.names[0], value));
        }
        Ok((values, rest.as_slice()))
    }

    /// Complains about what is missing; of a group with required options, one must be there.
    pub fn check_required(&self, values: &Values) -> Result<(), Problem> {
        for arg in self.args.iter().filter(|arg| arg.required) {
            if arg.group == 0 {
                if !values.has(arg.names[0]) {
                    return Err(self.refuse(&format!("argument {} is required", arg.title())));
                }
                continue;
            }
            let group = || self.args.iter().filter(|other| other.group == arg.group);
            if !group().any(|other| values.has(other.names[0])) {
                let titles: Vec<String> = group().map(Arg::title).collect();
                return Err(self.refuse(&format!(
                    "one of the arguments {} is required",
                    titles.join(" ")
                )));
            }
        }
        Ok(())
    }

    /// The value of an option as Java's Integer.
    pub fn int(&self, values: &Values, name: &str) -> Result<Option<i32>, Problem> {
        let Some(text) = values.value(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            let arg = self.args.iter().find(|arg| arg.names.contains(&name));
            let title = arg.map(Arg::title).unwrap_or_default();
            self.refuse(&format!(
                "argument {title}: could not convert '{text}' to Integer (For input string: \"{text}\")"
            ))
        })
    }

    fn find(&self, token: &str) -> Option<(&'static Arg, Option<String>)> {
        let by_name = |name: &str| self.args.iter().find(|arg| arg.names.contains(&name));
        if let Some(arg) = by_name(token) {
            return Some((arg, None));
        }
        if token.starts_with("--") {
            let (name, value) = token.split_once('=')?;
            let arg = by_name(name).filter(|arg| arg.value.is_some())?;
            return Some((arg, Some(value.to_owned())));
        }
        let short = token.get(..2).filter(|short| short.starts_with('-'))?;
        let arg = by_name(short).filter(|arg| arg.value.is_some())?;
        Some((arg, Some(token[2..].trim_start_matches('=').to_owned())))
    }

    fn help(&self) -> String {
        let mut out = format!("{}\n\noptional arguments:\n", self.usage);
        out.push_str(&entry("-h, --help", "show this help message and exit"));
        for arg in self.args {
            out.push_str(&arg.entry());
        }
        out
    }
}

/// What begins with a dash is an option, unless it is that dash alone or a number.
fn is_value(token: &str) -> bool {
    token
        .strip_prefix('-')
        .is_none_or(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The list of subcommands in a program's help.
pub fn subcommands(list: &[(&str, &str)]) -> String {
    let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
    let mut out = format!("positional arguments:\n  {{{}}}\n", names.join(","));
    for (name, description) in list {
        out.push_str(&entry(&format!("  {name}"), description));
    }
    out
}

/// An option and its description beside it, or below when it is long.
pub fn entry(left: &str, description: &str) -> String {
    let mut out = format!("  {left}");
    let text = justify(description, WIDTH - HELP_COLUMN);
    if out.chars().count() + 2 > HELP_COLUMN {
        out.push_str(&format!("\n{:HELP_COLUMN$}", ""));
    } else {
        out.push_str(&" ".repeat(HELP_COLUMN - out.chars().count()));
    }
    out.push_str(&text.replace('\n', &format!("\n{:HELP_COLUMN$}", "")));
    out.push('\n');
    out
}

/// Lines of `width` characters, all but the last filled up between their words: every gap takes the same share, and
/// what is left goes to the gaps in the middle. A word may be broken behind a hyphen.
pub fn justify(text: &str, width: usize) -> String {
    let mut lines: Vec<Vec<String>> = vec![Vec::new()];
    let mut length = 0;
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let cut = pieces(word);
        for (at, piece) in cut.iter().copied().enumerate() {
            let size = piece.chars().count();
            // The blank behind a word needs room, too, although nobody sees it at the end of a line.
            let blank = usize::from(at + 1 == cut.len() && words.peek().is_some());
            let line = lines.last_mut().expect("there is always a line");
            let gap = usize::from(at == 0 && !line.is_empty());
            if !line.is_empty() && length + gap + size + blank > width {
                lines.push(vec![piece.to_owned()]);
                length = size;
                continue;
            }
            length += gap + size;
            match line.last_mut().filter(|_| at > 0) {
                Some(begun) => begun.push_str(piece),
                None => line.push(piece.to_owned()),
            }
        }
    }
    let last = lines.len() - 1;
    let set: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(at, words)| {
            let gaps = words.len() - 1;
            if at == last || gaps == 0 {
                return words.join(" ");
            }
            let letters: usize = words.iter().map(|word| word.chars().count()).sum();
            let blanks = width.saturating_sub(letters).max(gaps);
            let (share, left) = (blanks / gaps, blanks % gaps);
            let first = (gaps - left).div_ceil(2);
            let mut line = words[0].clone();
            for (gap, word) in words[1..].iter().enumerate() {
                let more = usize::from((first..first + left).contains(&gap));
                line.push_str(&" ".repeat(share + more));
                line.push_str(word);
            }
            line
        })
        .collect();
    set.join("\n")
}

/// A word cut where a line may end: between a hyphen and a letter.
fn pieces(word: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, pair) in word.as_bytes().windows(2).enumerate() {
        if pair[0] == b'-' && pair[1].is_ascii_alphabetic() {
            out.push(&word[start..=at]);
            start = at + 1;
        }
    }
    out.push(&word[start..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Command = Command {
        program: "tool",
        usage: "usage: tool [-h] --config CONFIG",
        args: &[
            Arg::option(&["--config", "-c"], "CONFIG", "The file.").required(),
            Arg::option(&["--feature", "-f"], "FEATURE", "A level."),
            Arg::flag(&["--standalone", "-s"], "Alone.").group(1),
            Arg::flag(&["--no-initial-controllers", "-N"], "None.").group(1),
        ],
    };

    fn parse(line: &str) -> Result<Values, Problem> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        COMMAND.parse(&words)
    }

    fn complaint(line: &str) -> String {
        match parse(line).unwrap_err() {
            Problem::Refused(text) => text.split_once("error: ").unwrap().1.trim().to_owned(),
            Problem::Help(text) => text,
        }
    }

    #[test]
    fn values_in_every_spelling() {
        for line in ["--config x", "--config=x", "-c x", "-cx", "-c=x"] {
            assert_eq!(parse(line).unwrap().value("--config"), Some("x"), "{line}");
        }
        let values = parse("-c x -f a=1 -f b=2 -s").unwrap();
        assert_eq!(values.all("--feature").collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert!(values.has("--standalone"));
    }

    #[test]
    fn complaints_are_argparse4js() {
        assert_eq!(complaint("-s"), "argument --config/-c is required");
        assert_eq!(
            complaint("-c"),
            "argument --config/-c: expected one argument"
        );
        assert_eq!(
            complaint("-c -s"),
            "argument --config/-c: expected one argument"
        );
        assert_eq!(complaint("-c x -x"), "unrecognized arguments: '-x'");
        assert_eq!(complaint("-c x more"), "unrecognized arguments: 'more'");
        assert!(complaint("-h").contains("optional arguments:"));
    }

    /// Lines that kafka-storage.sh printed.
    #[test]
    fn lines_are_filled_up_between_words() {
        assert_eq!(
            justify(
                "kafka-storage: error: argument --no-initial-controllers/-N: not allowed with argument --standalone/-s",
                75
            ),
            "kafka-storage: error:  argument  --no-initial-controllers/-N:  not  allowed\nwith argument --standalone/-s"
        );
        assert_eq!(
            justify(
                "kafka-storage: error: invalid choice: 'nonsense' (choose from 'info', 'format', 'version-mapping', 'feature-dependencies', 'random-uuid')",
                75
            ),
            "kafka-storage: error:  invalid  choice:  'nonsense'  (choose  from  'info',\n'format', 'version-mapping', 'feature-dependencies', 'random-uuid')"
        );
    }

    /// Lines that kafka-cluster.sh and kafka-metadata-quorum.sh printed.
    #[test]
    fn words_are_broken_behind_hyphens() {
        for (text, set) in [
            (
                "kafka-cluster: error: one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required",
                "kafka-cluster:  error:  one  of   the  arguments  --bootstrap-server/-b  --\nbootstrap-controller/-C is required",
            ),
            (
                "kafka-cluster: error: invalid choice: 'nonsense' (choose from 'cluster-id', 'unregister', 'list-endpoints')",
                "kafka-cluster: error: invalid  choice:  'nonsense'  (choose  from 'cluster-\nid', 'unregister', 'list-endpoints')",
            ),
            (
                "kafka-metadata-quorum: error: one of the arguments --bootstrap-server --bootstrap-controller is required",
                "kafka-metadata-quorum: error: one  of  the  arguments --bootstrap-server --\nbootstrap-controller is required",
            ),
            (
                "kafka-metadata-quorum: error: argument --controller-directory-id/-d is required",
                "kafka-metadata-quorum:  error:  argument   --controller-directory-id/-d  is\nrequired",
            ),
        ] {
            assert_eq!(justify(text, 75), set);
        }
    }

    #[test]
    fn options_may_come_before_a_subcommand() {
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        const ROOT: Command = Command {
            program: "tool",
            usage: "usage: tool",
            args: &[
                Arg::option(&["--server", "-b"], "S", "")
                    .group(1)
                    .required(),
                Arg::option(&["--controller"], "C", "").group(1).required(),
            ],
        };
        let line = words("-b x describe --status");
        let (values, name, rest) = ROOT.parse_before(&["describe"], &line).unwrap();
        assert_eq!(
            (values.value("--server"), name, rest),
            (Some("x"), "describe", &line[3..])
        );
        assert_eq!(ROOT.check_required(&values), Ok(()));
        let refused = |problem| match problem {
            Problem::Refused(text) => text,
            Problem::Help(text) => text,
        };
        let (values, _, _) = ROOT.parse_before(&["describe"], &line[2..]).unwrap();
        assert!(
            refused(ROOT.check_required(&values).unwrap_err())
                .contains("one of the arguments --server/-b --controller is required")
        );
        for (line, told) in [
            ("-b x", "too few arguments"),
            (
                "-b x nonsense",
                "invalid choice: 'nonsense' (choose from 'describe')",
            ),
            (
                "-b x --controller y describe",
                "argument --controller: not allowed with argument --server/-b",
            ),
        ] {
            let line = words(line);
            let problem = ROOT.parse_before(&["describe"], &line).unwrap_err();
            assert!(refused(problem).replace('\n', " ").contains(told), "{told}");
        }
    }

    #[test]
    fn a_number_may_be_negative() {
        const COMMAND: Command = Command {
            program: "tool",
            usage: "usage: tool",
            args: &[Arg::option(&["--id", "-i"], "ID", "")],
        };
        let int = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let values = COMMAND.parse(&words)?;
            COMMAND.int(&values, "--id")
        };
        assert_eq!(int(&["--id", "-1"]), Ok(Some(-1)));
        assert_eq!(int(&[]), Ok(None));
        assert!(int(&["-i", "x"]).is_err());
    }
}
