//! What expressions about a request can see, as webhooks have them that want to be asked only sometimes.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/admission/plugin/webhook/matchconditions`, `pkg/admission/plugin/cel`.

use std::sync::{Arc, LazyLock};

use ferroplane_cel::{Environment, Program, Struct, Type};

/// Why an expression cannot be a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is invalid.
    Invalid(String),
    /// It makes sense, but cannot be made ready.
    Internal(String),
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let environment = Environment::new().variable("object", Type::Dyn).variable("oldObject", Type::Dyn);
    environment.variable("namespaceObject", Type::Dyn).variable("request", request())
});

/// A condition that must hold for a request.
pub fn condition(expression: &str) -> Result<Program, Refusal> {
    let mistyped = |kind: &Type| Refusal::Invalid(format!("must evaluate to bool but got {kind}"));
    match ENVIRONMENT.compile(expression) {
        Ok(program) if *program.result_type() == Type::Bool => Ok(program),
        Ok(program) => Err(mistyped(program.result_type())),
        Err(error) => Err(match error.incomputable() {
            None => Refusal::Invalid(format!("compilation failed: {error}")),
            Some(known) if known.result_type != Type::Bool => mistyped(&known.result_type),
            Some(_) => Refusal::Internal(format!("program instantiation failed: {error}")),
        }),
    }
}

fn request() -> Type {
    let texts = || Type::List(Box::new(Type::String));
    let named = |what: &str, last: &str| {
        let fields = ["group", "version", last].map(|name| (name, Type::String));
        object(what, fields)
    };
    let kind = || named("GroupVersionKind", "kind");
    let resource = || named("GroupVersionResource", "resource");
    let extra = Type::Map(Box::new(Type::String), Box::new(texts()));
    let user = [("username", Type::String), ("uid", Type::String), ("groups", texts()), ("extra", extra)];
    object(
        "AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", Type::String),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", object("UserInfo", user)),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn object<'f>(name: &str, fields: impl IntoIterator<Item = (&'f str, Type)>) -> Type {
    let fields = fields.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    Type::Struct(Arc::new(Struct { name: format!("kubernetes.{name}"), fields }))
}
