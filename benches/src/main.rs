//! Measures what has a budget, side by side in one run, and prints tables. `cargo xtask bench` runs it.
//!
//! Nothing here is asserted: a busy machine is no bug. `docs/benchmarks.md` says how to read the tables.

mod batch;
mod codec;
mod functions;
mod grpc;
mod measure;
mod objects;
mod pipeline;
mod process;
mod schema;
mod structural;
mod views;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let benches: &[(&str, fn())] = &[
        ("codec", codec::run),
        ("pipeline", pipeline::run),
        ("functions", functions::run),
        ("grpc", grpc::run),
        ("process", process::run),
        ("batch", batch::run),
        ("schema", schema::run),
        ("structural", structural::run),
        ("views", views::run),
    ];
    measure::describe_machine();
    for (name, run) in benches {
        if name.contains(&filter) {
            println!("\n## {name}\n");
            run();
        }
    }
}
