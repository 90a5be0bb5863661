//! What arguments of a phase have from Secrets, whatever templates make of the values.
//!
//! A hash of a password, or a password in another encoding, cannot be recognised by the value of the Secret. So the parts of a text
//! that mention Secrets are rendered by themselves. Where such a part cannot be told apart, all of the text counts.

use ferroplane_api::Object;
use serde_json::Value;

use super::scope::Scope;
use super::secrets::SHORTEST;

/// What templates mention that read a Secret: `.Secrets`, `.Phases.x.Secrets`, `.Profile.Credential`.
const MENTIONS: [&str; 2] = ["Secret", "Credential"];
/// How actions begin that are more than the value of an expression.
const KEYWORDS: [&str; 10] =
    ["if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"];

/// The texts in arguments that come from Secrets.
pub(super) fn secret_texts(scope: &Scope, arguments: &Object) -> Vec<String> {
    let mut templates = Vec::new();
    collect_fields(arguments, &mut templates);
    if templates.is_empty() {
        return Vec::new();
    }
    // A clone: what is rendered here must not use up the budget of the arguments.
    let scope = scope.clone();
    let texts = templates.into_iter().flat_map(|text| from_secrets(&scope, text));
    texts.filter(|text| !text.trim().is_empty()).collect()
}

fn collect_fields<'v>(object: &'v Object, templates: &mut Vec<&'v str>) {
    for (key, value) in object {
        // Keys are rendered, too.
        collect_text(key, templates);
        collect(value, templates);
    }
}

fn collect<'v>(value: &'v Value, templates: &mut Vec<&'v str>) {
    match value {
        Value::Object(object) => collect_fields(object, templates),
        Value::Array(items) => items.iter().for_each(|item| collect(item, templates)),
        Value::String(text) => collect_text(text, templates),
        _ => {}
    }
}

fn collect_text<'v>(text: &'v str, templates: &mut Vec<&'v str>) {
    if text.contains("{{") && mentions_secrets(text) {
        templates.push(text);
    }
}

fn mentions_secrets(text: &str) -> bool {
    MENTIONS.iter().any(|word| text.contains(word))
}

/// The values of the parts that mention Secrets, and all of the text if there are others that may have made it.
fn from_secrets(scope: &Scope, text: &str) -> Vec<String> {
    let (mut values, mut is_clear, mut rest) = (Vec::new(), true, text);
    while let Some((_, after)) = rest.split_once("{{") {
        let (action, after) = after.split_once("}}").unwrap_or((after, ""));
        rest = after;
        if !is_expression(action) {
            is_clear = false;
        } else if mentions_secrets(action) {
            let value = scope.render("args", &["{{", action, "}}"].concat()).ok();
            // What is too short to be looked for in a text is hidden with all of the text.
            is_clear &= value.as_ref().is_some_and(|value| !(1..SHORTEST).contains(&value.trim().len()));
            values.extend(value);
        }
    }
    if !is_clear {
        values.extend(scope.render("args", text));
    }
    values
}

fn is_expression(action: &str) -> bool {
    let body = action.trim_start_matches('-').trim_start();
    let word = body.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    !KEYWORDS.contains(&word) && !action.contains('=')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Vec<String> {
        // `sesame-open` and `abc`.
        let data = json!({
            "Secrets": {"s": {"Data": {"long": "c2VzYW1lLW9wZW4=", "short": "YWJj", "none": ""}}}, "Object": {"name": "shop"},
        });
        let scope = Scope::new(data.as_object().unwrap().clone(), 0, [0; 32]);
        secret_texts(&scope, json!({"command": ["sh", text]}).as_object().unwrap())
    }

    #[test]
    fn part_of_a_text_that_is_made_of_a_secret_is_found() {
        assert_eq!(
            found("login -p {{ .Secrets.s.Data.long | toString }} {{ .Object.name }}"),
            ["sesame-open"]
        );
        assert_eq!(
            found("x {{- .Secrets.s.Data.long | toString | upper -}} y {{ .Object.name }}"),
            ["SESAME-OPEN"]
        );
        assert_eq!(found("{{ .Secrets.s.Data.none | toString }}"), [""; 0]);
        assert_eq!(found("{{ .Object.name }} Secret"), [""; 0]);
        assert_eq!(found("a Secret"), [""; 0]);
    }

    #[test]
    fn all_of_a_text_counts_where_its_parts_cannot_be_told_apart() {
        let whole = "{{ if .Secrets.s }}-p {{ .Secrets.s.Data.long | toString }}{{ end }}";
        assert_eq!(found(whole), ["sesame-open", "-p sesame-open"]);
        let variable = "{{ $p := .Secrets.s.Data.long }}-p {{ $p | toString }}";
        assert_eq!(found(variable), ["-p sesame-open"]);
        assert_eq!(found("-p {{ .Secrets.s.Data.short | toString }}"), ["abc", "-p abc"]);
        // What cannot be rendered is not called with.
        assert_eq!(found("{{ .Secrets.t.Data.long }}"), [""; 0]);
    }
}
