# List all recipes.
default:
    @just --list

# Render an example.
hello:
    cargo run --release -- render examples/hello/xr.yaml examples/hello/composition.yaml

# Install the programs that tests need, and run all tests.
test:
    cargo xtask test

# Run all checks that must pass before a change is merged.
ci:
    cargo xtask ci

# Check dependencies between crates, first lines of files, words and paths in documents, and generated code.
tidy:
    cargo xtask tidy

# Check spelling, unused dependencies, licences and sources of dependencies, and the documentation of the code.
lint:
    cargo xtask lint

# Write the generated code.
codegen:
    cargo xtask codegen

# Build a release, with a bill of materials and the licences of all dependencies.
dist:
    cargo xtask dist

# Build the released program twice, in different directories, and compare.
reproduce:
    cargo xtask reproduce

# Run the benchmarks, and print tables.
bench *filter:
    cargo xtask bench {{filter}}

# Simulate a control plane with random faults.
simulate seeds="1000":
    cargo xtask simulate --seeds {{seeds}}

# Compare with Crossplane on generated cases.
compare cases="1000":
    cargo xtask compare --cases {{cases}}

# Fuzz each target for some seconds.
fuzz seconds="60":
    cargo xtask fuzz --seconds {{seconds}}
