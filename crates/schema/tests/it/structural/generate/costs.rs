//! Makes schemas whose values are limited in some places and not in others, and rules that look at them.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// A schema with one rule.
pub(crate) fn schema(dice: &mut Dice) -> Value {
    let mut schema = object(dice, 3);
    schema["x-kubernetes-validations"] = rules(dice, &schema, 4);
    schema
}

/// A schema with rules here and there.
pub(crate) fn ruled(dice: &mut Dice) -> Value {
    let mut schema = object(dice, 3);
    rule_all(dice, &mut schema);
    schema
}

/// Gives rules to some schemas within a schema.
fn rule_all(dice: &mut Dice, schema: &mut Value) {
    for part in ["items", "additionalProperties"] {
        if schema[part].is_object() {
            rule_all(dice, &mut schema[part]);
        }
    }
    for (_, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        rule_all(dice, property);
    }
    if dice.chance(40) {
        let rules = rules(dice, schema, 3);
        schema["x-kubernetes-validations"] = rules;
    }
}

fn rules(dice: &mut Dice, schema: &Value, depth: usize) -> Value {
    let mut writer = Writer { dice, names: vec![("self".to_owned(), schema.clone())], next: 0 };
    let mut rule = json!({"rule": writer.truth(depth)});
    if writer.dice.chance(30) {
        rule["messageExpression"] = writer.text(3).into();
    }
    json!([rule])
}

fn limited(dice: &mut Dice, schema: &mut Value, name: &str, limits: &[i64]) {
    if dice.chance(60) {
        schema[name] = (*dice.choose(limits)).into();
    }
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut fields = Map::new();
    for name in ["a", "b", "c", "d-e", "kind"] {
        if dice.chance(70) {
            let field = if name == "kind" { json!({"type": "string"}) } else { value(dice, depth - 1) };
            fields.insert(name.to_owned(), field);
        }
    }
    let required: Vec<_> = fields.keys().filter(|_| dice.chance(30)).cloned().collect();
    let mut schema = json!({"type": "object", "properties": fields});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn value(dice: &mut Dice, depth: usize) -> Value {
    if depth == 0 || dice.chance(35) {
        return scalar(dice);
    }
    match dice.below(4) {
        0 => object(dice, depth),
        1 => {
            let mut map = json!({"type": "object", "additionalProperties": value(dice, depth - 1)});
            limited(dice, &mut map, "maxProperties", &[0, 1, 7, 100, 5000, -1]);
            map
        }
        _ => {
            let mut list = json!({"type": "array", "items": value(dice, depth - 1)});
            limited(dice, &mut list, "maxItems", &[0, 1, 3, 64, 1000, 1_000_000, -2]);
            list
        }
    }
}

fn scalar(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "number"}),
        2 => json!({"type": "boolean"}),
        3 => {
            let mut either = json!({"x-kubernetes-int-or-string": true});
            limited(dice, &mut either, "maxLength", &[0, 5, 300]);
            either
        }
        4 => {
            json!({"type": "string", "format": dice.pick(&["date", "date-time", "duration", "byte", "ipv4"])})
        }
        5 => json!({"type": "string", "enum": ["one", "two and more", "é"]}),
        6 => json!({"type": "integer", "default": 3}),
        _ => {
            let mut text = json!({"type": "string"});
            limited(dice, &mut text, "maxLength", &[0, 1, 10, 64, 253, 100_000, i64::MAX]);
            text
        }
    }
}

/// What a value is for expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Text,
    Number,
    Truth,
    List,
    Map,
    Object,
    Other,
}

fn sort(schema: &Value) -> Sort {
    match schema["type"].as_str() {
        Some("string") => match schema["format"].as_str() {
            None | Some("ipv4") => Sort::Text,
            Some(_) => Sort::Other,
        },
        Some("integer") => Sort::Number,
        Some("boolean") => Sort::Truth,
        Some("array") => Sort::List,
        Some("object") if schema["additionalProperties"].is_object() => Sort::Map,
        Some("object") => Sort::Object,
        _ => Sort::Other,
    }
}

struct Writer<'d> {
    dice: &'d mut Dice,
    /// What can be named, and the schema of what it is.
    names: Vec<(String, Value)>,
    next: usize,
}

