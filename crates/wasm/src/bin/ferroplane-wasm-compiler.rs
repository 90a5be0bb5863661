//! The helper that compiles, alone, for tests. The product runs it as `ferroplane internal compile`.

fn main() {
    ferroplane_wasm::compile_for_parent()
}
