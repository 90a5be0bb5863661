//! Clients that we did not write, using a plane as they would use a cluster. `docs/peers.md` says what each does.
//!
//! The programs look at their results themselves; what they print is compared with what they print about Kubernetes.

mod go;
mod helm;
mod python;
mod typescript;

use crate::peers::peer;
use crate::plane::Plane;
use crate::sandbox::Ran;

/// What a program says about a scenario on a new plane. Nothing if it is not installed.
fn says(program: &str, scenario: &str) -> Option<String> {
    let program = peer(program)?;
    let plane = Plane::new();
    Some(Ran::from(plane.client(&program).arg(scenario).output().unwrap()).ok())
}

/// The program lives through the scenario, and sees what it would see in Kubernetes.
fn sees(program: &str, scenario: &str, expected: &[&str]) {
    if let Some(said) = says(program, scenario) {
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }
}
