//! The two shapes of names that Kubernetes takes from DNS.

/// Longest label that DNS allows.
pub const MAX_LABEL_LENGTH: usize = 63;

/// Why a text is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Nothing was given.
    #[error("must not be empty")]
    Empty,
    /// More than 63 characters.
    #[error("must be no more than 63 characters")]
    TooLong,
    /// A character that the shape does not allow.
    #[error("must consist of lower-case letters, digits and '-', not {0:?}")]
    Character(char),
    /// RFC 1123 labels start with a letter or a digit.
    #[error("must start with a lower-case letter or a digit")]
    Start,
    /// RFC 1035 labels start with a letter.
    #[error("must start with a lower-case letter")]
    StartLetter,
    /// Labels end with a letter or a digit.
    #[error("must end with a lower-case letter or a digit")]
    End,
}

/// Checks an RFC 1123 label: names of handlers, ExtensionConfigs and namespaces.
///
/// # Errors
///
/// The first rule that the text breaks.
pub fn check_rfc1123_label(text: &str) -> Result<(), LabelError> {
    check_label(text)?;
    if text.starts_with('-') {
        return Err(LabelError::Start);
    }
    Ok(())
}

/// Checks an RFC 1035 label: names of Services. The same, but it must start with a letter.
///
/// # Errors
///
/// The first rule that the text breaks.
pub fn check_rfc1035_label(text: &str) -> Result<(), LabelError> {
    check_label(text)?;
    if !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(LabelError::StartLetter);
    }
    Ok(())
}

/// Whether a string is an RFC 1123 subdomain: names of most objects, and the domain before the slash in keys of labels.
pub fn is_rfc1123_subdomain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(plain) && label.ends_with(plain) && label.chars().all(|c| plain(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn check_label(text: &str) -> Result<(), LabelError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() {
        Err(LabelError::Empty)
    } else if let Some(other) = text.chars().find(|&c| !allowed(c)) {
        Err(LabelError::Character(other))
    } else if text.len() > MAX_LABEL_LENGTH {
        Err(LabelError::TooLong)
    } else if text.ends_with('-') {
        Err(LabelError::End)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_their_rfc() {
        let longest = "a".repeat(63);
        let too_long = "a".repeat(64);
        for (text, rfc1123, rfc1035) in [
            ("a", Ok(()), Ok(())),
            ("gate-upgrade", Ok(()), Ok(())),
            (longest.as_str(), Ok(()), Ok(())),
            ("0a", Ok(()), Err(LabelError::StartLetter)),
            ("9", Ok(()), Err(LabelError::StartLetter)),
            ("", Err(LabelError::Empty), Err(LabelError::Empty)),
            (too_long.as_str(), Err(LabelError::TooLong), Err(LabelError::TooLong)),
            ("-a", Err(LabelError::Start), Err(LabelError::StartLetter)),
            ("a-", Err(LabelError::End), Err(LabelError::End)),
            ("-", Err(LabelError::End), Err(LabelError::End)),
            ("a.b", Err(LabelError::Character('.')), Err(LabelError::Character('.'))),
            ("Gate", Err(LabelError::Character('G')), Err(LabelError::Character('G'))),
            ("gäte", Err(LabelError::Character('ä')), Err(LabelError::Character('ä'))),
            ("a\n", Err(LabelError::Character('\n')), Err(LabelError::Character('\n'))),
        ] {
            assert_eq!(check_rfc1123_label(text), rfc1123, "{text:?} as RFC 1123");
            assert_eq!(check_rfc1035_label(text), rfc1035, "{text:?} as RFC 1035");
        }
    }

    #[test]
    fn a_subdomain_is_labels_with_dots_between_them() {
        let long = format!("{}.example", "a".repeat(64));
        for (text, expected) in [
            ("a", true),
            ("0.a-b.example", true),
            (long.as_str(), true),
            ("", false),
            (".a", false),
            ("a..b", false),
            ("a-.b", false),
            ("A.b", false),
            ("a_b", false),
        ] {
            assert_eq!(is_rfc1123_subdomain(text), expected, "{text:?}");
        }
        assert!(!is_rfc1123_subdomain(&"a".repeat(254)));
    }
}
