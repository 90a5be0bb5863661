//! Measures what has a budget, side by side in one run, and prints tables. `cargo xtask bench` runs it.
//!
//! Nothing here is asserted: a busy machine is no bug. `docs/benchmarks.md` says how to read the tables.

mod access;
mod actions;
mod apiserver;
mod batch;
mod clients;
mod codec;
mod composition;
mod containers;
mod functions;
mod growth;
mod grpc;
mod images;
mod kinds;
mod measure;
mod objects;
mod operations;
mod packages;
mod pipeline;
mod process;
mod rollout;
mod schema_objects;
mod schema_owners;
mod schema_patches;
mod served_functions;
mod store;
mod templates;
mod validate;

/// As in the product, unless allocations are counted.
#[cfg(not(feature = "allocations"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    if containers::plays_a_part(&filter) || actions::plays_a_part(&filter) {
        return;
    }
    let benches: &[(&str, fn())] = &[
        ("codec", codec::run),
        ("pipeline", pipeline::run),
        ("functions", functions::run),
        ("templates", templates::run),
        ("grpc", grpc::run),
        ("process", process::run),
        ("containers", containers::run),
        ("batch", batch::run),
        ("schema-owners", schema_owners::run),
        ("schema-objects", schema_objects::run),
        ("schema-patches", schema_patches::run),
        ("growth", growth::run),
        ("kinds", kinds::run),
        ("store", store::run),
        ("validate", validate::run),
        ("access", access::run),
        ("apiserver", apiserver::run),
        ("clients", clients::run),
        ("composition", composition::run),
        ("composition-served", composition::run_served),
        ("recorder", composition::recorded::run),
        ("images", images::run),
        ("operations", operations::run),
        ("actions", actions::run),
        ("rollout", rollout::run),
        ("packages", packages::run),
    ];
    measure::describe_machine();
    for (name, run) in benches {
        if name.contains(&filter) {
            println!("\n## {name}\n");
            run();
        }
    }
}
