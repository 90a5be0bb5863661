//! How our answers differ from those of the real server.

use serde_json::{Value, json};

use super::ours::Server;

/// Performs a recorded sequence, and says what is different if anything is.
pub(crate) fn find(definition: &Value, sequence: &Value) -> Option<String> {
    let steps = sequence.as_array().into_iter().flatten();
    let name = steps.clone().find_map(|step| step["name"].as_str()).unwrap_or("x");
    let mut server = Server::new(definition, name);
    let mut before = Vec::new();
    let mut has_hidden = false;
    for (index, step) in steps.enumerate() {
        if step["verb"] == "delete" {
            if let Some(left) = step.get("left") {
                server.leave(left, &step["answer"]["body"]);
            }
            continue;
        }
        if is_about_fractions(&step["answer"]) || took_two_seconds(&step["answer"]) {
            return None;
        }
        let ours = server.answer(step);
        if is_about_syntax(&step["answer"]) && ours["code"] == 400 {
            continue;
        }
        let mut theirs = normal(&step["answer"]);
        let mut ours = normal(&ours);
        if definition["builtin"] == true {
            without_quoted(&mut ours);
            without_quoted(&mut theirs);
        }
        has_hidden |= step["verb"] == "apply";
        if has_hidden && ours != theirs {
            server.rewrite_hidden(&mut ours, &theirs);
        }
        if ours != theirs {
            let mut asked = step.clone();
            asked.as_object_mut().unwrap().remove("answer");
            return Some(format!(
                "step {index}:\n{}\nasked:  {asked}\nbefore: {}\nschema: {}",
                parts("", &ours, &theirs).join("\n"),
                before.last().unwrap_or(&Value::Null),
                definition["spec"]["versions"],
            ));
        }
        before.push(theirs["body"].clone());
    }
    None
}

/// Upstream's rules cannot see an integer that is written with a fraction of zero; ours can.
fn is_about_fractions(answer: &Value) -> bool {
    let message = answer["body"]["message"].as_str().unwrap_or_default();
    message.contains("invalid data, expected int, got float64 evaluating rule")
}

/// While a server created the object, a new second began.
fn took_two_seconds(answer: &Value) -> bool {
    let metadata = &answer["body"]["metadata"];
    let entries = metadata["managedFields"].as_array();
    answer["code"] == 201
        && entries.into_iter().flatten().any(|entry| entry["time"] != metadata["creationTimestamp"])
}

/// What is wrong with text that is not JSON is told in other words, and goes in other words.
fn is_about_syntax(answer: &Value) -> bool {
    answer["body"]["message"].as_str().is_some_and(|message| message.contains("json parse error: "))
}

/// An answer without what need not be the same.
fn normal(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(warnings) = answer["warnings"].as_array() {
        answer["warnings"] =
            warnings.iter().map(|warning| json!(words(warning.as_str().unwrap_or_default()))).collect();
    }
    if answer["body"]["kind"] == "Status" {
        sort_causes(&mut answer["body"]);
        shorten(&mut answer["body"]);
    }
    answer
}

/// Objects of Kubernetes' own kinds are quoted in the order that Go has their fields in.
fn without_quoted(answer: &mut Value) {
    if answer.pointer("/body/details/causes/0/field") != Some(&json!("patch")) {
        return;
    }
    let shorten = |text: &str| text.rsplit("}\": ").next().unwrap_or_default().to_owned();
    for pointer in ["/body/message", "/body/details/causes/0/message"] {
        if let Some(message) = answer.pointer_mut(pointer) {
            *message = shorten(message.as_str().unwrap_or_default()).into();
        }
    }
}

/// Upstream tells what is wrong with a configuration in any order, and only some of the fields that no schema knows.
fn shorten(status: &mut Value) {
    let message = status["message"].as_str().unwrap_or_default();
    if let Some((before, _)) =
        message.split_once("): ").filter(|_| message.contains(": field not declared in schema"))
    {
        status["message"] = format!("{before}): …: field not declared in schema").into();
    } else if message.contains("errors:\n") {
        let mut lines: Vec<_> = message.lines().collect();
        lines.sort_unstable();
        status["message"] = lines.join("\n").into();
    }
}

/// Upstream goes through maps in any order, and so are the mistakes that it finds.
fn sort_causes(status: &mut Value) {
    let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    if causes.len() < 2 {
        return;
    }
    causes.sort_by_key(Value::to_string);
    let Some(message) = status["message"].as_str() else { return };
    let mut characters: Vec<_> = message.chars().collect();
    characters.sort_unstable();
    status["message"] = characters.into_iter().collect::<String>().into();
}

/// What a header says: `299 - "words"`.
fn words(header: &str) -> String {
    let Some(quoted) = header.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')) else {
        return header.to_owned();
    };
    quoted.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// Where two values differ.
fn parts(path: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    if ours == theirs {
        return Vec::new();
    }
    let is_other_kind = ours.get("kind") != theirs.get("kind");
    if let (Some(ours), Some(theirs)) = (ours.as_object(), theirs.as_object())
        && !is_other_kind
    {
        let mut keys: Vec<_> = ours.keys().chain(theirs.keys()).collect();
        keys.sort();
        keys.dedup();
        let part = |key: &&String| {
            (ours.get(*key).unwrap_or(&Value::Null), theirs.get(*key).unwrap_or(&Value::Null))
        };
        return keys
            .iter()
            .flat_map(|key| {
                let (ours, theirs) = part(key);
                parts(&format!("{path}/{key}"), ours, theirs)
            })
            .collect();
    }
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    // Some quote whole objects.
    let same = ours.chars().zip(theirs.chars()).take_while(|(one, other)| one == other).count();
    let tail = |text: &str| text.chars().skip(same.saturating_sub(60)).collect::<String>();
    vec![format!("  {path}\n    ours:   …{}\n    theirs: …{}", tail(&ours), tail(&theirs))]
}
