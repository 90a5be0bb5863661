//! Rules, ready to be evaluated.

use ferroplane_cel::{Environment, Program, Type};
use ferroplane_golang::regexp::Expression;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Severity, Target};

use super::input::{self, Validation};
use crate::pattern_budget::PatternBudget;

/// What every rule can check.
pub(super) const VARIABLES: [&str; 5] =
    ["observed", "desired", "context", "requiredResources", "extraResources"];
/// What a rule about composed resources calls each of them.
pub(super) const SELF: &str = "self";
/// More rules than this are not for one step.
const MOST_RULES: usize = 1_000;

#[derive(Debug)]
pub(super) struct Rules(pub(super) Vec<Rule>);

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) program: Program,
    pub(super) message: Option<String>,
    pub(super) message_program: Option<Program>,
    pub(super) severity: Severity,
    pub(super) target: Target,
    pub(super) reason: Option<String>,
    pub(super) selector: Option<Selector>,
}

#[derive(Debug)]
pub(super) struct Selector {
    names: Option<Vec<String>>,
    pattern: Option<Expression>,
    api_version: Option<String>,
    kind: Option<String>,
}

impl Selector {
    /// The expression that names have to match.
    pub(super) fn pattern(&self) -> Option<&Expression> {
        self.pattern.as_ref()
    }

    pub(super) fn selects(&self, name: &str, api_version: &str, kind: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|candidate| candidate == name))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(name))
            && self.api_version.as_ref().is_none_or(|wanted| wanted == api_version)
            && self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }
}

impl Rules {
    /// The rules of an input, or everything that is wrong with them.
    pub(super) fn read(input: &Struct) -> Result<Self, String> {
        let wrong = |error: String| format!("cannot get Function input: {error}");
        let json = input.json().map_err(|error| wrong(error.to_string()))?;
        let validation: Validation =
            serde_path_to_error::deserialize(json).map_err(|error| wrong(error.to_string()))?;
        let written = validation.rules.unwrap_or_default();
        if written.len() > MOST_RULES {
            return Err(wrong(format!("rules: {} rules are more than {MOST_RULES}", written.len())));
        }
        let compiled: Vec<_> =
            written.into_iter().enumerate().map(|(index, rule)| compile(index, rule)).collect();
        // All mistakes at once, so that the author need not find them one by one.
        let problems: Vec<_> = compiled.iter().filter_map(|rule| rule.as_ref().err().cloned()).collect();
        if !problems.is_empty() {
            return Err(problems.join("\n"));
        }
        let rules = Self(compiled.into_iter().flatten().collect());
        rules.bound_patterns().map_err(wrong)?;
        Ok(rules)
    }

    /// Refuses what could not be run in time: expressions are compiled when they are first used, and then kept with the input.
    fn bound_patterns(&self) -> Result<(), String> {
        let mut budget = PatternBudget::default();
        for rule in &self.0 {
            let programs = [Some(&rule.program), rule.message_program.as_ref()].into_iter().flatten();
            let pattern = rule.selector.as_ref().and_then(|selector| selector.pattern.as_ref());
            let mut weights = programs.map(Program::pattern_weight).chain(pattern.map(Expression::weight));
            let spent = weights.try_for_each(|weight| budget.spend(weight));
            spent.map_err(|problem| format!("rules: rule {}: {problem}", quote(&rule.name)))?;
        }
        Ok(())
    }

    pub(super) fn use_variable(&self, name: &str) -> bool {
        let programs = self.0.iter().flat_map(|rule| [Some(&rule.program), rule.message_program.as_ref()]);
        programs.flatten().any(|program| program.uses(name))
    }
}

fn compile(index: usize, written: input::Rule) -> Result<Rule, String> {
    let name = written.name.unwrap_or_else(|| format!("rules[{index}]"));
    let refused = |what: &str, reason: &str| format!("cannot compile {what} {}: {reason}", quote(&name));
    let source = written.expression.filter(|rule| !rule.trim().is_empty());
    let source = source.ok_or_else(|| refused("rule", "it has no expression"))?;
    let selector = written.resources.map(selector).transpose();
    let selector = selector.map_err(|reason| refused("the pattern of rule", &reason))?;
    let environment = environment(selector.is_some());
    let program = environment.compile(&source).map_err(|error| refused("rule", &error.to_string()))?;
    expect(&program, &Type::Bool, "true or false").map_err(|reason| refused("rule", &reason))?;
    let message_program = match written.message_expression {
        None => None,
        Some(source) => {
            let what = "the message of rule";
            let program = environment.compile(&source).map_err(|error| refused(what, &error.to_string()))?;
            expect(&program, &Type::String, "a string").map_err(|reason| refused(what, &reason))?;
            Some(program)
        }
    };
    Ok(Rule {
        name,
        source,
        program,
        message: written.message.filter(|message| !message.is_empty()),
        message_program,
        severity: match written.severity {
            Some(input::Severity::Warning) => Severity::Warning,
            _ => Severity::Fatal,
        },
        target: match written.target {
            Some(input::Target::CompositeAndClaim) => Target::CompositeAndClaim,
            _ => Target::Composite,
        },
        reason: written.reason.filter(|reason| !reason.is_empty()),
        selector,
    })
}

fn selector(written: input::Selector) -> Result<Selector, String> {
    // In a group, so that an alternative is anchored at both ends, unlike in the sequencer.
    let pattern = written.pattern.map(|pattern| Expression::new(&format!("^(?:{pattern})$")));
    let pattern = pattern.transpose().map_err(|error| error.to_string())?;
    Ok(Selector { names: written.names, pattern, api_version: written.api_version, kind: written.kind })
}

fn environment(has_self: bool) -> Environment {
    let declare = |environment: Environment, name| environment.variable(name, Type::Dyn);
    let environment = VARIABLES.into_iter().fold(Environment::new().weighed_patterns(), declare);
    if has_self { environment.variable(SELF, Type::Dyn) } else { environment }
}

/// What an expression gives is often known before it is evaluated.
fn expect(program: &Program, wanted: &Type, words: &str) -> Result<(), String> {
    let found = program.result_type();
    if found == wanted || *found == Type::Dyn {
        return Ok(());
    }
    Err(format!("it must give {words}, not {found}"))
}
