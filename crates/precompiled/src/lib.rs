//! Reads native code of the WebAssembly engine back from a file, if it is exactly what we wrote. Nothing else is in this crate.
//!
//! The engine cannot check native code: a user who writes it can do what our process can do. So the code is sealed with a key
//! that only our user can read, together with what it was compiled from and for. This is the only crate with `unsafe`
//! (docs/adr/0031).
//!
//! # Invariants
//! * Bytes that were not sealed with the same key and the same purpose are never given to the engine.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

/// Bytes of a seal, which stands before the code.
const SEAL: usize = 32;

/// What native code is sealed with. A user who knows it can have any code run.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Native code, sealed. The purpose says what it was compiled from, and for which engine.
    pub fn seal(&self, purpose: &[u8], code: &[u8]) -> Vec<u8> {
        let mut sealed = self.mac(purpose, code).finalize().into_bytes().to_vec();
        sealed.extend_from_slice(code);
        sealed
    }

    /// The code of a seal that we made for this purpose. Nothing if anybody else made it, or if a single bit differs.
    fn open<'a>(&self, purpose: &[u8], sealed: &'a [u8]) -> Option<Trusted<'a>> {
        let (seal, code) = sealed.split_at_checked(SEAL)?;
        self.mac(purpose, code).verify_slice(seal).ok()?;
        Some(Trusted(code))
    }

    fn mac(&self, purpose: &[u8], code: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        // Its length keeps the purpose apart from the code.
        mac.update(&(purpose.len() as u64).to_le_bytes());
        mac.update(purpose);
        mac.update(code);
        mac
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Bytes that we gave to [`Key::seal`] ourselves. Only [`Key::open`] makes them.
struct Trusted<'a>(&'a [u8]);

/// The module that was sealed. Nothing if we did not seal it for this purpose, an error if this engine cannot use it.
pub fn module(engine: &Engine, key: &Key, purpose: &[u8], sealed: &[u8]) -> Option<wasmtime::Result<Module>> {
    let trusted = key.open(purpose, sealed)?;
    #[expect(unsafe_code, reason = "the engine cannot check native code, the seal can")]
    // SAFETY: `trusted` came from the compiler: in our own process, in a helper that our own process started and read from (the same
    // program), or in a process that holds the same key. The seal shows that no bit of it changed since. The engine itself refuses code of
    // another version, machine or configuration.
    let module = unsafe { Module::deserialize(engine, trusted.0) };
    Some(module)
}

/// The component that was sealed. Nothing if we did not seal it for this purpose, an error if this engine cannot use it.
pub fn component(
    engine: &Engine,
    key: &Key,
    purpose: &[u8],
    sealed: &[u8],
) -> Option<wasmtime::Result<Component>> {
    let trusted = key.open(purpose, sealed)?;
    #[expect(unsafe_code, reason = "the engine cannot check native code, the seal can")]
    // SAFETY: as above.
    let component = unsafe { Component::deserialize(engine, trusted.0) };
    Some(component)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    fn sealed(engine: &Engine, key: &Key) -> Vec<u8> {
        let code = wat::parse_str(r#"(module (func (export "f")))"#).unwrap();
        let module = Module::from_binary(engine, &code).unwrap();
        key.seal(b"purpose", &module.serialize().unwrap())
    }

    #[test]
    fn what_we_sealed_is_read_back() {
        let (engine, key) = (Engine::default(), Key::new([7; 32]));

        let module = module(&engine, &key, b"purpose", &sealed(&engine, &key)).unwrap().unwrap();

        assert!(module.get_export("f").is_some());
    }

    #[test]
    fn what_others_sealed_or_changed_is_refused() {
        let (engine, key) = (Engine::default(), Key::new([7; 32]));
        let sealed = sealed(&engine, &key);

        assert!(module(&engine, &Key::new([8; 32]), b"purpose", &sealed).is_none());
        assert!(module(&engine, &key, b"another purpose", &sealed).is_none());
        assert!(module(&engine, &key, b"purpose", &sealed[..SEAL - 1]).is_none());
        assert!(module(&engine, &key, b"purpose", &sealed[..sealed.len() - 1]).is_none());
        let other = component(&engine, &key, b"purpose", &sealed).unwrap();
        assert!(other.is_err(), "a module is no component");
        for at in (0..sealed.len()).step_by(97) {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(module(&engine, &key, b"purpose", &changed).is_none(), "{at}");
        }
    }
}
