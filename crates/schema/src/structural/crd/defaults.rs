//! Defaults must be values that could be sent: nothing that would be pruned, metadata in order, and valid.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/defaulting/validation.go`.

use serde_json::{Map, Value};

use super::strictness::Strictness;
use crate::field::{Error, Path, aggregate};
use crate::structural::coerce::{self, Coercion};
use crate::structural::compile::{Purpose, SchemaNode};
use crate::structural::compile_budget::CompileBudget;
use crate::structural::expressions::{self, CompiledRules};
use crate::structural::surround::PathToRoot;
use crate::structural::{Props, prune, validate};

/// What is wrong with the defaults of a resource's schema.
pub(super) fn check(props: &Props, strictness: &Strictness, path: &Path<'_>) -> Vec<Error> {
    let structure = SchemaNode::compile(props, Purpose::Objects, false);
    let checker = SchemaNode::compile(props, Purpose::Defaults, false);
    let mut walk = DefaultsChecker {
        strictness,
        errors: Vec::new(),
        budget: expressions::BUDGET,
        compiling: CompileBudget::for_defaults_of_one_of(strictness.versions),
    };
    // Patterns that are too much are reported with the schema. They must not be compiled before for the sake of its defaults.
    if structure.has_defaults && !has_too_heavy_patterns(props, strictness.versions) {
        let place = DefaultLocation { root: &structure, way: PathToRoot::Root, is_inside_meta: false };
        walk.node(props, &structure, &checker, place, true, path);
    }
    walk.errors
}

fn has_too_heavy_patterns(props: &Props, versions: usize) -> bool {
    let mut budget = CompileBudget::of_one_of(versions);
    props.has(&mut |schema| match schema.pattern.expression() {
        Some(Ok(expression)) => !budget.admits(expression.weight()),
        Some(Err(_)) | None => false,
    })
}

/// The schema after Kubernetes has validated its defaults, which coerces them in passing.
pub(super) fn coerced(props: &Props) -> Props {
    fn visit(props: &mut Props, is_resource: bool, is_inside_meta: bool) {
        let is_resource = is_resource || props.embedded_resource;
        let is_inside_meta = is_inside_meta && !is_resource;
        if let Some(mut default) = props.default.clone().filter(|_| !is_inside_meta) {
            let node = SchemaNode::compile(props, Purpose::Objects, false);
            let _ = coerce::coerce_value(&mut default, &node, is_resource, Coercion::Strict, &Path::NIL);
            props.default = Some(default);
        }
        if let Some(item) = props.items.as_mut().and_then(|items| items.schema.as_deref_mut()) {
            visit(item, false, is_inside_meta);
        }
        for (name, property) in props.properties.iter_mut().flatten() {
            let is_meta = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            visit(property, false, is_inside_meta || is_meta);
        }
    }
    let mut props = props.clone();
    visit(&mut props, true, false);
    props
}

struct DefaultsChecker<'s> {
    strictness: &'s Strictness,
    errors: Vec<Error>,
    /// What rules may still cost.
    budget: i64,
    /// What compiling rules may cost. They are compiled anew for each default.
    compiling: CompileBudget,
}

/// Where a schema stands in the resource around it.
#[derive(Clone, Copy)]
struct DefaultLocation<'p> {
    root: &'p SchemaNode,
    way: PathToRoot<'p>,
    is_inside_meta: bool,
}

