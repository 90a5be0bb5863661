//! Reads `Accept` headers.

use ferroplane_schema::status::Status;
use http::HeaderMap;
use http::header::ACCEPT;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
}

impl Form {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What of objects is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presentation {
    Objects(Form),
    /// As rows, by a version of `meta.k8s.io`.
    Table(Form, &'static str),
    /// Only metadata, by a version of `meta.k8s.io`: of one object, or of a list.
    Metadata(Form, &'static str, Amount),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    One,
    Many,
}

/// The form of discovery that a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// Everything at once, by a version of `apidiscovery.k8s.io`.
    Aggregated(&'static str),
    Plain,
}

/// A media type that a client takes, with its parameters.
#[derive(Debug, Default)]
struct Clause<'h> {
    media_type: &'h str,
    kind: &'h str,
    group: &'h str,
    version: &'h str,
    quality: f32,
}

/// How a client wants objects. An empty header means JSON.
pub(crate) fn presentation(headers: &HeaderMap) -> Result<Presentation, Status> {
    let clauses = clauses(headers)?;
    if clauses.is_empty() {
        return Ok(Presentation::Objects(Form::Json));
    }
    // The first that can be served, and not the first: kubectl asks for a Table and falls back to JSON in one header.
    clauses.iter().find_map(Clause::presentation).ok_or_else(not_acceptable)
}

/// The form of discovery that a client wants.
pub(crate) fn discovery(headers: &HeaderMap) -> Result<Discovery, Status> {
    let clauses = clauses(headers)?;
    if clauses.is_empty() {
        return Ok(Discovery::Plain);
    }
    clauses.iter().find_map(Clause::discovery).ok_or_else(not_acceptable)
}

/// Whether a client wants a document of `OpenAPI` in protobuf before it wants anything that we know.
pub(crate) fn wants_protobuf_of_openapi(headers: &HeaderMap) -> bool {
    let is_protobuf = |clause: &Clause<'_>| {
        clause.media_type.starts_with("application/com.github.proto-openapi.spec.v2")
            && clause.media_type.ends_with("+protobuf")
    };
    let clauses = clauses(headers).unwrap_or_default();
    clauses.iter().find(|clause| is_protobuf(clause) || clause.form().is_some()).is_some_and(is_protobuf)
}

/// How a client wants to be notified that something went wrong, which it is even if its wishes cannot be met.
pub(crate) fn error_form(headers: &HeaderMap) -> Form {
    let clauses = clauses(headers).unwrap_or_default();
    clauses.iter().find_map(Clause::form).unwrap_or(Form::Json)
}

fn not_acceptable() -> Status {
    Status::not_acceptable("only the following media types are accepted: application/json, application/yaml")
}

/// The clauses of the header, best first.
fn clauses(headers: &HeaderMap) -> Result<Vec<Clause<'_>>, Status> {
    let mut clauses = Vec::new();
    for header in headers.get_all(ACCEPT) {
        let text = header.to_str().map_err(|_| not_acceptable())?;
        clauses.extend(text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(Clause::parse));
    }
    // Stable: among clauses of the same quality the first one wins, as clients mean it.
    clauses.sort_by(|one: &Clause<'_>, other| other.quality.total_cmp(&one.quality));
    Ok(clauses)
}

impl<'h> Clause<'h> {
    fn parse(text: &'h str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause =
            Self { media_type: parts.next().unwrap_or_default(), quality: 1.0, ..Self::default() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "as" => clause.kind = value.trim(),
                "g" => clause.group = value.trim(),
                "v" => clause.version = value.trim(),
                // An invalid quality counts as if there were none: refusing the request would not help the client.
                "q" => clause.quality = value.trim().parse().unwrap_or(1.0),
                _ => {}
            }
        }
        clause
    }

    fn form(&self) -> Option<Form> {
        match self.media_type {
            "application/json" | "application/*" | "*/*" => Some(Form::Json),
            "application/yaml" => Some(Form::Yaml),
            _ => None,
        }
    }

    fn presentation(&self) -> Option<Presentation> {
        let form = self.form()?;
        if self.kind.is_empty() {
            return Some(Presentation::Objects(form));
        }
        let version = match self.version {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => return None,
        };
        match self.kind {
            // Without the group it is another kind of that name, which is not served.
            _ if self.group != "meta.k8s.io" => None,
            "Table" => Some(Presentation::Table(form, version)),
            "PartialObjectMetadata" => Some(Presentation::Metadata(form, version, Amount::One)),
            "PartialObjectMetadataList" => Some(Presentation::Metadata(form, version, Amount::Many)),
            _ => None,
        }
    }

    fn discovery(&self) -> Option<Discovery> {
        match (self.form()?, self.kind, self.group, self.version) {
            (Form::Json, "APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => {
                Some(Discovery::Aggregated("v2"))
            }
            // Clients list the aggregated form first and this one last, for servers that do not know the former.
            (_, "", ..) => Some(Discovery::Plain),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented(accept: &str) -> Option<Presentation> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        presentation(&headers).ok()
    }

    #[test]
    fn first_form_that_we_have_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                     application/json";
        assert_eq!(presented(table), Some(Presentation::Table(Form::Json, "v1")));
        assert_eq!(
            presented("application/vnd.kubernetes.protobuf,application/json"),
            Some(Presentation::Objects(Form::Json))
        );
        assert_eq!(presented("application/yaml"), Some(Presentation::Objects(Form::Yaml)));
        assert_eq!(presented("*/*"), Some(Presentation::Objects(Form::Json)));
        assert_eq!(
            presented("application/json;q=0.5,application/yaml"),
            Some(Presentation::Objects(Form::Yaml))
        );
    }

    #[test]
    fn forms_that_we_lack_are_refused() {
        assert_eq!(presented("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(presented("text/html"), None);
        assert_eq!(presented("application/json;as=Cake;v=v1;g=meta.k8s.io"), None);
    }

    #[test]
    fn no_header_means_json() {
        assert_eq!(presentation(&HeaderMap::new()).unwrap(), Presentation::Objects(Form::Json));
    }

    #[test]
    fn discovery_is_aggregated_on_request() {
        let mut headers = HeaderMap::new();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        headers.insert(ACCEPT, accept.parse().unwrap());
        assert_eq!(discovery(&headers).unwrap(), Discovery::Aggregated("v2"));
        headers.insert(ACCEPT, "application/json".parse().unwrap());
        assert_eq!(discovery(&headers).unwrap(), Discovery::Plain);
    }
}
