//! Finds the script of a step, and the modules that it may load.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The namespace of ConfigMaps for composite resources that have none themselves.
const NAMESPACE: &str = "crossplane-system";

/// What a script is called if nobody named it.
pub(crate) const MAIN: &str = "main.star";

/// A script and what it may load.
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) style: Style,
    pub(crate) modules: BTreeMap<String, String>,
}

impl Script {
    /// The field of the input that a script is in.
    pub(crate) fn field(&self, name: &str) -> String {
        match self.style {
            _ if self.modules.contains_key(name) => format!("spec.modules[{name}]"),
            Style::Main => "script".to_owned(),
            Style::Calls => "spec.source".to_owned(),
        }
    }
}

/// How a script answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Its function `main` takes the request as a dictionary and returns the response as one.
    Main,
    /// It calls `Resource()` and the like as it runs.
    Calls,
}

pub(crate) enum Found {
    Script(Script),
    /// These have to be fetched first, by the name under which they will be there.
    Wanted(Map<String, Value>),
}

/// The script that the input of a request names.
pub(crate) fn of(request: &Value) -> Result<Found, String> {
    let input = &request["input"];
    let spec = &input["spec"];
    let mut maps = ConfigMaps { request, wanted: Map::new() };
    let mut modules = texts(&spec["modules"])?;
    for reference in spec["moduleConfigRefs"].as_array().into_iter().flatten() {
        let data = maps.data(reference)?.map(texts).transpose()?.unwrap_or_default();
        modules.extend(data.into_iter().filter(|(name, _)| name.ends_with(".star")));
    }
    let (name, source, style) = if let Some(source) =
        [&input["script"], &input["inline"]].into_iter().find_map(Value::as_str)
    {
        (MAIN.to_owned(), source.to_owned(), Style::Main)
    } else if let Some(source) = spec["source"].as_str().filter(|source| !source.is_empty()) {
        (MAIN.to_owned(), source.to_owned(), Style::Calls)
    } else if spec["scriptConfigRef"].is_object() {
        let key = spec["scriptConfigRef"]["key"].as_str().unwrap_or(MAIN);
        let source = match maps.data(&spec["scriptConfigRef"])? {
            Some(data) => data[key].as_str().ok_or_else(|| format!("the ConfigMap has no key `{key}`"))?,
            None => "",
        };
        (key.to_owned(), source.to_owned(), Style::Calls)
    } else {
        return Err("invalid Function input: there is no script, set `script`, `spec.source` or `spec.scriptConfigRef`".to_owned());
    };
    if maps.wanted.is_empty() {
        Ok(Found::Script(Script { name, source, style, modules }))
    } else {
        Ok(Found::Wanted(maps.wanted))
    }
}

fn texts(map: &Value) -> Result<BTreeMap<String, String>, String> {
    let entries = map.as_object().into_iter().flatten().map(|(name, text)| {
        let text = text.as_str().ok_or_else(|| format!("module `{name}` is not text"))?;
        Ok((name.clone(), text.to_owned()))
    });
    entries.collect()
}

/// ConfigMaps that the plane fetches for us.
struct ConfigMaps<'a> {
    request: &'a Value,
    wanted: Map<String, Value>,
}

impl<'a> ConfigMaps<'a> {
    /// The data of a ConfigMap. Nothing if it has to be fetched first.
    fn data(&mut self, reference: &Value) -> Result<Option<&'a Value>, String> {
        let name = reference["name"].as_str().ok_or("a reference to a ConfigMap has no `name`")?;
        let own = &self.request["observed"]["composite"]["resource"]["metadata"]["namespace"];
        let namespace = reference["namespace"].as_str().or(own.as_str()).unwrap_or(NAMESPACE);
        let key = format!("starlark/{namespace}/{name}");
        let selector =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": name, "namespace": namespace});
        self.wanted_or(&key, selector).map(|items| match items {
            None => Ok(None),
            Some(items) => match items["items"][0]["resource"].as_object() {
                Some(_) => Ok(Some(&items["items"][0]["resource"]["data"])),
                None => Err(format!("there is no ConfigMap `{name}` in namespace `{namespace}`")),
            },
        })?
    }

    fn wanted_or(&mut self, key: &str, selector: Value) -> Result<Option<&'a Value>, String> {
        let fetched = ["requiredResources", "required_resources"]
            .iter()
            .find_map(|field| self.request[*field].get(key));
        if fetched.is_none() {
            self.wanted.insert(key.to_owned(), selector);
        }
        Ok(fetched)
    }
}
