//! Reads kubeconfigs: clusters, users, and contexts that join them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use serde::Deserialize;
use serde_json::Value;

use crate::{BearerToken, ClientCertificate, ClientIdentity, Endpoint, ExecError, ExecPlugin, Impersonation};

/// Go takes any bits after the last whole byte.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("cannot read the kubeconfig `{path}`")]
    Unreadable { path: String, source: std::io::Error },
    #[error("cannot parse the kubeconfig `{path}`")]
    Invalid { path: String, source: Box<serde_saphyr::Error> },
    #[error("no context is current: name one with --context")]
    NoContext,
    #[error("there is no {what} `{name}`")]
    Missing { what: String, name: String },
    #[error("context `{0}` names no cluster")]
    NoCluster(String),
    #[error("the cluster of context `{0}` has no server")]
    NoServer(String),
    #[error(
        "the user logs in with {what} (`{field}`), which is not supported: use a certificate, or a token (kubectl create token)"
    )]
    Unsupported { what: &'static str, field: &'static str },
    #[error("cannot read whom the user impersonates (`as`, `as-uid`, `as-groups`, `as-user-extra`)")]
    Impersonation(#[source] serde_json::Error),
    #[error(
        "the user has `as-uid`, `as-groups` or `as-user-extra` without `as`: name the user to impersonate"
    )]
    NobodyImpersonated,
    #[error(transparent)]
    Exec(#[from] Arc<ExecError>),
    #[error("cannot decode `{field}-data`")]
    Encoding { field: String, source: base64::DecodeError },
    #[error("cannot read `{path}`")]
    Material { path: String, source: std::io::Error },
}

/// One or several kubeconfig files. The first file that has an entry counts.
#[derive(Debug)]
pub struct Kubeconfig {
    /// With the directory that paths in the file are relative to.
    files: Vec<(PathBuf, Value)>,
}

impl Kubeconfig {
    pub fn read(paths: &[PathBuf]) -> Result<Self, KubeconfigError> {
        let read = |path: &PathBuf| {
            let name = || path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|source| KubeconfigError::Unreadable { path: name(), source })?;
            let value = serde_saphyr::from_str(&text)
                .map_err(|source| KubeconfigError::Invalid { path: name(), source: Box::new(source) })?;
            let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
            Ok((directory, value))
        };
        Ok(Self { files: paths.iter().map(read).collect::<Result<_, KubeconfigError>>()? })
    }

    /// The endpoint that a context describes; without one, the current context.
    pub fn endpoint(&self, context: Option<&str>) -> Result<Endpoint, KubeconfigError> {
        let current = || self.files.iter().find_map(|(_, file)| text(file, "current-context"));
        let name = context.or_else(current).ok_or(KubeconfigError::NoContext)?;
        let (_, context) = self.find("contexts", "context", name)?;
        let cluster = text(context, "cluster").ok_or_else(|| KubeconfigError::NoCluster(name.to_owned()))?;
        let (cluster_directory, cluster) = self.find("clusters", "cluster", cluster)?;
        let anonymous = (PathBuf::new(), Value::Null);
        let (user_directory, user) = match text(context, "user") {
            Some(user) => self.find("users", "user", user)?,
            None => (anonymous.0.as_path(), &anonymous.1),
        };
        // Before anything is read from files, so that this is the error that the user sees.
        refuse_unsupported(user)?;
        let server = text(cluster, "server").ok_or_else(|| KubeconfigError::NoServer(name.to_owned()))?;
        let impersonation = impersonation(user)?;
        let certificate = material(user_directory, user, "client-certificate")?;
        let identity = certificate.zip(material(user_directory, user, "client-key")?);
        let identity = identity.map(|(certificate, key)| ClientCertificate { certificate, key });
        let token_file = text(user, "tokenFile").map(|file| BearerToken::File(user_directory.join(file)));
        let token = text(user, "token").map(|token| BearerToken::Text(token.to_owned()));
        let (exec_token, exec_identity) = run_exec_plugin(user_directory, user, cluster)?;
        Ok(Endpoint {
            server: server.trim_end_matches('/').to_owned(),
            namespace: text(context, "namespace").unwrap_or("default").to_owned(),
            authorities: material(cluster_directory, cluster, "certificate-authority")?,
            server_name: text(cluster, "tls-server-name").map(str::to_owned),
            skips_tls_verification: cluster["insecure-skip-tls-verify"] == true,
            proxy: text(cluster, "proxy-url").map(str::to_owned),
            identity: identity.map(ClientIdentity::Certificate).or(exec_identity),
            // client-go's transport prefers the file, too: it is read again, so that it does not expire.
            token: token_file.or(token).or(exec_token),
            impersonation,
        })
    }

    /// The names of all contexts, each once, in the order of the files.
    pub fn contexts(&self) -> Vec<&str> {
        let entries =
            self.files.iter().flat_map(|(_, file)| file["contexts"].as_array().into_iter().flatten());
        let mut names = Vec::new();
        for name in entries.filter_map(|entry| text(entry, "name")) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn find(&self, list: &str, field: &str, name: &str) -> Result<(&Path, &Value), KubeconfigError> {
        let entries = self.files.iter().flat_map(|(directory, file)| {
            let entries = file[list].as_array().into_iter().flatten();
            entries.map(move |entry| (directory.as_path(), entry))
        });
        let mut found =
            entries.filter(|(_, entry)| entry["name"] == name).map(|(path, entry)| (path, &entry[field]));
        found.next().ok_or_else(|| KubeconfigError::Missing { what: field.to_owned(), name: name.to_owned() })
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value[field].as_str().filter(|text| !text.is_empty())
}

fn refuse_unsupported(user: &Value) -> Result<(), KubeconfigError> {
    let unsupported = [("auth-provider", "an auth provider"), ("username", "a password")];
    match unsupported.into_iter().find(|(field, _)| !user[*field].is_null()) {
        Some((field, what)) => Err(KubeconfigError::Unsupported { what, field }),
        None => Ok(()),
    }
}

/// Whom a user impersonates, as a kubeconfig spells it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ImpersonationFields {
    #[serde(rename = "as", default)]
    user: Option<String>,
    #[serde(default)]
    as_uid: Option<String>,
    #[serde(default)]
    as_groups: Option<Vec<String>>,
    #[serde(default)]
    as_user_extra: Option<BTreeMap<String, Vec<String>>>,
}

