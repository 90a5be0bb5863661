//! Rules about objects that do not exist.

use ferroplane_api::Object;

use super::{Suspect, describe};
use crate::finding::Finding;
use crate::id::Id;
use crate::look::{Role, condition, custom_kind, definition_of, definitions, text_at};
use crate::snapshot::{Home, State};

/// The definition of a kind, by the word of the user.
fn definition<'a>(suspect: &Suspect<'a>) -> Option<(&'a Object, Role)> {
    if suspect.state != Some(&State::UnknownKind) {
        return if suspect.role == Role::Definition {
            suspect.object.map(|object| (object, Role::Composite))
        } else {
            definition_of(suspect.snapshot, suspect.id)
        };
    }
    let wanted = suspect.id.kind.to_lowercase();
    let (word, group) = wanted.split_once('.').map_or((wanted.as_str(), ""), |(word, group)| (word, group));
    definition_of(suspect.snapshot, suspect.id).or_else(|| {
        suspect.snapshot.list(&definitions()).find_map(|definition| {
            if !group.is_empty() && text_at(definition, &["spec", "group"]) != group {
                return None;
            }
            let is = |names: &str| {
                let parts = ["kind", "plural", "singular"].into_iter();
                parts
                    .map(|part| text_at(definition, &["spec", names, part]).to_lowercase())
                    .any(|it| it == word)
            };
            let role = if is("names") { Role::Composite } else { Role::Claim };
            (is("names") || is("claimNames")).then_some((definition, role))
        })
    })
}

fn condition_of(role: Role) -> &'static str {
    if role == Role::Claim { "Offered" } else { "Established" }
}

pub(super) fn definition_invalid(suspect: &Suspect<'_>) -> Option<Finding> {
    let (definition, role) = definition(suspect)?;
    let condition = condition(definition, condition_of(role))?;
    if condition.is_true() || condition.message.is_empty() {
        return None;
    }
    let id = Id::of(definition);
    let cause = Finding::new(&id, condition.message).since(condition.since);
    Some(cause.advice(format!("correct the definition: kubectl edit {}", id.arguments())))
}

pub(super) fn not_established(suspect: &Suspect<'_>) -> Option<Finding> {
    let (definition, role) = definition(suspect)?;
    let (id, word) = (Id::of(definition), condition_of(role));
    let established = condition(definition, word);
    if established.is_some_and(|established| established.is_true()) {
        return crd_not_established(suspect, definition, role);
    }
    let since = super::since(definition, word);
    let message = match established {
        Some(condition) => format!("is not {}: {}", word.to_lowercase(), condition.reason),
        None => format!("is not {} yet: is the control plane running?", word.to_lowercase()),
    };
    Some(Finding::new(&id, &message).since(&since).advice(describe(&id)))
}

fn crd_not_established(suspect: &Suspect<'_>, definition: &Object, role: Role) -> Option<Finding> {
    let id = custom_kind(definition, if role == Role::Claim { "claimNames" } else { "names" });
    match suspect.snapshot.state(&id)? {
        State::Here(crd) => {
            let wrong = ["NamesAccepted", "Established"].into_iter().filter_map(|kind| condition(crd, kind));
            let wrong = wrong.into_iter().find(|condition| !condition.is_true())?;
            let message = format!("{} is {}: {}", wrong.kind, wrong.status, wrong.words());
            Some(Finding::new(&id, &message).since(wrong.since).advice(describe(&id)))
        }
        State::Missing => {
            let cause = Finding::new(&id, "is not there, although its XRD is established")
                .since(&super::since(definition, "Established"));
            Some(cause.advice(describe(&Id::of(definition))))
        }
        _ => None,
    }
}

pub(super) fn no_definition(suspect: &Suspect<'_>) -> Option<Finding> {
    if suspect.state != Some(&State::UnknownKind) || suspect.above.is_some() {
        return None;
    }
    let message = format!("no XRD and no CRD defines the kind `{}`", suspect.id.kind);
    let mut cause = Finding::new(suspect.id, &message).advice("kubectl get xrd");
    let similar = suspect.snapshot.list(&definitions()).map(|it| text_at(it, &["spec", "names", "kind"]));
    let similar: Vec<_> = similar.filter(|kind| is_similar(kind, &suspect.id.kind)).collect();
    if let Some(similar) = similar.first() {
        cause.message.push_str(&format!(": did you mean `{similar}`?"));
    }
    Some(cause)
}

fn is_similar(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    one.starts_with(&other) || other.starts_with(&one)
}

pub(super) fn no_kind(suspect: &Suspect<'_>) -> Option<Finding> {
    let above =
        suspect.above.filter(|_| suspect.state == Some(&State::UnknownKind) && !suspect.is_leaving)?;
    let Id { api_version, kind, .. } = suspect.id;
    let message = match suspect.snapshot.home() {
        Home::Cluster => {
            format!("the API server has no kind {kind} in {api_version}: its provider is not installed")
        }
        Home::Embedded => {
            format!("the API server has no kind {kind} in {api_version}: its CRD is not installed")
        }
    };
    let cause = Finding::new(suspect.id, &message).since(&super::since(above, "Synced"));
    Some(install(cause, &format!("{kind} in {api_version}")))
}

/// How a kind comes to an API server.
pub(super) fn install(finding: Finding, kind: &str) -> Finding {
    finding
        .advice(format!("install the Provider, or apply the CRD, that has {kind}"))
        .advice("kubectl get providers,crds")
}

pub(super) fn unreadable(suspect: &Suspect<'_>) -> Option<Finding> {
    let Some(State::Unreadable(why)) = suspect.state else { return None };
    let cause = Finding::new(suspect.id, &format!("cannot be read: {why}"));
    let kind = suspect.id.kind.to_lowercase();
    Some(cause.advice(format!("kubectl auth can-i get {kind}.{}", suspect.id.group())))
}

pub(super) fn not_found(suspect: &Suspect<'_>) -> Option<Finding> {
    if suspect.state != Some(&State::Missing) {
        return None;
    }
    let Some(above) = suspect.above else {
        let kind = if suspect.id.group().is_empty() {
            suspect.id.kind.clone()
        } else {
            format!("{}.{}", suspect.id.kind, suspect.id.group())
        };
        let kind = kind.to_lowercase();
        return Some(Finding::new(suspect.id, "does not exist").advice(format!("kubectl get {kind} -A")));
    };
    // Why something was not made is said by what should have made it.
    if suspect.is_leaving || crate::look::synced(above).is_some_and(|synced| !synced.is_true()) {
        return None;
    }
    let id = Id::of(above);
    let message = format!("does not exist, although {id} refers to it: it was deleted, or is being created");
    Some(Finding::new(suspect.id, &message).since(&super::since(above, "Ready")).advice(describe(&id)))
}
