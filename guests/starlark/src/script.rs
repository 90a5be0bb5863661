//! Finds the script of a step, and the modules that it may load.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The namespace of ConfigMaps for composite resources that have none themselves.
const NAMESPACE: &str = "crossplane-system";

/// What a script is called if nobody named it.
pub(crate) const MAIN: &str = "main.star";

/// A script and what it may load.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) main: Source,
    pub(crate) style: Style,
    pub(crate) modules: BTreeMap<String, Source>,
}

impl Script {
    /// The script and its modules, by name.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&String, &Source)> {
        std::iter::once((&self.name, &self.main)).chain(&self.modules)
    }
}

/// A text in Starlark.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub(crate) text: String,
    /// The field of the input that it is in, or that says where it is.
    pub(crate) field: String,
}

/// How a script answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

/// The script that the input of a request names, if all of it is here.
pub(crate) fn of(request: &Value) -> Result<Found, String> {
    let (script, wanted) = find(request, false)?;
    Ok(if wanted.is_empty() { Found::Script(script) } else { Found::Wanted(wanted) })
}

/// As much of the script as is here. What is elsewhere is empty.
pub(crate) fn present(request: &Value) -> Result<Script, String> {
    find(request, true).map(|(script, _)| script)
}

fn find(request: &Value, is_partial: bool) -> Result<(Script, Map<String, Value>), String> {
    let input = &request["input"];
    let spec = &input["spec"];
    let mut maps = ConfigMaps { request, wanted: Map::new(), is_partial };
    let modules = modules(spec, &mut maps)?;
    let inline = [(&input["script"], "script"), (&input["inline"], "inline")];
    let inline = inline.into_iter().find_map(|(script, field)| Some((script.as_str()?, field)));
    let (name, text, field, style) = if let Some((text, field)) = inline {
        (MAIN, text, field, Style::Main)
    } else if let Some(text) = spec["source"].as_str().filter(|source| !source.is_empty()) {
        (MAIN, text, "spec.source", Style::Calls)
    } else if spec["scriptConfigRef"].is_object() {
        let key = spec["scriptConfigRef"]["key"].as_str().unwrap_or(MAIN);
        let text = match maps.data(&spec["scriptConfigRef"])? {
            Some(data) => data[key].as_str().ok_or_else(|| format!("the ConfigMap has no key `{key}`"))?,
            None => "",
        };
        (key, text, "spec.scriptConfigRef", Style::Calls)
    } else {
        return Err("invalid Function input: there is no script, set `script`, `spec.source` or `spec.scriptConfigRef`".to_owned());
    };
    let main = Source { text: text.to_owned(), field: field.to_owned() };
    Ok((Script { name: name.to_owned(), main, style, modules }, maps.wanted))
}

/// What a script may load: texts in the input, files of directories, keys of ConfigMaps. Of two with one name, the first counts.
fn modules(spec: &Value, maps: &mut ConfigMaps<'_>) -> Result<BTreeMap<String, Source>, String> {
    let mut modules = BTreeMap::new();
    let mut add = |texts: &Value, field: &dyn Fn(&str) -> String| {
        for (name, text) in texts.as_object().into_iter().flatten() {
            let text = text.as_str().ok_or_else(|| format!("{}: it is not text", field(name)))?.to_owned();
            modules.entry(name.clone()).or_insert_with(|| Source { text, field: field(name) });
        }
        Ok::<_, String>(())
    };
    add(&spec["modules"], &|name| format!("spec.modules[{name}]"))?;
    for (index, path) in spec["modulePaths"].as_array().into_iter().flatten().enumerate() {
        let field = format!("spec.modulePaths[{index}]");
        for file in maps.directory(path.as_str().unwrap_or_default(), &field)? {
            add(file, &|_| field.clone())?;
        }
    }
    for (index, reference) in spec["moduleConfigRefs"].as_array().into_iter().flatten().enumerate() {
        let Some(data) = maps.data(reference)? else { continue };
        add(data, &|_| format!("spec.moduleConfigRefs[{index}]"))?;
    }
    Ok(modules)
}

/// The names under which a directory of modules is required. They are no resources to the script.
pub(crate) fn directories(request: &Value) -> impl Iterator<Item = &str> {
    request["input"]["spec"]["modulePaths"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// ConfigMaps that the plane fetches for us.
struct ConfigMaps<'a> {
    request: &'a Value,
    wanted: Map<String, Value>,
    /// Whether directories may be missing.
    is_partial: bool,
}

impl<'a> ConfigMaps<'a> {
    /// The data of a ConfigMap. Nothing if it has to be fetched first.
    fn data(&mut self, reference: &Value) -> Result<Option<&'a Value>, String> {
        let name = reference["name"].as_str().ok_or("a reference to a ConfigMap has no `name`")?;
        let own = &self.request["observed"]["composite"]["resource"]["metadata"]["namespace"];
        let namespace = reference["namespace"].as_str().or(own.as_str()).unwrap_or(NAMESPACE);
        let key = format!("starlark/{namespace}/{name}");
        let Some(items) = self.fetched(&key) else {
            let selector =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": name, "namespace": namespace});
            self.wanted.insert(key, selector);
            return Ok(None);
        };
        match items["items"][0]["resource"].as_object() {
            Some(_) => Ok(Some(&items["items"][0]["resource"]["data"])),
            None => Err(format!("there is no ConfigMap `{name}` in namespace `{namespace}`")),
        }
    }

    /// The files of a directory: the data of the objects that the step requires under its name.
    fn directory(&self, path: &str, field: &str) -> Result<Vec<&'a Value>, String> {
        let items = self.fetched(path).and_then(|found| found["items"].as_array());
        if items.is_none() && self.is_partial {
            return Ok(Vec::new());
        }
        let items = items.ok_or_else(|| {
            format!(
                "there is no directory `{path}` ({field}): let the step require the ConfigMaps that hold its files, with the \
                 requirementName `{path}`"
            )
        })?;
        Ok(items.iter().map(|item| &item["resource"]["data"]).collect())
    }

    fn fetched(&self, key: &str) -> Option<&'a Value> {
        ["requiredResources", "required_resources"].iter().find_map(|field| self.request[*field].get(key))
    }
}