/// Whom a user impersonates. A field that cannot be read is an error: without it, requests would have more rights.
fn impersonation(user: &Value) -> Result<Option<Impersonation>, KubeconfigError> {
    if user.is_null() {
        return Ok(None);
    }
    let fields = ImpersonationFields::deserialize(user).map_err(KubeconfigError::Impersonation)?;
    let uid = fields.as_uid.filter(|uid| !uid.is_empty());
    let (groups, extra) = (fields.as_groups.unwrap_or_default(), fields.as_user_extra.unwrap_or_default());
    match fields.user.filter(|user| !user.is_empty()) {
        Some(user) => Ok(Some(Impersonation { user, uid, groups, extra })),
        None if uid.is_none() && groups.is_empty() && extra.is_empty() => Ok(None),
        None => Err(KubeconfigError::NobodyImpersonated),
    }
}

/// What the credential plugin of a user prints: whether it is where to get a token, a certificate, or both.
fn run_exec_plugin(
    directory: &Path,
    user: &Value,
    cluster: &Value,
) -> Result<(Option<BearerToken>, Option<ClientIdentity>), KubeconfigError> {
    if user["exec"].is_null() {
        return Ok((None, None));
    }
    let plugin = Arc::new(ExecPlugin::read(directory, &user["exec"], cluster).map_err(Arc::new)?);
    // Run now, so that a plugin that does not work is reported before the first request.
    let credential = plugin.log_in()?;
    let token = credential.token.as_ref().map(|_| BearerToken::Exec(plugin.clone()));
    let identity = credential.certificate.as_ref().map(|_| ClientIdentity::Exec(plugin));
    Ok((token, identity))
}

