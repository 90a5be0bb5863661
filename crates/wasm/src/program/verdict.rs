//! Says why code stopped, from what the engine reports.

use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use crate::error::Error;
use crate::guest::{Guest, Refused};
use crate::limits::Limits;
use crate::output::Overflow;

/// What the engine says of a result that is larger than `Store::set_hostcall_fuel` allows.
const TOO_MUCH_DATA: &str = "fuel allocated for hostcalls has been exhausted";

/// Why code stopped. `Ok` if it ended itself with exit code 0.
pub(crate) fn verdict<W>(error: &wasmtime::Error, guest: &Guest<W>, limits: &Limits) -> Result<(), Error> {
    let said = guest.log.finish();
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return if *code == 0 { Ok(()) } else { Err(exit(*code, said, guest, limits)) };
    }
    if error.downcast_ref::<Overflow>().is_some() {
        return Err(Error::Output { limit: limits.output });
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => Err(Error::Stack),
        Some(Trap::OutOfFuel) => Err(Error::Fuel { limit: limits.fuel.unwrap_or_default() }),
        Some(trap) => Err(refused(guest, limits).unwrap_or(Error::Trap { reason: trap.to_string(), said })),
        None => {
            let reason = error.root_cause().to_string();
            // The engine has no type for this. Nothing else that code hands to us is as large.
            if reason.contains(TOO_MUCH_DATA) {
                return Err(Error::Output { limit: limits.output });
            }
            Err(refused(guest, limits).unwrap_or(Error::Trap { reason, said }))
        }
    }
}

/// Why a command ended with an exit code. Code that was refused memory mostly says so and ends itself.
pub(crate) fn exit<W>(code: i32, said: String, guest: &Guest<W>, limits: &Limits) -> Error {
    refused(guest, limits).unwrap_or(Error::Exit { code, said })
}

fn refused<W>(guest: &Guest<W>, limits: &Limits) -> Option<Error> {
    guest.meter.refused.map(|refused| match refused {
        Refused::Memory => Error::Memory { limit: limits.memory },
        Refused::Table => Error::Table { limit: limits.table_elements },
    })
}
