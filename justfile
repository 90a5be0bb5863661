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

# Which crate may depend on which, licences, how files start, generated code.
tidy:
    cargo xtask tidy

# Write the generated code.
codegen:
    cargo xtask codegen

# Measure, and print tables.
bench *filter:
    cargo xtask bench {{filter}}

# Compare with Crossplane itself on generated cases.
compare cases="1000":
    cargo xtask compare --cases {{cases}}

# Fuzz each target for some seconds.
fuzz seconds="60":
    cargo xtask fuzz --seconds {{seconds}}
