//! What is wrong with the schema of a definition, apart from not being structural.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/validation/validation.go`.

use std::collections::HashSet;

use ferroplane_cancellation::{checkpoint, milestone};
use ferroplane_golang::json;

use super::budget::Budget;
use super::strictness::Strictness;
use crate::field::{BadValue, Error, Path};
use crate::meta::MAX_SHOWN;
use crate::structural::compile_budget::{CompileBudget, TOO_MANY_FIELDS};
use crate::structural::expressions;
use crate::structural::field_path;
use crate::structural::{Additional, Props, ValidationRule, rules};

pub(super) const KINDS: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks a schema and all within it.
pub(super) fn check(
    schema: &Props,
    strictness: &Strictness,
    may_have_rules: bool,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let mut walk = SchemaChecker {
        strictness,
        errors: Vec::new(),
        rule_errors: Vec::new(),
        budget: Budget::default(),
        compiling: CompileBudget::of_one_of(strictness.versions),
    };
    let context = Context { is_root: true, may_have_rules, most: Some(1), ..Context::default() };
    walk.node(schema, context, path);
    errors.extend(walk.errors);
    // Rules come after everything else, as upstream collects them apart.
    errors.extend(walk.rule_errors);
    errors.extend(walk.budget.check(path));
}

/// What a schema inherits from where it stands.
#[derive(Clone, Copy, Default)]
struct Context<'c> {
    is_root: bool,
    is_inside_meta: bool,
    /// Why no defaults may be here.
    forbids_defaults: Option<&'c str>,
    /// Rules here are checked.
    may_have_rules: bool,
    /// Within this list, it is unknown which old item was which.
    uncorrelatable: Option<&'c str>,
    /// How many such values there can be in an object, if lists and maps around it are limited.
    most: Option<u64>,
}

struct SchemaChecker<'w> {
    strictness: &'w Strictness,
    errors: Vec<Error>,
    rule_errors: Vec<Error>,
    budget: Budget,
    compiling: CompileBudget,
}

