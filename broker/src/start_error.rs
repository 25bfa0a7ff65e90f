//! Why a server does not start: Kafka's text with the Java class in front, and the way out.
//! Not here: the checks themselves.
//! Pure data; printed by program.rs.
//! Kafka: the exception behind "Exiting Kafka due to fatal exception".

use crate::network::BindError;
use kavka_config::ConfigError;
use std::fmt;

/// A fatal error before the server serves.
#[derive(Debug)]
pub struct StartError {
    /// Class of the exception that Kafka would throw; scripts look for it in logs.
    pub exception: &'static str,
    pub message: String,
    /// What to change, on a line of its own.
    pub remedy: Option<String>,
    /// The configuration was good and the start failed later.
    pub during_startup: bool,
}

/// What the settings of a remedy are called in the properties file that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingNames {
    pub port: &'static str,
    pub host: &'static str,
    pub directories: &'static str,
}

impl SettingNames {
    pub const OF_BROKER: SettingNames = SettingNames {
        port: "listeners",
        host: "listeners",
        directories: "log.dirs",
    };
    pub const OF_ZOOKEEPER: SettingNames = SettingNames {
        port: "clientPort",
        host: "clientPortAddress",
        directories: "dataDir",
    };
}

impl StartError {
    /// A start that failed for a reason outside the configuration.
    pub fn runtime(message: impl Into<String>) -> Self {
        StartError {
            exception: "java.lang.RuntimeException",
            message: message.into(),
            remedy: None,
            during_startup: true,
        }
    }

    /// The same under the name that Kafka's exception has.
    pub fn thrown(exception: &'static str, message: impl Into<String>) -> Self {
        StartError {
            exception,
            ..StartError::runtime(message)
        }
    }

    pub fn of_bind(error: &BindError, names: SettingNames) -> Self {
        StartError {
            remedy: error.remedy(names.port, names.host),
            ..StartError::thrown("org.apache.kafka.common.KafkaException", error.to_string())
        }
    }

    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The lines below the ERROR line.
    pub fn lines(&self) -> String {
        let mut lines = format!("{}: {}", self.exception, self.message);
        if let Some(remedy) = &self.remedy {
            lines.push('\n');
            lines.push_str(remedy);
        }
        lines
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(remedy) = &self.remedy {
            write!(f, " ({remedy})")?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        StartError {
            exception: error.java_class(),
            message: error.message,
            remedy: error.remedy,
            during_startup: false,
        }
    }
}
