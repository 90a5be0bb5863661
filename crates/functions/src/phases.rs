//! The functions of phases of Blueprints, as Kanister has them, with versions.
//!
//! Each is a machine of moves: it reads, decides, and asks for what shall be done. What it has to know later is in its checkpoint, and
//! nothing is kept here: two phases that run at once never meet.
//!
//! # Invariants
//! * A function that is asked twice with the same checkpoint does what it wants done once.
//! * No argument, answer or checkpoint, however wrong, makes a function panic: the phase fails and says why.

mod arguments;
mod csi_snapshot;
mod deletion;
mod exec;
mod kube_ops;
mod moves;
mod output;
mod pods;
mod scale_workload;
#[cfg(test)]
mod testing;
mod wait;

use crate::BuiltinFunction;
use crate::Code::Phase;
use csi_snapshot::{CreateCsiSnapshot, CreateCsiSnapshotStatic, DeleteCsiSnapshot, RestoreCsiSnapshot};
use exec::{KubeExec, KubeExecAll};
use kube_ops::KubeOps;
use pods::{KubeTask, MultiContainerRun, PrepareData};
use scale_workload::ScaleWorkload;
use wait::Wait;

/// All of them. Which versions there are is for the versions file to say.
pub(crate) const FUNCTIONS: &[BuiltinFunction] = &[
    BuiltinFunction {
        function: "CreateCSISnapshot",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&CreateCsiSnapshot))],
    },
    BuiltinFunction {
        function: "CreateCSISnapshotStatic",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&CreateCsiSnapshotStatic))],
    },
    BuiltinFunction {
        function: "DeleteCSISnapshot",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&DeleteCsiSnapshot::Snapshot))],
    },
    BuiltinFunction {
        function: "DeleteCSISnapshotContent",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&DeleteCsiSnapshot::Content))],
    },
    BuiltinFunction {
        function: "KubeExec",
        stable: "v0.1.0",
        versions: &[
            ("v0.0.0", Phase(&KubeExec::V0_0)),
            ("v0.1.0", Phase(&KubeExec::V0_1)),
            ("v0.2.0", Phase(&KubeExec::V0_2)),
        ],
    },
    BuiltinFunction {
        function: "KubeExecAll",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&KubeExecAll))],
    },
    BuiltinFunction {
        function: "KubeOps",
        stable: "v0.1.0",
        versions: &[("v0.0.0", Phase(&KubeOps::V0_0)), ("v0.1.0", Phase(&KubeOps::V0_1))],
    },
    BuiltinFunction {
        function: "KubeTask",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&KubeTask::V0_0)), ("v0.1.0", Phase(&KubeTask::V0_1))],
    },
    BuiltinFunction {
        function: "MultiContainerRun",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&MultiContainerRun::V0_0)), ("v0.1.0", Phase(&MultiContainerRun::V0_1))],
    },
    BuiltinFunction {
        function: "PrepareData",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&PrepareData))],
    },
    BuiltinFunction {
        function: "RestoreCSISnapshot",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&RestoreCsiSnapshot))],
    },
    BuiltinFunction {
        function: "ScaleWorkload",
        stable: "v0.1.0",
        versions: &[("v0.0.0", Phase(&ScaleWorkload::V0_0)), ("v0.1.0", Phase(&ScaleWorkload::V0_1))],
    },
    // Blueprints of Kanister write paths in their conditions, which only v0.0.0 reads: it stays the default.
    BuiltinFunction {
        function: "Wait",
        stable: "v0.0.0",
        versions: &[("v0.0.0", Phase(&Wait::V0_0)), ("v2.0.0", Phase(&Wait::V2))],
    },
    // Another name of Wait v2.0.0. As v0.0.0, too, so that an action that prefers another version falls back to it.
    BuiltinFunction {
        function: "WaitV2",
        stable: "v2.0.0",
        versions: &[("v0.0.0", Phase(&Wait::V2)), ("v2.0.0", Phase(&Wait::V2))],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ferroplane_api::{Cause, Object};
    use ferroplane_engine::action::{Answer, PhaseFunction, PodSupport, Refused};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::testing::{CrashCase, Plane};
    use super::*;

    fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static dyn PhaseFunction)> {
        FUNCTIONS.iter().flat_map(|function| {
            function.versions.iter().map(|(version, code)| match code {
                Phase(code) => (function.function, *version, *code),
                _ => panic!("{} is no function of phases", function.function),
            })
        })
    }

    #[test]
    fn arguments_of_contracts_are_listed_once_and_all_are_known() {
        for (function, version, code) in all() {
            let contract = code.contract();
            let mut names: Vec<_> = contract.required.iter().chain(contract.optional).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{function} {version}");
            assert!(!contract.needs.is_empty(), "{function} {version}");
            let missing = code.argument_mistakes(&Object::new());
            assert_eq!(missing.len(), contract.required.len(), "{function} {version}: {missing:?}");
            let unknown = code.argument_mistakes(json!({"nosucharg": 1}).as_object().unwrap());
            assert!(unknown.iter().any(|mistake| mistake.argument == "nosucharg"), "{function} {version}");
        }
    }

    fn crashes() -> Vec<CrashCase> {
        let lists = [
            csi_snapshot::tests::crashes(),
            exec::tests::crashes(),
            kube_ops::tests::crashes(),
            pods::tests::crashes(),
            scale_workload::tests::crashes(),
            wait::tests::crashes(),
        ];
        lists.into_iter().flatten().collect()
    }

    #[test]
    fn phase_ends_the_same_wherever_the_plane_stops_unless_its_effects_are_unknown() {
        crashes().iter().for_each(CrashCase::check);
    }

    #[test]
    fn every_version_of_every_function_is_tried_with_crashes() {
        let tried: BTreeSet<_> = crashes().iter().map(|case| (case.function, case.version)).collect();
        let all: BTreeSet<_> = all().map(|(function, version, _)| (function, version)).collect();
        assert_eq!(tried, all);
    }

    #[test]
    fn later_versions_take_what_earlier_ones_take() {
        for function in FUNCTIONS {
            let contracts: Vec<_> =
                all().filter(|it| it.0 == function.function).map(|it| it.2.contract()).collect();
            for pair in contracts.windows(2) {
                assert_eq!(pair[0].required, pair[1].required, "{}", function.function);
                assert!(pair[0].optional.iter().all(|name| pair[1].takes(name)), "{}", function.function);
            }
        }
    }

    /// Words that functions know.
    const WORDS: &[&str] = &[
        "create", "patch", "delete", "get", "apply", "json", "look", "wait", "read", "1s", "{{ .a }}",
        "{$.a}",
    ];

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            prop::sample::select(WORDS).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let keys = prop_oneof![
                "[a-zA-Z]{1,8}",
                "name",
                "namespace",
                "apiVersion",
                "kind",
                "resource",
                "anyOf",
                "condition",
                "step"
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn answer() -> impl Strategy<Value = Answer> {
        let object = json().prop_map(|value| value.as_object().cloned().unwrap_or_default());
        prop_oneof![
            (object, "[a-z]{0,9}").prop_map(|(object, resource)| Answer::Object { object, resource }),
            Just(Answer::Absent),
            Just(Answer::List(Vec::new())),
            (any::<u16>(), "[A-Z][a-z]{0,9}").prop_map(|(code, reason)| Answer::Refused(Refused {
                code,
                reason,
                message: String::new(),
                cause: Cause::PhaseFailed,
            })),
            (any::<i32>(), "\\PC{0,40}").prop_map(|(exit_code, stdout)| Answer::Ended {
                exit_code,
                stderr: stdout.clone(),
                stdout,
            }),
            ("\\PC{0,40}", any::<u64>(), any::<bool>()).prop_map(|(text, next_offset, is_end)| Answer::Log {
                text,
                next_offset,
                is_end
            }),
        ]
    }

    proptest! {
        /// Whatever a user writes in a Blueprint or in a status, and whatever an API server answers.
        #[test]
        fn nothing_makes_a_function_panic(
            values in prop::collection::vec(json(), 12),
            checkpoint in json(),
            answers in prop::collection::vec(answer(), 0..3),
            pods in prop_oneof![Just(PodSupport::None), Just(PodSupport::Containers), Just(PodSupport::Cluster)],
        ) {
            for (_, _, code) in all() {
                let contract = code.contract();
                let names = contract.required.iter().chain(contract.optional).map(|name| (*name).to_owned());
                let arguments: Object = names.zip(values.clone()).collect();
                code.argument_mistakes(&arguments);
                let plane = Plane { pods, ..Plane::of(code, Value::Object(arguments)) };
                plane.advance(&checkpoint, &answers);
                code.clean_up(&plane.phase(&checkpoint, &answers));
            }
        }
    }
}
