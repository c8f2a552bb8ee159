# make demo         real data through PnetCDF and parallel HDF5, natively and with aggio
# make check        every test that a change must pass (also .ci/run); with TESTED=release against
#                   the optimised library
# make check-long   the same random tests, a hundred times as many
# make conformance  the suites of MPICH, ROMIO, PnetCDF, HDF5, h5py, netCDF-C, mpi4py; pjdfstest
# make bench        aggio beside the native implementations and the limit: build/bench/results/
# make simulate     the plans of aggio and ROMIO for 1,000 and 100,000 ranks: docs/benchmarks/
# make install      libaggio.so, the aggio tool, manual pages and completions below PREFIX;
#                   DEBUG_INFO=1 installs debug information, too

PREFIX ?= /usr/local
CARGO  ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
SETUP  := tests/setup.sh

# rustup puts cargo here; a fresh shell often does not have it on its PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The library that is shown and measured; `make check` has another one, see below.
LIBRARY := $(or $(AGGIO_LIBRARY),$(abspath $(TARGET)/release/libaggio.so))

.PHONY: all build demo check check-long conformance bench simulate lint doc test test-first \
        test-others test-waiting install clean

all: build

build:
	$(CARGO) build --release --workspace

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

# Three parts that run beside each other, and take about the same time. The tests of the last one
# wait more than they compute: for killed programs, time limits and hosts that are away. More jobs
# of many ranks on two cores are so slow that some tests take them for hung.
FIRST   := formats mpi
WAITING := coupled deferral
SUITES_OF_TESTS := $(notdir $(basename $(wildcard */tests/*.rs */*/tests/*.rs)) \
  $(patsubst %/main.rs,%,$(wildcard */tests/*/main.rs */*/tests/*/main.rs)))
OTHERS := $(filter-out $(FIRST) $(WAITING),$(sort $(SUITES_OF_TESTS)))

# The build whose library and commands MPI jobs use. That of `cargo build` takes a quarter of the
# time of the optimised one, and checks for overflows.
TESTED ?= debug
TESTING = AGGIO_TESTS=require \
  AGGIO_LIBRARY=$(or $(AGGIO_LIBRARY),$(abspath $(TARGET)/$(TESTED)/libaggio.so))

# A missing MPI or library fails the run here; a plain `cargo test` skips what it cannot start.
# Each part is run to its end, and prints what it has to say in one piece.
test:
	$(CARGO) build --workspace $(if $(filter release,$(TESTED)),--release)
	$(CARGO) test --workspace --no-run
	tests/scratch.sh $(MAKE) -j3 --keep-going --output-sync=target \
	  test-first test-others test-waiting

test-first:
	$(TESTING) $(CARGO) test --workspace --no-fail-fast $(addprefix --test ,$(FIRST))
	$(TESTING) $(CARGO) test --workspace --no-fail-fast --doc

test-waiting:
	$(TESTING) $(CARGO) test --workspace --no-fail-fast $(addprefix --test ,$(WAITING))

test-others:
	$(TESTING) $(CARGO) test --workspace --no-fail-fast --lib --bins $(addprefix --test ,$(OTHERS))

check:
	$(SETUP) check
	$(MAKE) lint
	$(MAKE) doc
	$(MAKE) test

check-long:
	$(SETUP) check-long
	$(MAKE) build
	AGGIO_TESTS=require AGGIO_LIBRARY=$(LIBRARY) \
	  AGGIO_DIFF_CASES=200000 AGGIO_EXCHANGE_CASES=100000 AGGIO_TEST_FACTOR=10 \
	  $(CARGO) test --workspace --release --no-fail-fast

demo:
	$(SETUP) demo
	$(MAKE) build
	AGGIO_LIBRARY=$(LIBRARY) tests/demo/run.py

conformance:
	$(SETUP) conformance
	$(MAKE) build
	AGGIO_LIBRARY=$(LIBRARY) tests/conformance/run.py $(SUITES)
	if [ -z "$(SUITES)" ]; then \
	  tests/conformance/pjdfstest.py --aggio $(TARGET)/release/aggio --library $(LIBRARY); \
	fi

# The MPI side is built once for each MPI; tmpfs, the file system of this directory and a slow file
# system are measured. BENCH_ARGUMENTS="--quick" is for trying things out; docs/benchmarks/README.md
# tells more.
BENCH_ARGUMENTS ?=
RESULTS := build/bench/results
bench:
	$(SETUP) bench
	$(MAKE) build
	MPICC=mpicc.openmpi $(CARGO) build --release --manifest-path tools/bench-ranks/Cargo.toml \
	  --target-dir $(TARGET)/bench/openmpi
	MPICC=mpicc.mpich $(CARGO) build --release --manifest-path tools/bench-ranks/Cargo.toml \
	  --target-dir $(TARGET)/bench/mpich
	mkdir -p $(RESULTS)
	$(TARGET)/release/aggio-bench --out $(RESULTS) --library $(LIBRARY) \
	  --openmpi $(TARGET)/bench/openmpi/release/aggio-bench-ranks \
	  --mpich $(TARGET)/bench/mpich/release/aggio-bench-ranks \
	  --on tmpfs=/dev/shm --on $$(stat -f -c %T build/bench | tr / -)=$$PWD/build/bench \
	  --slowfs $(TARGET)/release/aggio-slowfs --slow-directory $$PWD/build/bench/slow --start \
	  $(BENCH_ARGUMENTS)
	$(TARGET)/release/aggio-bench --posix --out $(RESULTS) --library $(LIBRARY) \
	  --on tmpfs=/dev/shm --on $$(stat -f -c %T build/bench | tr / -)=$$PWD/build/bench \
	  --slowfs $(TARGET)/release/aggio-slowfs --slow-directory $$PWD/build/bench/slow
	$(TARGET)/release/aggio-bench --applications --out $(RESULTS) --library $(LIBRARY) \
	  --on tmpfs=/dev/shm --on $$(stat -f -c %T build/bench | tr / -)=$$PWD/build/bench \
	  --slowfs $(TARGET)/release/aggio-slowfs --slow-directory $$PWD/build/bench/slow
	$(CARGO) run --release -p agg-core --example blob_figures -- --markdown /dev/shm \
	  > $(RESULTS)/containers.md
	tests/mount_speed.py --aggio $(TARGET)/release/aggio > $(RESULTS)/fuse.md
	tests/netcdf_speed.py --library $(LIBRARY) --aggio $(TARGET)/release/aggio \
	  --on tmpfs=/dev/shm \
	  --on $$(stat -f -c %T build/bench | tr / -)=$$PWD/build/bench > $(RESULTS)/netcdf.md
	$(CARGO) build --release -p aggio-formats --example blob_sets
	tests/set_speed.py --aggio $(TARGET)/release/aggio \
	  --generator $(TARGET)/release/examples/blob_sets > $(RESULTS)/sets.md

# Not with `>` alone: a failure must not leave half a document. Both tests leave the table of what
# they compare in tmp/counted.md and tmp/predicted.md below the target folder.
simulate: build
	$(CARGO) test -p aggio --test commands counted::
	AGGIO_TESTS=require AGGIO_LIBRARY=$(LIBRARY) $(CARGO) test -p aggio-tests --test mpi predicted::
	$(TARGET)/release/aggio simulate --markdown --machine cluster,lustre \
	  --ranks 1000,100000 simulation > $(TARGET)/simulation.md
	cp $(TARGET)/simulation.md docs/benchmarks/simulation.md

# Stripped; DEBUG_INFO=1 installs the debug information beside it, below lib/debug, where gdb and
# perf look.
install: build
	tools/install-stripped $(TARGET)/release/libaggio.so "$(DESTDIR)$(PREFIX)" \
	  lib/libaggio.so $(DEBUG_INFO)
	tools/install-stripped $(TARGET)/release/aggio "$(DESTDIR)$(PREFIX)" bin/aggio $(DEBUG_INFO)
	install -D -m 644 completions/aggio.bash \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions/aggio
	install -D -m 644 completions/_aggio $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_aggio
	install -D -m 644 completions/aggio.fish \
	  $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/aggio.fish
	for page in man/*.[1-8]; do \
	  [ -e "$$page" ] || continue; \
	  install -D -m 644 "$$page" "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}"; \
	done

clean:
	$(CARGO) clean
	rm -rf build
