//! Which objects a client wants to see.

use bytes::Bytes;
use ferroplane_schema::selector::{FieldSelector, LabelSelector};
use ferroplane_schema::status::Status;

use super::view::{VersionedObject, View};
use crate::options::ListOptions;
use crate::store::Entry;

/// Objects in a namespace or everywhere, by labels and fields.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) view: View,
    pub(crate) namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// Whether objects must be parsed to know.
    looks_inside: bool,
}

impl Selection {
    /// Refuses selectors for fields that cannot be selected by.
    pub(crate) fn new(view: View, namespace: &str, options: &ListOptions) -> Result<Self, Status> {
        view.version().selectable.check(&options.fields).map_err(|why| Status::bad_request(&why))?;
        // Name and namespace are part of the key, so that objects need not be parsed for them.
        let is_inside = |field: &str| !matches!(field, "metadata.name" | "metadata.namespace");
        Ok(Self {
            view,
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            labels: options.labels.clone(),
            looks_inside: options
                .fields
                .requirements()
                .iter()
                .any(|requirement| is_inside(&requirement.field)),
            fields: options.fields.clone(),
        })
    }

    /// Whether everything in the namespace is wanted.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only object that can be wanted, if there is but one: its namespace and name.
    pub(crate) fn single(&self) -> Option<(&str, &str)> {
        let name = self.fields.required_value("metadata.name")?;
        match &self.namespace {
            Some(namespace) => Some((namespace, name)),
            None if !self.view.resource.is_namespaced => Some(("", name)),
            None => None,
        }
    }

    /// Whether objects have to be converted to know.
    pub(crate) fn needs_conversion(&self) -> bool {
        self.looks_inside && self.view.converter().is_some()
    }

    /// Whether an object is wanted. Where a webhook converts what is stored, it must have done so.
    pub(crate) fn matches(&self, entry: &Entry, converted: Option<&Bytes>) -> bool {
        let key = entry.key();
        if self.namespace.as_deref().is_some_and(|namespace| namespace != key.namespace()) {
            return false;
        }
        if !self.labels.is_empty() && !self.labels.matches(|label| entry.metadata().labels.get(label)) {
            return false;
        }
        if self.looks_inside {
            let seen = converted.map_or_else(
                || self.view.convert_locally(entry.bytes()),
                |it| VersionedObject::Bytes(it.clone()),
            );
            let object = seen.into_value();
            return self.view.version().selectable.matches(&self.fields, &object);
        }
        self.fields.is_empty()
            || self.fields.matches(|field| match field {
                "metadata.name" => Some(key.name()),
                "metadata.namespace" => Some(key.namespace()),
                _ => None,
            })
    }
}
