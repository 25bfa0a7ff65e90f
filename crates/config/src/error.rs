//! What a bad setting is answered with: Kafka's text, the Java class it came in, and the way out.
//! Not here: how it is shown; exit codes belong to the programs.
//! Pure data. Kafka: org.apache.kafka.common.config.ConfigException and `require(…)` in KafkaConfig.

use std::fmt;

/// The Java exception a message travels in (tools print the class name in front of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thrown {
    ConfigException,
    IllegalArgument,
    KafkaException,
    InvalidConfiguration,
}

/// One refused setting. `Display` is Kafka's own message, without class and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub thrown: Thrown,
    pub message: String,
    /// What to change, in our words; printed on a line of its own.
    pub remedy: Option<String>,
}

impl ConfigError {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            thrown: Thrown::ConfigException,
            message: message.into(),
            remedy: None,
        }
    }

    /// Kafka's `ConfigException(name, value, why)`.
    pub fn invalid(key: &str, value: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(format!(
            "Invalid value {value} for configuration {key}: {why}"
        ))
    }

    /// Kafka's `require(condition, text)`.
    pub fn requirement(text: impl fmt::Display) -> Self {
        Self::illegal(format!("requirement failed: {text}"))
    }

    pub fn illegal(message: impl Into<String>) -> Self {
        Self {
            thrown: Thrown::IllegalArgument,
            message: message.into(),
            remedy: None,
        }
    }

    pub fn kafka(message: impl Into<String>) -> Self {
        Self {
            thrown: Thrown::KafkaException,
            message: message.into(),
            remedy: None,
        }
    }

    pub fn missing(key: &str) -> Self {
        Self::new(format!(
            "Missing required configuration \"{key}\" which has no default value."
        ))
    }

    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub fn java_class(&self) -> &'static str {
        match self.thrown {
            Thrown::ConfigException => "org.apache.kafka.common.config.ConfigException",
            Thrown::IllegalArgument => "java.lang.IllegalArgumentException",
            Thrown::InvalidConfiguration => {
                "org.apache.kafka.common.errors.InvalidConfigurationException"
            }
            Thrown::KafkaException => "org.apache.kafka.common.KafkaException",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}
