# make run                 builds larder, starts a slow demo site and larder in front of it
# make run ORIGIN=http://… builds larder and stands in front of your own application
# make test                installs what the tests need, then every check and every test (what .ci/run calls)
# make bench               larder beside its peers (docs/benchmarks.md), 15 minutes; QUICK=1 takes 3
#
# FLAGS=… goes to larder: make run FLAGS='--listen 0.0.0.0:8080 --ram 1GiB'.

ORIGIN ?=
FLAGS ?=

run: build
	@./target/release/larder $(if $(ORIGIN),proxy $(ORIGIN),demo) $(FLAGS)

build:
	@tests/install build
	@ui/build
	cargo build --release --locked --bin larder

test:
	@tests/install test
	@tests/check

bench: build
	cargo run --locked -p larder-bench -- $(if $(QUICK),--quick) $(FLAGS)

.PHONY: run build test bench
