//! Reads the one line of a JAAS configuration: login module, flag, options.
//! Not here: what the mechanisms do with it. Pure.
//! Kafka: org.apache.kafka.common.security.JaasConfig.

/// The login module's class and its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Jaas {
    pub(super) module: String,
    pub(super) options: Vec<(String, String)>,
}

impl Jaas {
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// `Module required name="value" …;`
pub(super) fn parse(text: &str) -> Result<Jaas, String> {
    let mut tokens = tokens(text)?.into_iter();
    let module = tokens
        .next()
        .ok_or("Login module not specified in JAAS config")?;
    let flag = tokens
        .next()
        .ok_or("Login module control flag not specified in JAAS config")?;
    if !["required", "requisite", "sufficient", "optional"]
        .iter()
        .any(|f| f.eq_ignore_ascii_case(&flag))
    {
        return Err(format!(
            "Invalid login module control flag '{flag}' in JAAS config"
        ));
    }
    let mut options = Vec::new();
    loop {
        let key = tokens
            .next()
            .ok_or("JAAS config entry not terminated by semi-colon")?;
        if key == ";" {
            break;
        }
        if tokens.next().as_deref() != Some("=") {
            return Err(format!(
                "Value not specified for key '{key}' in JAAS config"
            ));
        }
        match tokens.next() {
            Some(value) if value != ";" => options.push((key, value)),
            _ => {
                return Err(format!(
                    "Value not specified for key '{key}' in JAAS config"
                ));
            }
        }
    }
    Ok(Jaas { module, options })
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            '=' | ';' => out.push(c.to_string()),
            '"' | '\'' => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        None => return Err("Unterminated quote in JAAS config".into()),
                        Some(end) if end == c => break,
                        Some('\\') => word.extend(chars.next()),
                        Some(other) => word.push(other),
                    }
                }
                out.push(word);
            }
            _ => {
                let mut word = c.to_string();
                while let Some(next) =
                    chars.next_if(|n| !n.is_whitespace() && !matches!(n, '=' | ';' | '"' | '\''))
                {
                    word.push(next);
                }
                out.push(word);
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_scram_lines() {
        let jaas = parse("org.apache.kafka.common.security.plain.PlainLoginModule required\n username=\"al\\\"ice\" password='p;=q' x=y;").unwrap();
        assert_eq!(
            jaas.module,
            "org.apache.kafka.common.security.plain.PlainLoginModule"
        );
        assert_eq!(jaas.option("username"), Some("al\"ice"));
        assert_eq!(jaas.option("password"), Some("p;=q"));
        assert_eq!(jaas.option("x"), Some("y"));
    }

    #[test]
    fn broken_lines() {
        for (text, why) in [
            ("", "Login module not specified"),
            ("M", "control flag not specified"),
            ("M maybe;", "Invalid login module control flag 'maybe'"),
            ("M required a=b", "not terminated by semi-colon"),
            ("M required a;", "Value not specified for key 'a'"),
            ("M required a=;", "Value not specified for key 'a'"),
            ("M required a=\"b;", "Unterminated quote"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
