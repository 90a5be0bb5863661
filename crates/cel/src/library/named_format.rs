//! Formats that strings can be held to, and what is wrong with those that do not keep to them.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/format.go`.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;

use super::encoders::PADDED;
use regex::Regex;

use super::{Answer, Context, url};
use crate::fault::Fault;
use crate::object::LibraryObject;
use crate::time::Timestamp;
use crate::value::Value;

#[derive(Debug)]
pub struct NamedFormat {
    /// As it is asked for.
    pub(crate) name: &'static str,
    pub(crate) pattern_size: u64,
    check: fn(&str) -> Vec<String>,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

// The sizes are those of Kubernetes' table (`MaxRegexSize`), because the cost of `validate` depends on them.
static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", pattern_size: 30, check: |text| label(text, &DNS_1123_LABEL) },
    NamedFormat {
        name: "dns1123Subdomain",
        pattern_size: 60,
        check: |text| label(text, &DNS_1123_SUBDOMAIN),
    },
    NamedFormat { name: "dns1035Label", pattern_size: 30, check: |text| label(text, &DNS_1035_LABEL) },
    NamedFormat { name: "qualifiedName", pattern_size: 60, check: qualified_name },
    NamedFormat {
        name: "dns1123LabelPrefix",
        pattern_size: 30,
        check: |text| label(&as_prefix(text), &DNS_1123_LABEL),
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        pattern_size: 60,
        check: |text| label(&as_prefix(text), &DNS_1123_SUBDOMAIN),
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        pattern_size: 30,
        check: |text| label(&as_prefix(text), &DNS_1035_LABEL),
    },
    NamedFormat { name: "labelValue", pattern_size: 40, check: label_value },
    NamedFormat { name: "uri", pattern_size: 1103, check: |text| url::mistake(text).into_iter().collect() },
    NamedFormat {
        name: "uuid",
        pattern_size: 70,
        check: |text| complain(UUID.is_match(text), "does not match the UUID format"),
    },
    NamedFormat { name: "byte", pattern_size: 84, check: |text| complain(is_base64(text), "invalid base64") },
    NamedFormat { name: "date", pattern_size: 71, check: |text| complain(is_date(text), "invalid date") },
    NamedFormat {
        name: "datetime",
        pattern_size: 71,
        check: |text| complain(is_date_time(text), "invalid datetime"),
    },
];

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
// The point before the fraction is not escaped in the original either, so that any character may stand there.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static QUALIFIED_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("^(?:{NAME_PATTERN})$")));
static LABEL_VALUE: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("^(?:({NAME_PATTERN})?)$")));

const NAME_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is a constant")
}

/// Names whose rules differ in little but the words.
#[derive(Debug)]
struct NameFormat {
    longest: usize,
    regex: LazyLock<Regex>,
    message: &'static str,
}

static DNS_1123_LABEL: NameFormat = NameFormat {
    longest: 63,
    regex: LazyLock::new(|| pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
    message: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
};
static DNS_1123_SUBDOMAIN: NameFormat = NameFormat {
    longest: 253,
    regex: LazyLock::new(|| pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")),
    message: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
};
static DNS_1035_LABEL: NameFormat = NameFormat {
    longest: 63,
    regex: LazyLock::new(|| pattern("^[a-z]([-a-z0-9]*[a-z0-9])?$")),
    message: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
};

const NAME_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn complain(is_fine: bool, complaint: &str) -> Vec<String> {
    if is_fine { Vec::new() } else { vec![complaint.to_owned()] }
}

fn label(text: &str, rule: &NameFormat) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > rule.longest {
        complaints.push(format!("must be no more than {} characters", rule.longest));
    }
    if rule.regex.is_match(text) {
        return complaints;
    }
    // Where only the dots are wrong, that is all there is to say.
    let is_subdomain =
        std::ptr::eq(rule, &raw const DNS_1123_LABEL) && DNS_1123_SUBDOMAIN.regex.is_match(text);
    complaints.push(if is_subdomain { "must not contain dots" } else { rule.message }.to_owned());
    complaints
}

/// A prefix may end with a dash, because something will follow. What is before the dash is not checked.
fn as_prefix(text: &str) -> String {
    match text.get(..text.len().saturating_sub(2)) {
        Some(before) if text.len() > 1 && text.ends_with('-') => format!("{before}a"),
        _ => text.to_owned(),
    }
}

fn qualified_name(text: &str) -> Vec<String> {
    let parts: Vec<_> = text.split('/').collect();
    let mut complaints = Vec::new();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = label(prefix, &DNS_1123_SUBDOMAIN);
                complaints.extend(wrong.into_iter().map(|complaint| format!("prefix part {complaint}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_MESSAGE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        complaints.push("name part must be no more than 63 bytes".to_owned());
    }
    if !QUALIFIED_NAME.is_match(name) {
        complaints.push(format!("name part {NAME_MESSAGE}"));
    }
    complaints
}

fn label_value(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > 63 {
        complaints.push("must be no more than 63 bytes".to_owned());
    }
    if !LABEL_VALUE.is_match(text) {
        complaints.push("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned());
    }
    complaints
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && PADDED.decode(text).is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}

/// A date and a time that look right. Whether there is such a time does not matter.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let is_time = || {
        let number = |at: std::ops::Range<usize>| time.get(at).and_then(|text| text.parse::<u32>().ok());
        number(0..2).is_some_and(|hour| hour <= 23)
            && number(3..5).is_some_and(|minute| minute <= 59)
            && number(6..8).is_some_and(|second| second <= 59)
    };
    text.len() >= 4 && is_date(date) && TIME.is_match(time) && is_time()
}

pub(super) fn named<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let find = |name: &str| FORMATS.iter().find(|format| format.name == name);
    let value = |format: &'static NamedFormat| Value::Object(Arc::new(LibraryObject::Format(format)));
    if let [Value::String(name)] = values {
        return Ok(find(name.as_str()).map_or(Value::Optional(None), |format| Value::some(value(format))));
    }
    let name = context.function.strip_prefix("format.").unwrap_or_default();
    find(name).map(value).ok_or_else(Fault::no_such_overload)
}

pub(super) fn validate<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::Object(object), Value::String(text)] = values else { return Err(Fault::no_such_overload()) };
    let LibraryObject::Format(format) = &**object else { return Err(Fault::no_such_overload()) };
    // The cost counts the pattern's nominal size; this counts what matching really takes.
    context.meter.work(text.as_str().len() as u64 / 16 + 1)?;
    let complaints = (format.check)(text.as_str());
    if complaints.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(context.list(complaints.into_iter().map(Value::text).collect())?))
}
