//! Pods of a program that is not a server. Our own binary serves it, in the image of the package: an init container copies the binary out of
//! our own image. See `docs/adr/0061-pods-run-servers-only.md`.

use ferroplane_api::Object;
use serde_json::{Value, json};

use super::deployment::list;

/// The name of the init container and of the volume.
const NAME: &str = "ferroplane-adapter";
/// Where the binary is, in both containers.
const DIRECTORY: &str = "/ferroplane-adapter";
const BINARY: &str = "/ferroplane-adapter/ferroplane";

/// A program that is run for every call, and what serves it.
#[derive(Debug, Clone, Copy)]
pub struct AdaptedProgram<'a> {
    /// Our own image. Its entry point is our binary, statically linked.
    pub image: &'a str,
    /// What the program reads and writes.
    pub protocol: &'a str,
    /// The entry point and the default arguments of the package's image.
    pub entrypoint: &'a [String],
    pub cmd: &'a [String],
}

impl AdaptedProgram<'_> {
    /// Let the container of the package serve its program, and return the init container that this takes, completed.
    ///
    /// A template can change the program as it changes that of any other container: its `command` is run in place of the entry point, and
    /// its `args` in place of the default arguments.
    pub(super) fn serve(
        self,
        container: &mut Object,
        init_container: Option<Object>,
        volumes: &mut Vec<Value>,
    ) -> Object {
        let own = list(container, "command");
        let has_own = !own.is_empty();
        let program = if has_own { own } else { literal(self.entrypoint) };
        let adapter = [BINARY, "internal", "adapter", "--protocol", self.protocol, "--"];
        let command: Vec<Value> = adapter.into_iter().map(Value::from).chain(program).collect();
        container.insert("command".to_owned(), command.into());
        if list(container, "args").is_empty() && !has_own && !self.cmd.is_empty() {
            container.insert("args".to_owned(), literal(self.cmd).into());
        }
        volumes.retain(|known| known["name"] != NAME);
        volumes.push(json!({"name": NAME, "emptyDir": {}}));
        mount(container, true);
        self.init_container(init_container.unwrap_or_default(), container)
    }

    fn init_container(self, mut init_container: Object, container: &Object) -> Object {
        init_container.insert("name".to_owned(), NAME.into());
        init_container.insert("args".to_owned(), json!(["internal", "copy-to", DIRECTORY]));
        init_container.entry("image").or_insert_with(|| self.image.into());
        init_container.entry("imagePullPolicy").or_insert_with(|| "IfNotPresent".into());
        init_container.entry("securityContext").or_insert_with(|| {
            // The same user as that of the program, which a cluster may prescribe, and as few rights as possible.
            let mut context = container.get("securityContext").cloned().unwrap_or_else(|| json!({}));
            context["allowPrivilegeEscalation"] = json!(false);
            context["privileged"] = json!(false);
            context["readOnlyRootFilesystem"] = json!(true);
            context["capabilities"] = json!({"drop": ["ALL"]});
            context
        });
        mount(&mut init_container, false);
        init_container
    }

    /// The init container in a template, which may give it resources, and the others.
    pub(super) fn take_init_container(pods: &Object) -> (Option<Object>, Vec<Value>) {
        let (own, others): (Vec<_>, Vec<_>) =
            list(pods, "initContainers").into_iter().partition(|container| container["name"] == NAME);
        (own.into_iter().next().and_then(|container| container.as_object().cloned()), others)
    }
}

/// Words of an image. Kubernetes would replace `$(NAME)` in them, which container runtimes do not.
fn literal(words: &[String]) -> Vec<Value> {
    words.iter().map(|word| word.replace("$(", "$$(").into()).collect()
}

fn mount(container: &mut Object, is_read_only: bool) {
    let mut mounts = list(container, "volumeMounts");
    mounts.retain(|known| known["mountPath"] != DIRECTORY);
    let mut mount = json!({"name": NAME, "mountPath": DIRECTORY});
    if is_read_only {
        mount["readOnly"] = json!(true);
    }
    mounts.push(mount);
    container.insert("volumeMounts".to_owned(), mounts.into());
}