impl DefaultsChecker<'_> {
    fn node(
        &mut self,
        props: &Props,
        node: &SchemaNode,
        checker: &SchemaNode,
        place: DefaultLocation<'_>,
        is_root: bool,
        path: &Path<'_>,
    ) {
        if !node.has_defaults || self.budget < 0 {
            return;
        }
        let is_resource = is_root || node.is_embedded;
        // An embedded resource is the root of its own object: its metadata is what "inside meta" is about.
        let place = if is_resource {
            DefaultLocation { root: node, way: PathToRoot::Root, is_inside_meta: false }
        } else {
            place
        };
        if let Some(default) = &props.default {
            let at = path.child("default");
            if place.is_inside_meta {
                self.meta_default(props, default, checker, place, &at);
            } else {
                self.default(props, default, node, checker, is_resource, &at);
            }
        }
        if let (Some(item), Some(below), Some(checker)) = (props.item(), &node.items, &checker.items) {
            let place = DefaultLocation { way: PathToRoot::Item(&place.way), ..place };
            self.node(item, below, checker, place, false, &path.child("items"));
        }
        for (name, property) in props.properties() {
            let (Some(below), Some(checker)) = (node.property(name), checker.property(name)) else {
                continue;
            };
            let is_meta = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let is_inside_meta = place.is_inside_meta || is_meta;
            let place = DefaultLocation { way: PathToRoot::Field(&place.way, name), is_inside_meta, ..place };
            self.node(property, below, checker, place, false, &path.child("properties").key(name));
        }
    }

    fn default(
        &mut self,
        props: &Props,
        default: &Value,
        node: &SchemaNode,
        checker: &SchemaNode,
        is_resource: bool,
        at: &Path<'_>,
    ) {
        let mut coerced = default.clone();
        let outcome = coerce::coerce_value(&mut coerced, node, is_resource, Coercion::Strict, at);
        if self.strictness.requires_pruned_defaults {
            let mut pruned = default.clone();
            prune::prune_value(&mut pruned, node, is_resource);
            if pruned != *default {
                // By the time that Kubernetes shows the value, it is coerced.
                self.errors.push(Error::invalid(at, &coerced, "must not have unknown fields"));
            }
        }
        if let Err(error) = outcome {
            self.errors.push(error);
            return;
        }
        let errors = coerce::check_value(&coerced, node, is_resource, at);
        if !errors.is_empty() {
            self.errors.extend(errors);
            return;
        }
        self.value(props, &coerced, checker, is_resource, at);
    }

    /// A default must also pass the rules, whether it replaces itself or nothing.
    fn value(
        &mut self,
        props: &Props,
        default: &Value,
        checker: &SchemaNode,
        is_resource: bool,
        at: &Path<'_>,
    ) {
        let errors = validate::validate(checker, default, at);
        if !errors.is_empty() {
            self.errors.extend(errors);
            return;
        }
        let Some(rules) = CompiledRules::compile(props, is_resource, &mut self.compiling) else { return };
        if let Some(reason) = self.compiling.exceeded() {
            self.give_up(reason, at);
            return;
        }
        // A default may be put into a new object or meet itself in an update; transition rules run only in
        // the second case.
        let mut errors = rules.check(default, Some(default), at, &mut self.budget);
        if errors.is_empty() {
            errors = rules.check(default, None, at, &mut self.budget);
        }
        self.errors.extend(errors);
    }

    /// Ends the walk. What was stored before there was a limit may be kept.
    fn give_up(&mut self, reason: &'static str, at: &Path<'_>) {
        if !self.strictness.forgives_cost {
            self.errors.push(Error::forbidden(at, reason));
        }
        self.budget = -1;
    }

    fn meta_default(
        &mut self,
        props: &Props,
        default: &Value,
        checker: &SchemaNode,
        place: DefaultLocation<'_>,
        at: &Path<'_>,
    ) {
        let mut object = place.way.surround(default.clone());
        if let Value::Object(fields) = &mut object {
            name_type(fields);
        }
        let coerced = coerce::coerce_value(&mut object, place.root, true, Coercion::Strict, &Path::NIL);
        let problem = if let Err(error) = coerced {
            Some(error.to_string())
        } else {
            let errors = coerce::check_value(&object, place.root, true, &Path::NIL);
            (!errors.is_empty()).then(|| aggregate(&errors))
        };
        match problem {
            Some(problem) => {
                self.errors.push(Error::invalid(
                    at,
                    default,
                    format!("must result in valid metadata: {problem}"),
                ));
            }
            None => self.value(props, default, checker, false, at),
        }
    }
}

/// An object has to be of some type to be checked.
fn name_type(fields: &mut Map<String, Value>) {
    for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
        fields.entry(name).or_insert_with(|| Value::from(value));
    }
}
