# `make run` builds and starts the demo (or ORIGIN=http://… to stand before your own application);
# `make test` installs what the tests need and runs every check.
run:
	cargo build --release --locked --bin larder
	./target/release/larder demo
test:
	cargo fmt --all --check
	cargo test --workspace --locked
.PHONY: run test