impl Writer<'_> {
    fn name(&mut self) -> String {
        self.next += 1;
        ["x", "y", "z", "v", "w"][self.next % 5].to_owned() + &(self.next / 5).to_string()
    }

    /// Some value that can be reached, perhaps of a certain sort.
    fn place(&mut self, wanted: Option<Sort>) -> Option<(String, Value)> {
        for _ in 0..6 {
            let (mut text, mut schema) = self.names[self.dice.below(self.names.len())].clone();
            for _ in 0..5 {
                if wanted == Some(sort(&schema)) || wanted.is_none() && self.dice.chance(30) {
                    return Some((text, schema));
                }
                let Some((step, below)) = self.step(&schema) else { break };
                text += &step;
                schema = below;
            }
        }
        None
    }

    fn step(&mut self, schema: &Value) -> Option<(String, Value)> {
        match sort(schema) {
            Sort::Object => {
                let fields = schema["properties"].as_object().filter(|fields| !fields.is_empty())?;
                let (name, field) = fields.iter().nth(self.dice.below(fields.len()))?;
                Some((format!(".{}", name.replace('-', "__dash__")), field.clone()))
            }
            Sort::List => Some((format!("[{}]", self.dice.below(3)), schema["items"].clone())),
            Sort::Map => {
                let step = self.dice.pick(&["['k']", ".k"]);
                Some((step.to_owned(), schema["additionalProperties"].clone()))
            }
            _ => None,
        }
    }

    fn truth(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.place(Some(Sort::Truth)).map_or_else(|| "true".to_owned(), |(text, _)| text);
        }
        let less = depth - 1;
        match self.dice.below(20) {
            0 | 1 => format!("{} {} {}", self.truth(less), self.dice.pick(&["&&", "||"]), self.truth(less)),
            2 => format!("!({})", self.truth(less)),
            3 => format!("({} ? {} : {})", self.truth(less), self.truth(less), self.truth(less)),
            4 | 5 => {
                let comparison = self.dice.pick(&["==", "!=", "<", ">="]);
                format!("{} {comparison} {}", self.text(less), self.text(less))
            }
            6 => {
                let function = self.dice.pick(&["startsWith", "endsWith", "contains", "matches", "contains"]);
                let argument =
                    if function == "matches" { "'^a+[b-z]*$'".to_owned() } else { self.text(less) };
                format!("{}.{function}({argument})", self.text(less))
            }
            7 => format!("{} < {}", self.number(less), self.number(less)),
            8 => match self.place(None) {
                Some((text, _)) => format!("{text} == {}", text.replacen("self", "oldSelf", 1)),
                None => "true".to_owned(),
            },
            9 => match self
                .place(Some(Sort::Object))
                .and_then(|(text, schema)| Some((text, self.step(&schema)?)))
            {
                Some((text, (field, _))) => format!("has({text}{field})"),
                None => "false".to_owned(),
            },
            10 => format!("{} in {}", self.text(less), self.texts(less)),
            11 => {
                let function = self.dice.pick(&["contains", "equivalent", "intersects"]);
                format!("sets.{function}({}, {})", self.texts(less), self.texts(less))
            }
            12 => self.library(less),
            13 => match self.place(None) {
                Some((text, _)) => format!("type({text}) == string"),
                None => "true".to_owned(),
            },
            14 => match self.place(Some(Sort::Map)) {
                Some((text, _)) => format!("{} in {text}", self.text(less)),
                None => "false".to_owned(),
            },
            _ => self.quantifier(depth),
        }
    }

    fn library(&mut self, depth: usize) -> String {
        let text = self.text(depth);
        let choices = [
            "isURL(@)",
            "url(@).getHost() == 'a'",
            "url(@) == url(@)",
            "isQuantity(@)",
            "quantity(@).isGreaterThan(quantity('1'))",
            "quantity(@) == quantity('2')",
            "isIP(@)",
            "ip(@).family() == 4",
            "ip(@) == ip('1.2.3.4')",
            "ip.isCanonical(@)",
            "cidr(@).containsIP(@)",
            "cidr(@).containsIP(ip(@))",
            "cidr(@).containsCIDR(@)",
            "cidr(@).ip().isLoopback()",
            "isSemver(@)",
            "semver(@).major() > 1",
            "semver(@) == semver('1.2.3')",
            "!format.dns1123Label().validate(@).hasValue()",
            "format.named(@).hasValue()",
            "format.uri() == format.uuid()",
            "duration(@) > duration('1s')",
            "timestamp(@).getFullYear() > 2000",
            "bytes(@).size() > 2",
            "bytes(@) == b'a'",
            "string(bytes(@)) == @",
            "int(@) > 3",
            "optional.of(@).hasValue()",
            "optional.of(@).orValue('x') == @",
            "dyn(@) == @",
            "@.matches(@)",
            "matches(@, @)",
        ];
        self.dice.pick(&choices).replace('@', &text)
    }

    fn quantifier(&mut self, depth: usize) -> String {
        let (sort, is_pair) = (*self.dice.choose(&[Sort::List, Sort::List, Sort::Map]), self.dice.chance(25));
        let Some((mut range, schema)) = self.place(Some(sort)) else { return "true".to_owned() };
        let element = if sort == Sort::List { &schema["items"] } else { &schema["additionalProperties"] };
        if self.dice.chance(15) {
            let name = self.name();
            let condition = self.within(&[(&name, element)], |writer| writer.truth(1));
            if sort == Sort::List {
                range = format!("{range}.filter({name}, {condition})");
            }
        }
        let text = json!({"type": "string"});
        let number = json!({"type": "integer"});
        let (one, other) = (self.name(), self.name());
        let (names, known): (String, Vec<(&str, &Value)>) = match (sort, is_pair) {
            (Sort::List, false) => (one.clone(), vec![(&one, element)]),
            (Sort::List, true) => (format!("{one}, {other}"), vec![(&one, &number), (&other, element)]),
            (_, false) => (one.clone(), vec![(&one, &text)]),
            (_, true) => (format!("{one}, {other}"), vec![(&one, &text), (&other, element)]),
        };
        let body = self.within(&known, |writer| writer.truth(depth - 1));
        let function = self.dice.pick(&["all", "exists", "all", "exists_one"]);
        let function = if is_pair && function == "exists_one" { "existsOne" } else { function };
        format!("{range}.{function}({names}, {body})")
    }

    fn within(&mut self, names: &[(&str, &Value)], write: impl FnOnce(&mut Self) -> String) -> String {
        let before = self.names.len();
        self.names.extend(names.iter().map(|(name, schema)| ((*name).to_owned(), (*schema).clone())));
        let text = write(self);
        self.names.truncate(before);
        text
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 || self.dice.chance(40) {
            let place = self.place(Some(Sort::Text)).filter(|_| self.dice.chance(75));
            return place.map_or_else(
                || self.dice.pick(&["'a'", "''", "'é and more'", "'10.0.0.0/8'"]).to_owned(),
                |(text, _)| text,
            );
        }
        let less = depth - 1;
        match self.dice.below(14) {
            0 => format!("({} + {})", self.text(less), self.text(less)),
            1 => format!("{}.lowerAscii()", self.text(less)),
            2 => format!("{}.substring({})", self.text(less), self.dice.below(4)),
            3 => format!("{}.replace({}, {})", self.text(less), self.text(less), self.text(less)),
            4 => format!("{}.replace('a', {}, 3)", self.text(less), self.text(less)),
            5 => format!("{}.join({})", self.texts(less), self.text(less)),
            6 => format!("{}.join()", self.texts(less)),
            7 => format!("string({})", self.number(less)),
            8 => format!("({} ? {} : {})", self.truth(less), self.text(less), self.text(less)),
            9 => format!("{}.find('a+')", self.text(less)),
            10 => format!("strings.quote({})", self.text(less)),
            11 => format!("'%s and %d'.format([{}, {}])", self.text(less), self.number(less)),
            12 => format!("{}[0]", self.texts(less)),
            _ => format!("{}.trim()", self.text(less)),
        }
    }

    fn texts(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.dice.pick(&["['a', 'bcd']", "['a']", "'a,b'.split(',')"]).to_owned();
        }
        let less = depth - 1;
        match self.dice.below(12) {
            0 => format!("{}.split({})", self.text(less), self.text(less)),
            1 => format!("{}.split(',', {})", self.text(less), self.dice.pick(&["2", "-1", "0"])),
            2 => format!("{}.findAll('a')", self.text(less)),
            3 => format!("[{}, {}]", self.text(less), self.text(less)),
            4 => format!("({} + {})", self.texts(less), self.texts(less)),
            5 => {
                let function =
                    self.dice.pick(&["reverse()", "distinct()", "sort()", "slice(0, 2)", "sortBy(t, t)"]);
                format!("{}.{function}", self.texts(less))
            }
            6 => format!("[{}, {}].flatten()", self.texts(less), self.texts(less)),
            7..10 => {
                let Some((range, schema)) = self.place(Some(Sort::List)) else { return "['x']".to_owned() };
                let name = self.name();
                let body = self.within(&[(&name, &schema["items"])], |writer| writer.text(less));
                format!("{range}.map({name}, {body})")
            }
            10 => {
                let Some((range, schema)) = self.place(Some(Sort::Map)) else { return "['y']".to_owned() };
                let (key, value) = (self.name(), self.name());
                let text = json!({"type": "string"});
                let known = [(key.as_str(), &text), (value.as_str(), &schema["additionalProperties"])];
                let body = self.within(&known, |writer| writer.text(less));
                format!("{range}.transformList({key}, {value}, {body})")
            }
            _ => match self.place(Some(Sort::List)) {
                Some((text, schema)) if sort(&schema["items"]) == Sort::Text => text,
                _ => "['z', 'zz']".to_owned(),
            },
        }
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 || self.dice.chance(30) {
            return self.place(Some(Sort::Number)).map_or_else(|| "3".to_owned(), |(text, _)| text);
        }
        let less = depth - 1;
        match self.dice.below(8) {
            0 => format!("size({})", self.text(less)),
            1 => format!("{}.size()", self.texts(less)),
            2 => format!("{}.indexOf({})", self.text(less), self.text(less)),
            3 => format!("{}.indexOf({})", self.texts(less), self.text(less)),
            4 => format!("({} + {})", self.number(less), self.number(less)),
            5 => format!("lists.range({}).sum()", self.dice.below(9)),
            6 => match self.place(Some(Sort::List)) {
                Some((text, schema)) if sort(&schema["items"]) == Sort::Number => {
                    format!("{text}.{}()", self.dice.pick(&["sum", "max", "min"]))
                }
                _ => "7".to_owned(),
            },
            _ => match self.place(Some(Sort::List)) {
                Some((text, _)) => format!("{text}.size()"),
                None => "1".to_owned(),
            },
        }
    }
}
