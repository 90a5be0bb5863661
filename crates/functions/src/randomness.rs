//! Randomness and time for functions that ask for them, without either: what they see is a function of the request.
//!
//! A template that printed a new password at every reconcile would make the plane write for ever. So the random bytes of a step are
//! derived from the composite resource, the step's input and a key that only the plane knows: the same every time, and not predictable
//! without the key. The clock of a step stands at the moment in which the composite resource was created.
//!
//! Each call in a template has bytes of its own, so that a password stays the same when a branch with other calls is taken no longer.
//!
//! The functions of operations and phases observe nothing: what they see follows from the operation or the ActionSet.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use ferroplane_golang::time::rfc3339::{self, Moment};
use ferroplane_template::CallSite;
use ferroplane_wire::v1::RunFunctionRequest;
use ferroplane_wire::{State, Struct};
use sha2::{Digest as _, Sha256};

/// What only the plane knows. Where nothing is secret, as when something is rendered on a laptop, there is none.
static KEY: OnceLock<[u8; 32]> = OnceLock::new();

/// Sets what only the plane knows, from a secret that outlives the process. The first secret counts.
pub fn set_secret(secret: &[u8]) {
    let key =
        Sha256::new().chain_update(b"ferroplane: randomness of functions\0").chain_update(secret).finalize();
    // A second secret would change passwords that templates have already made.
    let _ = KEY.set(key.into());
}

/// Bytes that follow from what only the plane knows, for one purpose.
pub fn secret_seed(purpose: &str) -> [u8; 32] {
    let seed = Sha256::new().chain_update(KEY.get().copied().unwrap_or_default());
    seed.chain_update(b"seed\0").chain_update(purpose).finalize().into()
}

/// The time that a function of this request sees, since 1970, and what its randomness is computed from. `subject` is what it is called for, if
/// the request does not have it: an operation or an ActionSet.
///
/// For functions that are no Rust code of ours and are granted neither a clock nor randomness: they see the same as ours.
pub fn stillness(request: &RunFunctionRequest, subject: Option<&Struct>) -> (Duration, u64) {
    let subject = subject.or_else(|| composite_of(request));
    let mut randomness = Randomness::about(subject, request.input.as_ref());
    let now = u64::try_from(randomness.now().seconds).unwrap_or_default();
    let mut seed = [0; 8];
    randomness.fill(&mut seed);
    (Duration::from_secs(now), u64::from_le_bytes(seed))
}

/// The time of what has not been created, as when it is rendered.
const EPOCH: Moment = Moment { seconds: 0, nanoseconds: 0 };

/// The random bytes and the time of a step.
#[derive(Debug)]
pub(crate) struct Randomness {
    seed: [u8; 32],
    /// How often each call has drawn, by the digests of calls.
    draws: HashMap<[u8; 32], u64>,
    /// What the bytes of the call that draws right now follow from.
    stream: [u8; 32],
    block: u64,
    /// Bytes of the last block that were not used.
    rest: Vec<u8>,
    now: Moment,
}

fn composite_of(request: &RunFunctionRequest) -> Option<&Struct> {
    request.observed.as_ref().and_then(State::composite).and_then(|xr| xr.resource.as_ref())
}

impl Randomness {
    /// What a step sees whose composite resource is that of the request.
    pub(crate) fn of(request: &RunFunctionRequest, input: Option<&Struct>) -> Self {
        Self::about(composite_of(request), input)
    }

    fn about(subject: Option<&Struct>, input: Option<&Struct>) -> Self {
        let metadata = subject.and_then(|it| it.json().ok()).and_then(|it| it.get("metadata"));
        let text =
            |field: &str| metadata.and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or_default();
        let mut seed = Sha256::new().chain_update(KEY.get().copied().unwrap_or_default());
        for field in ["uid", "namespace", "name"] {
            // Lengths keep `a` and `bc` apart from `ab` and `c`.
            seed.update(text(field).len().to_le_bytes());
            seed.update(text(field));
        }
        // The input is part of it, so that two steps of one pipeline do not print the same password.
        seed.update(input.map(Struct::digest).copied().unwrap_or_default());
        let now = rfc3339::parse(text("creationTimestamp")).map_or(EPOCH, |time| time.moment);
        let seed = seed.finalize().into();
        Self { seed, draws: HashMap::new(), stream: seed, block: 0, rest: Vec::new(), now }
    }

