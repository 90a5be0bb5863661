# Lists what there is.
default:
    @just --list

# Show what an example becomes.
hello:
    cargo run --release -- render examples/hello/xr.yaml examples/hello/composition.yaml

# Set up what the tests need, and run them all.
test:
    cargo xtask test

# Everything that has to hold before a change lands.
ci:
    cargo xtask ci

# Which crate may depend on which, how files start, paths in documents, generated code.
tidy:
    cargo xtask tidy

# Spelling, unused dependencies, licences and sources of dependencies, documentation of the code.
lint:
    cargo xtask lint

# Write the generated code.
codegen:
    cargo xtask codegen

# Build what is shipped, with a bill of materials and the licences of what is in it.
dist:
    cargo xtask dist

# Build what is shipped twice, in different directories, and compare.
reproduce:
    cargo xtask reproduce

# Measure, and print tables.
bench *filter:
    cargo xtask bench {{filter}}

# Simulate a control plane while everything fails that can.
simulate seeds="1000":
    cargo xtask simulate --seeds {{seeds}}

# Compare with Crossplane itself on generated cases.
compare cases="1000":
    cargo xtask compare --cases {{cases}}

# Fuzz each target for some seconds.
fuzz seconds="60":
    cargo xtask fuzz --seconds {{seconds}}
