//! One row of a tool's table of options.
//! Not here: parsing, layout. Pure data, built in `const` tables.
//! Kafka: joptsimple.OptionSpecBuilder.

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    None,
    Required,
    Optional,
}

/// The type shown in the table; Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    String,
    Integer,
    Long,
    Double,
    /// One of the words that the name lists.
    Choice(&'static str),
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "String",
            Kind::Integer => "Integer",
            Kind::Long => "Long",
            Kind::Double => "Double",
            Kind::Choice(name) => name,
        }
    }
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Without dashes; the first is the one that messages use.
    pub names: &'static [&'static str],
    pub argument: Argument,
    pub kind: Kind,
    /// What the value is, in the table; may be empty.
    pub argument_name: &'static str,
    pub default: Option<&'static str>,
    /// Splits one argument into several values.
    pub separator: Option<char>,
    /// jopt-simple's own check and the star in the table.
    pub required: bool,
    pub description: &'static str,
}

/// An option without a value.
pub const fn flag(names: &'static [&'static str], description: &'static str) -> Spec {
    Spec {
        names,
        argument: Argument::None,
        kind: Kind::String,
        argument_name: "",
        default: None,
        separator: None,
        required: false,
        description,
    }
}

/// An option with a value.
pub const fn option(
    names: &'static [&'static str],
    kind: Kind,
    argument_name: &'static str,
    description: &'static str,
) -> Spec {
    Spec {
        argument: Argument::Required,
        kind,
        argument_name,
        ..flag(names, description)
    }
}

impl Spec {
    pub const fn default(self, value: &'static str) -> Spec {
        Spec {
            default: Some(value),
            ..self
        }
    }

    pub const fn optional_argument(self) -> Spec {
        Spec {
            argument: Argument::Optional,
            ..self
        }
    }

    pub const fn separated_by(self, separator: char) -> Spec {
        Spec {
            separator: Some(separator),
            ..self
        }
    }

    pub const fn required(self) -> Spec {
        Spec {
            required: true,
            ..self
        }
    }
}