/// Something in PEM: in the kubeconfig itself, or in a file.
fn material(directory: &Path, value: &Value, field: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
    if let Some(data) = text(value, &format!("{field}-data")) {
        // As kubectl reads it: data may be broken into lines, as `|` in YAML leaves it.
        let data: String = data.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
        let decoded = LENIENT.decode(data);
        return decoded
            .map(Some)
            .map_err(|source| KubeconfigError::Encoding { field: field.to_owned(), source });
    }
    let Some(file) = text(value, field) else { return Ok(None) };
    let path = directory.join(file);
    std::fs::read(&path)
        .map(Some)
        .map_err(|source| KubeconfigError::Material { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Kubeconfig {
        Kubeconfig { files: vec![("/etc".into(), serde_saphyr::from_str(text).unwrap())] }
    }

    const TWO: &str = "
current-context: a
contexts:
- {name: a, context: {cluster: a, user: a}}
- {name: b, context: {cluster: b, user: b, namespace: team}}
clusters:
- {name: a, cluster: {server: 'https://a:6443/', certificate-authority-data: YQ==, proxy-url: 'http://proxy:3128'}}
- {name: b, cluster: {server: 'https://b', insecure-skip-tls-verify: true}}
users:
- {name: a, user: {client-certificate-data: Yg==, client-key-data: Yw==}}
- {name: b, user: {auth-provider: {name: x}}}
";

    #[test]
    fn context_joins_a_cluster_and_a_user() {
        let endpoint = read(TWO).endpoint(None).unwrap();
        assert_eq!((endpoint.server.as_str(), endpoint.namespace.as_str()), ("https://a:6443", "default"));
        assert_eq!(endpoint.authorities.as_deref(), Some(b"a".as_slice()));
        assert_eq!(endpoint.proxy.as_deref(), Some("http://proxy:3128"));
        let Some(ClientIdentity::Certificate(identity)) = endpoint.identity else { panic!("it has one") };
        assert_eq!((identity.certificate.as_slice(), identity.key.as_slice()), (&b"b"[..], &b"c"[..]));
    }

    #[test]
    fn contexts_of_several_files_are_listed_once() {
        let mut kubeconfig = read(TWO);
        kubeconfig.files.extend(read("contexts: [{name: b}, {name: c}, {}]").files);
        assert_eq!(kubeconfig.contexts(), ["a", "b", "c"]);
        assert!(read("{}").contexts().is_empty());
    }

    #[test]
    fn data_may_be_broken_into_lines() {
        let text = TWO
            .replace("certificate-authority-data: YQ==", r#"certificate-authority-data: "YWJj\nYR==\n""#)
            .replace("client-key-data: Yw==", r#"client-key-data: "Y!==""#);
        let error = read(&text).endpoint(None).unwrap_err();
        assert_eq!(error.to_string(), "cannot decode `client-key-data`");
        let text = text.replace("Y!==", "Yw==");
        assert_eq!(read(&text).endpoint(None).unwrap().authorities.as_deref(), Some(b"abca".as_slice()));
    }

    #[test]
    fn unsupported_credentials_are_refused() {
        let error = read(TWO).endpoint(Some("b")).unwrap_err();
        assert!(
            error.to_string().contains("an auth provider (`auth-provider`), which is not supported"),
            "{error}"
        );
        assert_eq!(read(TWO).endpoint(Some("c")).unwrap_err().to_string(), "there is no context `c`");
    }

    #[test]
    fn impersonated_user_is_read_or_refused() {
        let with = |fields: &str| {
            let text = TWO.replace("client-key-data: Yw==}", &format!("client-key-data: Yw==, {fields}}}"));
            read(&text).endpoint(None).map(|endpoint| endpoint.impersonation)
        };
        assert_eq!(with("as: ''").unwrap(), None);
        let whole = "as: bob, as-uid: u-1, as-groups: [a, b], as-user-extra: {scopes: [x]}";
        let expected = Impersonation {
            user: "bob".to_owned(),
            uid: Some("u-1".to_owned()),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: BTreeMap::from([("scopes".to_owned(), vec!["x".to_owned()])]),
        };
        assert_eq!(with(whole).unwrap(), Some(expected));
        for nobody in ["as-groups: [a]", "as-uid: u-1", "as: '', as-user-extra: {a: [b]}"] {
            assert!(matches!(with(nobody), Err(KubeconfigError::NobodyImpersonated)), "{nobody}");
        }
        // What cannot be read must not mean that nobody is impersonated.
        for wrong in ["as: 7", "as: bob, as-groups: a", "as: bob, as-user-extra: {a: b}"] {
            assert!(matches!(with(wrong), Err(KubeconfigError::Impersonation(_))), "{wrong}");
        }
    }

    #[test]
    fn exec_plugin_provides_credentials() {
        let prints = |status: &str| {
            let exec = format!(r#"{{command: echo, args: ['{{"status": {status}}}']}}"#);
            let text = TWO.replace(
                "{client-certificate-data: Yg==, client-key-data: Yw==}",
                &format!("{{exec: {exec}}}"),
            );
            read(&text).endpoint(None)
        };
        let endpoint = prints(r#"{"token": "t"}"#).unwrap();
        assert!(matches!(endpoint.token, Some(BearerToken::Exec(_))) && endpoint.identity.is_none());
        let endpoint = prints(r#"{"clientCertificateData": "c", "clientKeyData": "k"}"#).unwrap();
        assert!(matches!(endpoint.identity, Some(ClientIdentity::Exec(_))) && endpoint.token.is_none());
        assert!(prints("{}").unwrap_err().to_string().contains("printed no ExecCredential"));
    }

    #[test]
    fn earlier_file_counts_and_nothing_makes_it_panic() {
        let mut two = read(TWO);
        two.files.insert(
            0,
            (
                "/".into(),
                serde_saphyr::from_str("{current-context: b, users: [{name: b, user: {token: t}}]}").unwrap(),
            ),
        );
        let endpoint = two.endpoint(None).unwrap();
        assert_eq!((endpoint.namespace.as_str(), endpoint.skips_tls_verification), ("team", true));
        for text in [
            "{}",
            "[]",
            "a",
            "{current-context: [], contexts: 1}",
            "{current-context: a, contexts: [{name: a, context: 1}]}",
        ] {
            assert!(read(text).endpoint(None).is_err(), "{text}");
        }
    }
}
