# make run                 builds larder quickly, starts a slow demo site and larder in front of it
# make run ORIGIN=http://… builds larder quickly and stands in front of your own application
# make build               builds larder with every optimisation that needs no load: ./target/release/larder
# make optimised           builds it twice, the second time by a profile of its own load: ./target/optimised/larder, 20 minutes
# make package             builds ../larder_VERSION_ARCH.deb from the binary of `make optimised`
# make package ARCH=arm64  the same for Linux on ARM, built on another machine
# make package-test        tests that package on a new Debian with systemd, as root: install, upgrades under load, purge, the Ansible role
# make archive             packs a static binary, its installer and a container file: ./target/larder-VERSION-MACHINE-linux.tar.gz
# make test                installs what the tests need, then every check and every test (what .ci/run calls)
# make bench               the binary of `make optimised` beside its peers (docs/benchmarks.md), 15 minutes more; QUICK=1 takes that of `make build`, 3 minutes
# make bench-upgrades ONE=FILE OTHER=FILE   requests during upgrades between two builds; REQUESTS=10000000 UPGRADES=50 RELOADS=0 take ten minutes
#
# FLAGS=… goes to larder: make run FLAGS='--listen 0.0.0.0:8080 --ram 1GiB'.

ORIGIN ?=
FLAGS ?=

run: prepare
	cargo build --profile trial --locked --bin larder
	@./target/trial/larder $(if $(ORIGIN),proxy $(ORIGIN),demo) $(FLAGS)

build: prepare
	cargo build --release --locked --bin larder

optimised: prepare
	@tests/install optimised
	@packaging/optimise

prepare:
	@tests/install build
	@ui/build

ARM = aarch64-unknown-linux-gnu

# For ARM on another machine: the larder of this one prints manual pages and completions.
package: $(if $(filter arm64,$(ARCH)),build,optimised)
ifeq ($(ARCH),arm64)
	@tests/install arm64
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc cargo build --release --locked --bin larder --target $(ARM)
	LARDER=$(CURDIR)/target/$(ARM)/release/larder HERE=$(CURDIR)/target/release/larder dpkg-buildpackage -b -us -uc -aarm64
else
	dpkg-buildpackage -b -us -uc
endif

# DEBIAN=DIR keeps the Debian that is installed for it.
package-test: package
	packaging/debian-test --role ../larder_$$(dpkg-parsechangelog -S Version)_$$(dpkg --print-architecture).deb $(DEBIAN)

STATIC = $(shell uname -m)-unknown-linux-musl

archive: prepare
	@tests/install archive
	cargo build --release --locked --bin larder --target $(STATIC)
	@packaging/archive/build target/$(STATIC)/release/larder target

test:
	@tests/install test
	@tests/check

bench: $(if $(QUICK),build,optimised)
	cargo run --locked -p larder-bench -- $(if $(QUICK),--quick,--larder target/optimised/larder) $(FLAGS)
	cargo test --profile trial --locked -p larder-server -p larder-config --lib -- --nocapture --test-threads 1 \
		every_client_has_its_burst two_hundred_routes a_hundred_thousand_lines | grep " ns\| ms"

REQUESTS ?= 10000000
UPGRADES ?= 50
RELOADS ?= 0

bench-upgrades:
	cargo run --release --locked --manifest-path bench/clients/Cargo.toml --target-dir bench/target -- $(ONE) $(OTHER) $(REQUESTS) $(UPGRADES) 10 $(RELOADS)

.PHONY: run build optimised prepare package package-test archive test bench bench-upgrades
