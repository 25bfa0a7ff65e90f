//! The table of options in jopt-simple's layout: two columns, 80 characters, continuation lines indented by two.
//! Not here: the options themselves. Pure.
//! Kafka: joptsimple.BuiltinHelpFormatter.

use super::spec::{Argument, Spec};

const WIDTH: usize = 80;
const SEPARATOR: usize = 2;
const INDENT: &str = "  ";

pub(super) fn table(specs: &[Spec]) -> String {
    let any_required = specs.iter().any(|s| s.required);
    let heading = if any_required {
        "Option (* = required)"
    } else {
        "Option"
    };
    let mut sorted: Vec<&Spec> = specs.iter().collect();
    sorted.sort_by_key(|s| s.names.iter().min());
    let mut rows = vec![
        (heading.to_owned(), "Description".to_owned()),
        ("-".repeat(heading.len()), "-".repeat("Description".len())),
    ];
    rows.extend(sorted.iter().map(|s| (left(s), right(s))));

    let widest = |column: fn(&(String, String)) -> &String| {
        rows.iter()
            .flat_map(|row| column(row).lines().map(|l| l.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let left_width = widest(|row| &row.0).min((WIDTH - SEPARATOR) / 2);
    let right_width = widest(|row| &row.1).min(WIDTH - SEPARATOR - left_width);
    let mut out = String::new();
    for (option, description) in &rows {
        let option = wrap(option, left_width);
        let description = wrap(description, right_width);
        for line in 0..option.len().max(description.len()) {
            let l = option.get(line).map_or("", String::as_str);
            let r = description.get(line).map_or("", String::as_str);
            out.push_str(&format!(
                "{l:left_width$}{:SEPARATOR$}{r:right_width$}\n",
                ""
            ));
        }
    }
    out
}

fn left(spec: &Spec) -> String {
    let mut names: Vec<&str> = spec.names.to_vec();
    // Short names first, then by the alphabet, as jopt-simple sorts them.
    names.sort_by_key(|name| (name.len() > 1, *name));
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("{}{name}", if name.len() > 1 { "--" } else { "-" }))
        .collect();
    let star = if spec.required { "* " } else { "" };
    let mut inside = spec.kind.name().to_owned();
    if !spec.argument_name.is_empty() {
        inside.push_str(": ");
        inside.push_str(spec.argument_name);
    }
    let argument = match spec.argument {
        Argument::None => String::new(),
        Argument::Required => format!(" <{inside}>"),
        Argument::Optional => format!(" [{inside}]"),
    };
    format!("{star}{}{argument}", names.join(", "))
}

fn right(spec: &Spec) -> String {
    match spec.default {
        None => spec.description.to_owned(),
        Some(default) => format!("{} (default: {default})", spec.description)
            .trim_start()
            .to_owned(),
    }
}

/// Lines of at most `width` characters where the text can be broken; never empty.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in words(paragraph) {
            if line.chars().count() + word.chars().count() > width {
                lines.push(line.trim_end().to_owned());
                line = format!("{INDENT}{word}");
            } else {
                line.push_str(word);
            }
        }
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// Pieces between which a line may be broken: after blanks, hyphens and full stops, as Java's BreakIterator does.
fn words(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let Some(&(_, next)) = chars.peek() else {
            break;
        };
        let boundary = match c {
            ' ' | '\t' => next != ' ' && next != '\t',
            // `--option` stays whole.
            '-' => next.is_alphanumeric() && end - start > 2,
            '.' => next.is_alphabetic(),
            _ => false,
        };
        if boundary {
            out.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        out.push(&text[start..]);
    }
    out
}
