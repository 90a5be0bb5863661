//! Requirements on fields, for example `metadata.name=a,status.phase!=Running`.
//!
//! Follows apimachinery 0.36.4, `pkg/fields/selector.go`.

use std::fmt;

/// All requirements must be met. Without any, everything is selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// What one field must be, or must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    pub is_equal: bool,
    pub value: String,
}

impl FieldSelector {
    /// Reads the text of a query. The error is in the words of the API server.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        // Kubernetes sorts the terms before it reads them, which decides the mistake that is reported first.
        terms.sort_unstable();
        let terms = terms.into_iter().filter(|term| !term.is_empty());
        let mut requirements = terms.map(|term| parse_term(term, text)).collect::<Result<Vec<_>, _>>()?;
        // Nothing is asked of no field.
        requirements.retain(|requirement| !requirement.field.is_empty() || !requirement.value.is_empty());
        Ok(Self { requirements })
    }

    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the fields meet the requirements. A field that is not there is empty.
    pub fn matches<'f>(&self, field: impl Fn(&str) -> Option<&'f str>) -> bool {
        self.requirements.iter().all(|requirement| {
            (field(&requirement.field).unwrap_or_default() == requirement.value) == requirement.is_equal
        })
    }

    /// The value that a field must have, if it must have one.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        let mut exact = self.requirements.iter().filter(|requirement| requirement.is_equal);
        exact.find(|requirement| requirement.field == field).map(|requirement| requirement.value.as_str())
    }

    /// Says of the first field that cannot be selected by that this is so.
    pub fn check_supported(&self, is_supported: impl Fn(&str) -> bool) -> Result<(), String> {
        match self.requirements.iter().find(|requirement| !is_supported(&requirement.field)) {
            Some(requirement) => Err(format!("field label not supported: {}", requirement.field)),
            None => Ok(()),
        }
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse_term(term: &str, selector: &str) -> Result<FieldRequirement, String> {
    let operator = term.find(['!', '=']).and_then(|_| first_operator(term));
    let (field, operator, value) =
        operator.ok_or_else(|| format!("invalid selector: '{selector}'; can't understand '{term}'"))?;
    Ok(FieldRequirement { field: field.to_owned(), is_equal: operator != "!=", value: unescape(value)? })
}

fn first_operator(term: &str) -> Option<(&str, &'static str, &str)> {
    term.char_indices().find_map(|(index, _)| {
        // The longer ones first, or `==` would be `=` and a value that begins with `=`.
        let operator = ["!=", "==", "="].into_iter().find(|operator| term[index..].starts_with(operator))?;
        Some((&term[..index], operator, &term[index + operator.len()..]))
    })
}

fn unescape(text: &str) -> Result<String, String> {
    let invalid = |sequence: &str| format!("invalid field selector: invalid escape sequence: {sequence}");
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(invalid(&format!("\\{other}"))),
                None => return Err(invalid("\\")),
            },
            // The character is printed as its number.
            ',' | '=' => {
                let code = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            other => value.push(other),
        }
    }
    Ok(value)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.is_equal { "=" } else { "!=" })?;
        for character in self.value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_compared() {
        let selector = FieldSelector::parse("metadata.name=a,spec.x!=b\\,c").unwrap();
        let field = |name: &str| (name == "metadata.name").then_some("a");
        assert!(selector.matches(field));
        assert_eq!(selector.to_string(), "metadata.name=a,spec.x!=b\\,c");
        assert_eq!(selector.required_value("metadata.name"), Some("a"));
    }

    #[test]
    fn nonsense_is_explained() {
        let failure = |text| FieldSelector::parse(text).unwrap_err();
        assert_eq!(failure("a=b,c"), "invalid selector: 'a=b,c'; can't understand 'c'");
        assert_eq!(failure("a=b=c"), "invalid field selector: unescaped character in value: 61");
        assert_eq!(failure("a=\\d"), "invalid field selector: invalid escape sequence: \\d");
    }
}
