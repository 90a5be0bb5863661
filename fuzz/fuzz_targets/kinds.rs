//! Whatever bytes a client sends as an object of one of Kubernetes' kinds, in protobuf or JSON, the answer is an object or
//! an error, and reading, defaulting and checking what was read changes nothing more.
#![no_main]

use ferroplane_schema::builtin::{self, BuiltinKind, protobuf};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn settles(kind: BuiltinKind, object: &Value) {
    let _ = kind.check(object);
    let Ok(mut read) = kind.read(object) else { return };
    let again = kind.read(&Value::Object(read.object.clone())).expect("what was read can be read");
    assert!(again.unknown.is_empty() && again.object == read.object);
    kind.default(&mut read.object);
    let mut twice = read.object.clone();
    kind.default(&mut twice);
    assert_eq!(twice, read.object);
    let _ = kind.validate(&read.object);
}

// The first byte chooses the kind and the form.
fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let kinds: Vec<_> = builtin::kinds().collect();
    let kind = kinds[usize::from(*choice) % kinds.len()];
    let object = if rest.starts_with(b"k8s\0") {
        protobuf::open(rest).ok().and_then(|decoded| decoded.object(kind).ok())
    } else {
        serde_json::from_slice(rest).ok()
    };
    if let Some(object) = object {
        settles(kind, &object);
    }
});