impl SchemaChecker<'_> {
    fn node(&mut self, schema: &Props, context: Context<'_>, path: &Path<'_>) {
        checkpoint();
        let before = self.errors.len();
        self.standard(schema, context, path);
        if schema.unique_items {
            self.errors.push(Error::forbidden(
                &path.child("uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ));
        }
        if let Some(Ok(pattern)) = schema.pattern.expression() {
            self.weigh(pattern.weight(), &path.child("pattern"));
        }
        self.below(schema, context, path);
        self.extensions(schema, path);
        self.lists(schema, path);
        if self.strictness.requires_sound_keys {
            check_keys(schema, path, &mut self.errors);
        }
        for (index, rule) in schema.validations().iter().enumerate() {
            self.rule(schema, rule, &path.child("x-kubernetes-validations").index(index));
        }
        // What rules would say of a schema with mistakes in it would not help anybody.
        if context.may_have_rules && !schema.validations().is_empty() && self.errors.len() == before {
            self.compile(schema, context, &path.child("x-kubernetes-validations"));
        }
    }

    fn compile(&mut self, schema: &Props, context: Context<'_>, path: &Path<'_>) {
        if !self.has_room_for_rules_of(schema, path) {
            return;
        }
        let is_resource = context.is_root || schema.embedded_resource;
        let Some((compiled, unlimited)) = expressions::estimate(schema, is_resource) else {
            self.rule_errors.push(Error::internal(
                path,
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
                 convert structural schema to CEL declarations",
            ));
            return;
        };
        for (index, compiled) in compiled.iter().enumerate() {
            let at = path.index(index);
            let shown = || BadValue::Text(compiled.rule.internal());
            // A rule runs once per value, so that its cost is multiplied by how many there can be: by the
            // limits of lists and maps around it, or by what fits into a request.
            let cost = compiled.cost.saturating_mul(context.most.unwrap_or(unlimited));
            self.spend("estimated rule cost", cost, &at.child("rule"));
            self.weigh(compiled.pattern_weight(), &at);
            if let Some(Err(problem)) = &compiled.program {
                self.rule_errors.push(Error::invalid(&at.child("rule"), shown(), problem));
            }
            if let Some(Err(problem)) = &compiled.message {
                self.rule_errors.push(Error::invalid(&at.child("messageExpression"), shown(), problem));
            }
            if let Some(Ok(_)) = &compiled.message {
                let what = "estimated messageExpression cost";
                // Not multiplied by the number of values, as upstream has it.
                self.spend(what, compiled.message_cost, &at.child("messageExpression"));
            }
            if compiled.uses_old_self {
                if let Some(within) = context.uncorrelatable {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    self.rule_errors.push(Error::invalid(&at.child("rule"), &compiled.rule.rule, detail));
                }
            } else if let Some(is_optional) = compiled.rule.optional_old_self {
                let detail = "may not be set if oldSelf is not used in rule";
                self.rule_errors.push(Error::invalid(&at.child("optionalOldSelf"), is_optional, detail));
            }
        }
    }

    /// Whether the rules of a schema can be compiled beside those before them. The first ones that cannot are reported.
    fn has_room_for_rules_of(&mut self, schema: &Props, path: &Path<'_>) -> bool {
        let was_exceeded = self.compiling.exceeded().is_some();
        let has_room = self.compiling.admits_rules_of(schema);
        if !has_room && !was_exceeded && !self.strictness.forgives_cost {
            self.errors.push(Error::forbidden(path, TOO_MANY_FIELDS));
        }
        has_room
    }

    fn spend(&mut self, what: &str, cost: u64, path: &Path<'_>) {
        let problem = self.budget.spend(what, cost, path);
        // A new release that estimates higher must not make stored definitions impossible to update.
        self.rule_errors.extend(problem.filter(|_| !self.strictness.forgives_cost));
    }

    fn weigh(&mut self, weight: u64, path: &Path<'_>) {
        let problem = self.compiling.spend(weight, path);
        self.errors.extend(problem.filter(|_| !self.strictness.forgives_cost));
    }

    fn standard(&mut self, schema: &Props, context: Context<'_>, path: &Path<'_>) {
        let kind = schema.kind.as_str();
        if self.strictness.requires_valid_types && !kind.is_empty() && !KINDS.contains(&kind) {
            self.errors.push(Error::not_supported(&path.child("type"), kind, KINDS));
        }
        if let Some(reason) = context.forbids_defaults.filter(|_| schema.default.is_some()) {
            self.errors.push(Error::forbidden(&path.child("default"), format!("must not be set {reason}")));
        }
        let is_there = |map: bool| map;
        let unsupported = [
            (!schema.id.is_empty(), "id"),
            (schema.additional_items.is_some(), "additionalItems"),
            (
                is_there(schema.pattern_properties.as_ref().is_some_and(|map| !map.is_empty())),
                "patternProperties",
            ),
            (is_there(schema.definitions.as_ref().is_some_and(|map| !map.is_empty())), "definitions"),
            (schema.dependencies.is_some(), "dependencies"),
            (schema.reference.is_some(), "$ref"),
        ];
        for (_, name) in unsupported.into_iter().filter(|(is_set, _)| *is_set) {
            self.errors.push(Error::forbidden(&path.child(name), format!("{name} is not supported")));
        }
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.errors.push(Error::forbidden(&path.child("type"), detail));
        }
        if !schema.items_list().is_empty() {
            let detail = "items must be a schema object and not an array";
            self.errors.push(Error::forbidden(&path.child("items"), detail));
        }
        if context.is_inside_meta && schema.embedded_resource {
            let detail = "must not be used inside of resource meta";
            self.errors.push(Error::forbidden(&path.child("x-kubernetes-embedded-resource"), detail));
        }
    }

    fn below(&mut self, schema: &Props, context: Context<'_>, path: &Path<'_>) {
        let most = context.most.zip(most_below(schema)).map(|(most, more)| most.saturating_mul(more));
        let below = Context { is_root: false, most, ..context };
        // Structural schemas allow no rules under junctors, so there is nothing to compile.
        let unruly = Context { may_have_rules: false, ..below };
        // In the order in which Kubernetes goes through them: errors are listed in that order.
        self.additional(schema, below, path);
        self.properties(schema, context, below, path);
        self.junctors(schema, unruly, path);
        for (name, definition) in schema.definitions.iter().flatten() {
            self.node(definition, unruly, &path.child("definitions").key(name));
        }
        self.items(schema, below, path);
        for (name, dependency) in schema.dependencies.iter().flatten() {
            if let Some(schema) = &dependency.schema {
                self.node(schema, unruly, &path.child("dependencies").key(name));
            }
        }
    }

    fn additional(&mut self, schema: &Props, below: Context<'_>, path: &Path<'_>) {
        let Some(additional) = &schema.additional_properties else { return };
        let at = path.child("additionalProperties");
        if schema.has_properties() && !matches!(additional, Additional::Allowed(true)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.push(Error::forbidden(&at, detail));
        }
        if let Some(schema) = additional.schema() {
            let reason = "inside additionalProperties applying to object metadata";
            let forbids_defaults = if below.is_inside_meta { Some(reason) } else { below.forbids_defaults };
            self.node(schema, Context { forbids_defaults, ..below }, &at);
        }
    }

    fn properties(&mut self, schema: &Props, context: Context<'_>, below: Context<'_>, path: &Path<'_>) {
        for (name, property) in schema.properties() {
            let is_meta = (context.is_root || schema.embedded_resource)
                && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
            let reason = format!("in top-level {name}");
            let is_top_level = is_meta && context.is_root;
            let context = Context {
                is_inside_meta: below.is_inside_meta || is_meta,
                forbids_defaults: if is_top_level { Some(&reason) } else { below.forbids_defaults },
                ..below
            };
            self.node(property, context, &path.child("properties").key(name));
        }
    }

    fn junctors(&mut self, schema: &Props, unruly: Context<'_>, path: &Path<'_>) {
        if let Some(not) = &schema.not {
            self.node(not, unruly, &path.child("not"));
        }
        for (name, list) in
            [("allOf", schema.all_of()), ("oneOf", schema.one_of()), ("anyOf", schema.any_of())]
        {
            for (index, nested) in list.iter().enumerate() {
                self.node(nested, unruly, &path.child(name).index(index));
            }
        }
    }

    fn items(&mut self, schema: &Props, below: Context<'_>, path: &Path<'_>) {
        let list = path.to_string();
        let is_correlatable = schema.is_list_type("map");
        // The outermost such list is named. Maps and objects are correlated by name, so that only lists can
        // break the chain.
        let uncorrelatable = below.uncorrelatable.or((!is_correlatable).then_some(list.as_str()));
        let below = Context { uncorrelatable, ..below };
        if let Some(item) = schema.item() {
            self.node(item, below, &path.child("items"));
        }
        for (index, item) in schema.items_list().iter().enumerate() {
            self.node(item, below, &path.child("items").index(index));
        }
    }

    fn extensions(&mut self, schema: &Props, path: &Path<'_>) {
        if schema.preserve_unknown_fields == Some(false) {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors.push(Error::invalid(&at, false, "must be true or undefined"));
        }
        if let Some(map_type) = &schema.map_type {
            self.kind_for(schema, "object", "must be object if x-kubernetes-map-type is specified", path);
            if !matches!(map_type.as_str(), "atomic" | "granular") {
                let at = path.child("x-kubernetes-map-type");
                self.errors.push(Error::not_supported(&at, map_type, ["atomic", "granular"]));
            }
        }
    }

    fn kind_for(&mut self, schema: &Props, wanted: &str, detail: &str, path: &Path<'_>) {
        let at = path.child("type");
        if schema.kind.is_empty() {
            self.errors.push(Error::required(&at, detail));
        } else if schema.kind != wanted {
            self.errors.push(Error::invalid(&at, &schema.kind, detail));
        }
    }

    fn lists(&mut self, schema: &Props, path: &Path<'_>) {
        let type_path = path.child("x-kubernetes-list-type");
        if let Some(list_type) = &schema.list_type {
            if schema.kind != "array" {
                self.kind_for(schema, "array", "must be array if x-kubernetes-list-type is specified", path);
            } else if self.strictness.requires_atomic_sets {
                self.set(schema, path);
            }
            if !matches!(list_type.as_str(), "atomic" | "set" | "map") {
                self.errors.push(Error::not_supported(&type_path, list_type, ["atomic", "set", "map"]));
            }
        }
        if !schema.list_map_keys().is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match schema.list_type.as_deref() {
                None => self.errors.push(Error::required(&type_path, detail)),
                Some("map") => {}
                Some(other) => self.errors.push(Error::invalid(&type_path, other, detail)),
            }
        }
        if schema.is_list_type("map") {
            self.list_map(schema, path);
        }
    }

    fn set(&mut self, schema: &Props, path: &Path<'_>) {
        const DETAIL: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let Some(item) = schema.item().filter(|_| has_loose_set(schema)) else { return };
        let name = if item.kind == "array" { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
        // Kubernetes shows the type of the list in both cases.
        let shown = serde_json::Value::from(item.list_type.as_deref());
        let path = path.child("items");
        self.errors.push(Error::invalid(&path.child(name), BadValue::Text(json::marshal(&shown)), DETAIL));
    }

    fn list_map(&mut self, schema: &Props, path: &Path<'_>) {
        let keys_path = path.child("x-kubernetes-list-map-keys");
        let items_path = path.child("items");
        let keys = schema.list_map_keys();
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(Error::required(&keys_path, detail));
        }
        let Some(items) = &schema.items else {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            self.errors.push(Error::required(&items_path, detail));
            return;
        };
        let Some(item) = schema.item() else {
            let shown = BadValue::Text(items.internal());
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            self.errors.push(Error::invalid(&items_path, shown, detail));
            return;
        };
        if item.kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(Error::invalid(&items_path.child("type"), &item.kind, detail));
            return;
        }
        self.list_map_keys(keys, item, path);
    }

    fn list_map_keys(&mut self, keys: &[String], item: &Props, path: &Path<'_>) {
        let keys_path = path.child("x-kubernetes-list-map-keys");
        let items_path = path.child("items");
        let shown = || BadValue::Json(keys.to_vec().into());
        let mut seen = HashSet::with_capacity(keys.len());
        let mut shown_times = 0;
        for key in keys {
            // Each mistake shows all keys, so that there is an end to it.
            if shown_times >= MAX_SHOWN {
                break;
            }
            match item.property(key) {
                Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                    let at = items_path.child("properties");
                    let at = at.key(key);
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(Error::invalid(&at.child("type"), &item.kind, detail));
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    shown_times += 1;
                    self.errors.push(Error::invalid(&keys_path, shown(), detail));
                }
            }
            if !seen.insert(key) {
                shown_times += 1;
                self.errors.push(Error::invalid(&keys_path, shown(), "must not contain duplicate entries"));
            }
        }
    }

    fn rule(&mut self, schema: &Props, rule: &ValidationRule, path: &Path<'_>) {
        milestone();
        let has_break = |text: &str| text.contains(['\n', '\r']);
        let (trimmed, message) = (rule.rule.trim(), rule.message.trim());
        let message_path = path.child("message");
        if trimmed.is_empty() {
            self.errors.push(Error::required(&path.child("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            self.errors.push(Error::invalid(&message_path, &rule.message, "must be non-empty if specified"));
        } else if has_break(message) {
            self.errors.push(Error::invalid(&message_path, &rule.message, "must not contain line breaks"));
        } else if has_break(trimmed) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.errors.push(Error::required(&message_path, detail));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            self.errors.push(Error::required(&path.child("messageExpression"), detail));
        }
        if let Some(reason) = rule.reason.as_ref().filter(|reason| !REASONS.contains(&reason.as_str())) {
            self.errors.push(Error::not_supported(&path.child("reason"), reason, REASONS));
        }
        let field_path = &rule.field_path;
        let at = path.child("fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            self.errors.push(Error::invalid(&at, field_path, "must be non-empty if specified"));
        }
        if has_break(field_path) {
            self.errors.push(Error::invalid(&at, field_path, "must not contain line breaks"));
        }
        let is_known =
            || rules::unsupported(schema).is_some() || field_path::resolve(field_path, schema, true).is_ok();
        if !field_path.is_empty() && !is_known() {
            self.errors.push(Error::invalid(&at, field_path, "must be a valid path"));
        }
    }
}

/// How many values of one kind there can be within such a value, if that is limited.
fn most_below(schema: &Props) -> Option<u64> {
    let limit = match schema.kind.as_str() {
        "object" if schema.additional_properties.is_some() => schema.max_properties,
        "array" => schema.max_items,
        _ => Some(1),
    };
    limit.map(|limit| limit.max(0).unsigned_abs())
}

/// Whether it is a set of things that can be changed in part.
pub(super) fn has_loose_set(schema: &Props) -> bool {
    let Some(item) = schema.item().filter(|_| schema.is_list_type("set")) else { return false };
    match item.kind.as_str() {
        "array" => item.list_type.as_deref().is_some_and(|list_type| list_type != "atomic"),
        "object" => item.map_type.as_deref() != Some("atomic"),
        _ => false,
    }
}

/// Whether it says something that only Kubernetes understands.
pub(super) fn has_extension(schema: &Props) -> bool {
    schema.embedded_resource
        || schema.preserve_unknown_fields.is_some()
        || schema.int_or_string
        || !schema.list_map_keys().is_empty()
        || schema.list_type.is_some()
        || !schema.validations().is_empty()
}

/// Items of sets and maps cannot be null, and their keys must always be there.
pub(super) fn check_keys(schema: &Props, path: &Path<'_>, errors: &mut Vec<Error>) {
    let Some(item) = schema.item() else { return };
    let Some(list_type @ ("set" | "map")) = schema.list_type.as_deref() else { return };
    let path = path.child("items");
    if item.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&path.child("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    for key in schema.list_map_keys() {
        let Some(property) = item.property(key) else { continue };
        let path = path.child("properties");
        let at = path.key(key);
        if !item.required().contains(key) && property.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&at.child("default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&at.child("nullable"), detail));
        }
    }
}

/// With a status subresource, the root may only say what can also be said without the status.
pub(super) fn check_root_with_status(
    schema: &Props,
    shown: impl FnOnce() -> BadValue,
    path: &Path<'_>,
    at: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                           MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                           ExternalDocs Example XPreserveUnknownFields XValidations";
    let is_disallowed_first =
        !schema.id.is_empty() || !schema.schema.is_empty() || schema.reference.is_some();
    let is_disallowed_later = schema.nullable
        || schema.default.is_some()
        || schema.values.is_some()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || schema.all_of.is_some()
        || schema.one_of.is_some()
        || schema.any_of.is_some()
        || schema.not.is_some()
        || schema.additional_properties.is_some()
        || schema.pattern_properties.is_some()
        || schema.dependencies.is_some()
        || schema.additional_items.is_some()
        || schema.definitions.is_some()
        || schema.embedded_resource
        || schema.int_or_string
        || schema.list_map_keys.is_some()
        || schema.list_type.is_some()
        || schema.map_type.is_some();
    let is_wrong_kind = !schema.kind.is_empty() && schema.kind != "object";
    if is_wrong_kind && !is_disallowed_first {
        errors.push(Error::invalid(
            &path.child("openAPIV3Schema.type"),
            &schema.kind,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    } else if is_disallowed_first || is_disallowed_later {
        let detail = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(Error::invalid(at, shown(), detail));
    }
}
