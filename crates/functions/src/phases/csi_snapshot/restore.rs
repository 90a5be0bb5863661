//! Restores a snapshot to a volume claim. It does not wait: many volumes are bound only when a pod uses them.

use ferroplane_api::Object;
use ferroplane_cel::quantity::Quantity;
use ferroplane_engine::action::{
    Answer, ArgumentMistake, Move, Need, Phase, PhaseContract, PhaseFunction, Request,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MANAGER, is_taken, labelled};
use crate::phases::arguments::{Arguments, is_template, mistake};
use crate::phases::moves::{Failure, NextMove, address_of, checkpoint, done, is_own, perform, settle, taken};

const ACCESS_MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Filesystem", "Block"];

/// RestoreCSISnapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestoreCsiSnapshot;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Restoring {
    Create,
    /// A claim of the name exists. Whose it is is found out.
    Check,
}

impl PhaseFunction for RestoreCsiSnapshot {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(next(phase))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["name", "pvc", "namespace", "storageClass", "restoreSize"],
            optional: &["accessModes", "volumeMode", "labels"],
            outputs: &[],
            needs: &[Need::Api],
        }
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        let mut mistakes = self.contract().mistakes(arguments);
        if let Some(Value::String(size)) = arguments.get("restoreSize")
            && !is_template(size)
        {
            mistakes.extend(size_of(size).err().map(|failure| mistake(failure, "restoreSize")));
        }
        mistakes
    }
}

fn next(phase: &Phase<'_>) -> NextMove {
    let claim = claim(Arguments(phase.arguments))?;
    let address = address_of(&claim);
    match (checkpoint(phase)?, phase.answers) {
        (None | Some(Restoring::Create), []) => {
            let request = Request::Create { object: claim, field_manager: MANAGER.to_owned() };
            Ok(perform(&Restoring::Create, vec![request]))
        }
        (Some(Restoring::Create), [answer]) if is_taken(answer) => {
            Ok(perform(&Restoring::Check, vec![Request::Get(address)]))
        }
        (Some(Restoring::Check), []) => Ok(perform(&Restoring::Check, vec![Request::Get(address)])),
        (Some(Restoring::Check), [Answer::Object { object, .. }]) if !is_own(phase, object) => {
            Err(taken(&address))
        }
        (Some(_), [Answer::Object { .. }]) => Ok(done([])),
        (_, answers) => Err(Failure::unexpected(answers)),
    }
}

fn claim(arguments: Arguments<'_>) -> Result<Object, Failure> {
    let size = size_of(arguments.text("restoreSize")?)?;
    let access_modes = arguments.optional_texts("accessModes")?.filter(|modes| !modes.is_empty());
    let access_modes = access_modes.unwrap_or_else(|| vec![ACCESS_MODES[0].to_owned()]);
    for mode in &access_modes {
        one_of("accessModes", mode, &ACCESS_MODES)?;
    }
    let volume_mode = arguments.optional_text("volumeMode")?.unwrap_or(VOLUME_MODES[0]);
    one_of("volumeMode", volume_mode, &VOLUME_MODES)?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": arguments.text("pvc")?, "namespace": arguments.text("namespace")?},
        "spec": {
            "accessModes": access_modes, "volumeMode": volume_mode, "storageClassName": arguments.text("storageClass")?,
            "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": arguments.text("name")?},
            "resources": {"requests": {"storage": size}},
        },
    });
    let Value::Object(claim) = claim else { return Err(Failure::new("a claim is an object")) };
    labelled(claim, arguments)
}

fn size_of(text: &str) -> Result<&str, Failure> {
    let quantity = Quantity::parse(text)
        .map_err(|_| Failure::argument("restoreSize", format!("`{text}` is not a quantity such as 10Gi")))?;
    if quantity.sign() <= 0 {
        return Err(Failure::argument("restoreSize", format!("{text} is not more than nothing")));
    }
    Ok(text)
}

fn one_of(argument: &str, value: &str, known: &[&str]) -> Result<(), Failure> {
    if known.contains(&value) {
        return Ok(());
    }
    Err(Failure::argument(argument, format!("`{value}` is none of {}", known.join(", "))))
}