    /// A call begins to draw. Its bytes follow from what it is known by, and from how often it has drawn before.
    pub(crate) fn begin(&mut self, sites: &[CallSite<'_>]) {
        let mut call = Sha256::new().chain_update(self.seed);
        for CallSite { name, number } in sites {
            call.update(name.len().to_le_bytes());
            call.update(name);
            call.update(number.to_le_bytes());
        }
        let call: [u8; 32] = call.finalize().into();
        let times = self.draws.entry(call).or_default();
        self.stream = Sha256::new().chain_update(call).chain_update(times.to_le_bytes()).finalize().into();
        *times += 1;
        self.block = 0;
        self.rest.clear();
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            if self.rest.is_empty() {
                let block =
                    Sha256::new().chain_update(self.stream).chain_update(self.block.to_le_bytes()).finalize();
                self.rest = block.to_vec();
                self.block += 1;
            }
            *byte = self.rest.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::from_json;
    use serde_json::{Value, json};

    use super::*;

    fn bytes(request: &Value) -> [u8; 40] {
        let mut bytes = [0; 40];
        let request: RunFunctionRequest = from_json(request).unwrap();
        Randomness::of(&request, request.input.as_ref()).fill(&mut bytes);
        bytes
    }

    fn request(uid: &str, template: &str) -> Value {
        json!({"observed": {"composite": {"resource": {"metadata": {"uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"}}}},
            "input": {"template": template}})
    }

    #[test]
    fn the_same_request_has_the_same_chance_and_others_have_another() {
        let one = bytes(&request("a", "t"));
        assert_eq!(one, bytes(&request("a", "t")));
        assert_ne!(one, bytes(&request("b", "t")));
        assert_ne!(one, bytes(&request("a", "u")));
        assert_ne!(one[..20], one[20..]);
    }

    #[test]
    fn foreign_functions_see_the_same_still_world() {
        let of = |uid| stillness(&from_json(&request(uid, "t")).unwrap(), None);
        assert_eq!(of("a").0, Duration::from_secs(1_767_323_045));
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a").1, of("b").1);
    }

    #[test]
    fn foreign_functions_of_each_operation_see_its_own_still_world() {
        let request: RunFunctionRequest = from_json(&json!({"input": {"template": "t"}})).unwrap();
        let of = |uid: &str| {
            let metadata = json!({"name": "o", "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"});
            let operation = json!({"kind": "Operation", "metadata": metadata});
            let operation = Struct::try_from(operation.as_object().unwrap().clone()).unwrap();
            stillness(&request, Some(&operation))
        };
        assert_eq!(of("a").0, Duration::from_secs(1_767_323_045));
        assert_eq!(of("a"), of("a"), "another attempt");
        assert_ne!(of("a").1, of("b").1);
    }

    #[test]
    fn call_draws_the_same_whatever_others_draw() {
        let site = |name: &'static str, number| CallSite { name, number };
        let begin = |randomness: &mut Randomness, sites: &[CallSite<'_>]| {
            let mut bytes = [0; 40];
            randomness.begin(sites);
            randomness.fill(&mut bytes);
            bytes
        };
        let new = || Randomness::of(&from_json(&request("a", "t")).unwrap(), None);
        let (mut one, mut other) = (new(), new());
        let call = site("randAlpha", 1);
        let first = begin(&mut one, &[call]);
        for sites in [&[site("randAlpha", 0)][..], &[site("uuidv4", 1)], &[site("include", 0), call]] {
            assert_ne!(begin(&mut other, sites), first, "{sites:?}");
        }
        assert_eq!(begin(&mut other, &[call]), first);
        let second = begin(&mut one, &[call]);
        assert_ne!(second, first, "a loop");
        assert_eq!(begin(&mut other, &[call]), second);
    }

    #[test]
    fn the_clock_stands_where_the_composite_resource_was_created() {
        let randomness = Randomness::of(&from_json(&request("a", "t")).unwrap(), None);
        assert_eq!(randomness.now().seconds, 1_767_323_045);
        assert_eq!(Randomness::of(&RunFunctionRequest::default(), None).now().seconds, 0);
    }
}
