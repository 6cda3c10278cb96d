# Everything from an empty clone: `make report` and `make test` install what they need (Debian
# packages, a virtual environment in .venv, the build in build/) and repeat nothing that is up to
# date.
SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
JOBS ?= $(shell nproc)
BUILD := build/release
VENV := .venv/bin
LOGS := build/test-logs

cpp_sources := $(shell find core emulation analysis bindings tests -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt) \
               CMakeLists.txt CMakePresets.json pyproject.toml
python_sources := $(shell find bindings/apscope -type f -not -path '*/__pycache__/*' -not -name '*.so' -not -name '*.pyi')
traces := digits digits_w64 characters resnet18 gpt
trace_files := $(shell find $(traces:%=notebooks/data/%) -type f)

.PHONY: help report report-all test lint tidy cuda portable sanitize fuzz format package benchmark exhaustive faults picture stubs docs extending tables notebooks clean system \
        test-cpp test-python

help:
	@echo "make report      replay the bundled recorded traces through --scheme main into out/ and write out/report.html"
	@echo "make report-all  the same through every scheme (--scheme all), into out/all/"
	@echo "make test        build everything and run the C++ tests, the Python tests and the notebooks"
	@echo "make lint        checks of the sources: layout, floors, clang-format, biome (JavaScript), ruff, mypy"
	@echo "make tidy        clang-tidy on the C++ sources that changed since main; ALL=1: on all, half an hour"
	@echo "make sanitize    the C++ tests and quick Python tests under the address and undefined-behaviour sanitizers, the C++ tests under the thread sanitizer; ONLY=asan, tsan"
	@echo "make fuzz        readers of files, names, specs, dumps and results under libFuzzer, 30 minutes each, and generated calls of Python and C++; MINUTES=N, TARGETS=NAMES, EXAMPLES=N"
	@echo "make format      write sources as make lint wants them"
	@echo "make package     build the sdist and the wheel into build/package/ and test them in a new environment; also the C++ library"
	@echo "make cuda        compile the CUDA library and module, with NVIDIA's compiler from PyPI if there is no nvcc, and list the registers and the local memory of every kernel; ARCHITECTURES='80;90'"
	@echo "make portable    one program by g++, Clang, libc++, for aarch64 and WebAssembly: whose outputs must be equal; BUILDS='clang aarch64'"
	@echo "make benchmark   the kernels and the C++ library's casts under Google Benchmark, the Python calls under pytest-benchmark, briefly"
	@echo "make exhaustive  the long proofs that are outdated, recorded in docs/conformance.md; MINUTES=N: start none after N"
	@echo "make faults      every command with a kill or an error at every system call that writes; part of make exhaustive"
	@echo "make extending   execute the examples of docs/extending.md on copies of the tree; NAMES='format column'"
	@echo "make docs        write the documentation site, build/docs/index.html, the notebooks run"
	@echo "make picture     draw the pictures of README.md again; those of the report need Chromium"
	@echo "make tables      rewrite the tables of README.md, docs/scales.md, docs/schemes.md, docs/ARCHITECTURE.md, docs/reductions.md, docs/nodes.md, docs/limit.md, docs/blocks_across_layers.md, docs/advice.md and docs/search.md"
	@echo "make notebooks   run the notebooks and store them with their outputs; NAMES='03 07'"
	@echo "make stubs       write the type stubs of the extension modules again"
	@echo "make clean       remove everything that these commands made: build/ out/ .venv/ .stamps/, docs/api/, caches"

# ---- What everything needs --------------------------------------------------------------------

system:
	@PYTHON=$(PYTHON) .ci/system_packages.sh

# What a report needs: the packages that pyproject.toml requires to build and to run.
.stamps/venv: pyproject.toml | system
	@mkdir -p $(@D)
	@test -x $(VENV)/python || { echo "Making .venv"; $(PYTHON) -m venv .venv; }
	@echo "Installing the Python packages of pyproject.toml into .venv"
	@$(VENV)/python -m pip install --quiet --upgrade pip
	@$(VENV)/python .ci/requirements.py | $(VENV)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

# Editable: Python sources count as they are; C++ sources are rebuilt, only what changed.
.stamps/modules: .stamps/venv $(cpp_sources)
	@echo "Building the extension modules in $(BUILD)"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(VENV)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

# What tests, notebooks and other extras need besides.
.stamps/packages: .stamps/venv .ci/install_torch.py
	@echo "Installing the packages of the tests into .venv"
	@$(VENV)/python .ci/requirements.py test dask remote benchmark | $(VENV)/python -m pip install --quiet --requirement /dev/stdin
	@$(VENV)/python .ci/install_torch.py
	@touch $@

.stamps/installed: .stamps/packages .stamps/modules
	@touch $@

.stamps/tests-built: .stamps/installed $(cpp_sources)
	@echo "Building the C++ tests in $(BUILD)"
	@cmake --preset release --log-level=WARNING
	@cmake --build $(BUILD) --parallel $(JOBS) -- --quiet
	@touch $@

# ---- The two commands -------------------------------------------------------------------------

report: out/report.html
	@echo "The report is out/report.html; the numbers behind it are in out/results.parquet."

report-all: out/all/report.html
	@echo "The report is out/all/report.html; the numbers behind it are in out/all/results.parquet."

# out/ is of these commands alone: what an older version left there goes.
out/report.html out/all/report.html: .stamps/modules $(trace_files) $(python_sources)
	$(VENV)/apscope replay $(traces:%=notebooks/data/%) --scheme $(if $(findstring /all/,$@),all,main) --limit --persistence -o $(@D) --force
	$(VENV)/apscope report $(@D) -o $@ --force

# All three run, whatever fails; the closing lines count.
test: .stamps/tests-built
	@rm -rf $(LOGS) && mkdir -p $(LOGS)
	@echo "Running the C++ tests, the Python tests and the notebooks"
	@status=0; $(MAKE) --keep-going test-cpp test-python || status=1; \
	 .ci/test_summary.sh $(LOGS) $$status

# The proof over all 2^32 inputs runs once a build: its result stands until the test program
# changes.
.stamps/all-fp32: .stamps/tests-built
	@if [ ! -f $@ ] || [ $(BUILD)/tests/apscope_tests -nt $@ ]; then \
	   $(BUILD)/tests/apscope_tests --gtest_filter='*AllFp32*' > build/all-fp32.log || { cat build/all-fp32.log; exit 1; }; fi
	@touch $@

test-cpp: .stamps/all-fp32
	@grep inputs build/all-fp32.log | sed 's/^/Array path against the rule, this build: /'
	@ctest --test-dir $(BUILD) --parallel $(JOBS) --output-on-failure --no-tests=error --exclude-regex AllFp32 \
	   | tee $(LOGS)/cpp | grep -v '  Passed  \|  Start '

# Hundreds of processes import the package: its modules are compiled once, even where the
# environment forbids to keep what is compiled.
test-python: .stamps/tests-built
	@PYTHONDONTWRITEBYTECODE= $(VENV)/python -m pytest -q --numprocesses $(JOBS) --dist worksteal --durations=5 tests | tee $(LOGS)/python

# ---- Lint and packages ------------------------------------------------------------------------

# mypy and clang-tidy look at what the package and its headers need as well.
.stamps/lint: .stamps/venv
	@echo "Installing the packages of make lint into .venv"
	@$(VENV)/python .ci/requirements.py lint package | $(VENV)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

lint: .stamps/installed .stamps/lint  # mypy reads the package as it is installed
	@.ci/lint.sh

tidy: .stamps/lint
	@cmake --preset release -B build/tidy -D APSCOPE_SHARE_PARSING=OFF --log-level=ERROR
	@$(VENV)/python .ci/tidy.py $(if $(ALL),--all)

# Where there is a GPU its tests run, too.
cuda: .stamps/installed
	@JOBS=$(JOBS) .ci/cuda.sh

# All that this machine has the tools for; writes build/portable/ and a build folder each.
portable: .stamps/installed
	@PYTHON=$(PYTHON) JOBS=$(JOBS) .ci/portable.sh $(BUILDS)

# The presets of CMakePresets.json: configured, built and run, all but the proofs over all fp32
# numbers; then quick Python tests.
sanitize: .stamps/installed
	@for preset in $(or $(ONLY),asan tsan); do JOBS=$(JOBS) .ci/sanitize.sh $$preset || exit 1; done

# Clang's fuzzer, and atheris for what is Python; calls of the C++ library under g++'s sanitizers.
.stamps/fuzz: .stamps/installed
	@PYTHON=$(PYTHON) .ci/system_packages.sh clang-16 libclang-rt-16-dev
	@$(VENV)/python .ci/requirements.py fuzz | $(VENV)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

fuzz: .stamps/fuzz
	@cmake --preset fuzz --log-level=WARNING && cmake --build --preset fuzz --parallel $(JOBS) -- --quiet
	@tests/fuzz/run.sh $(or $(MINUTES),30) $(TARGETS)
	@cmake --preset asan --log-level=WARNING && cmake --build build/asan --parallel $(JOBS) --target apscope_generated_calls -- --quiet
	@UBSAN_OPTIONS=print_stacktrace=1 build/asan/tests/bindings/cpp/apscope_generated_calls --seed $$RANDOM --seconds $$((60 * $(or $(MINUTES),30)))
	@APSCOPE_EXAMPLES=$(or $(EXAMPLES),20) $(VENV)/python -m pytest -q --numprocesses $(JOBS) --dist worksteal tests/python/generated

format: .stamps/lint
	@.ci/lint.sh --format

package: .stamps/installed .stamps/lint
	@.ci/package.sh

# ---- More -------------------------------------------------------------------------------------

# Google Benchmark is for this alone.
.stamps/benchmarks-built: .stamps/installed $(cpp_sources)
	@PYTHON=$(PYTHON) .ci/system_packages.sh libbenchmark-dev
	@cmake --preset release --log-level=WARNING
	@cmake --build $(BUILD) --parallel $(JOBS) --target apscope_benchmarks apscope_cpp_benchmarks apscope_peer_benchmarks -- --quiet
	@touch $@

# A look of a minute or two; tests/benchmarks/ says how to take longer ones.
benchmark: .stamps/benchmarks-built
	@$(BUILD)/tests/benchmarks/apscope_benchmarks --benchmark_min_time=0.02
	@$(BUILD)/tests/benchmarks/apscope_cpp_benchmarks --benchmark_min_time=0.02
	@$(BUILD)/tests/benchmarks/apscope_peer_benchmarks --benchmark_min_time=0.02 --benchmark_filter='/65536/'
	@$(VENV)/python -m pytest tests/benchmarks/bench_python.py -q --benchmark-max-time=0.05 --benchmark-min-rounds=3 \
	   --benchmark-group-by=param:count --benchmark-sort=fullname --benchmark-columns=median,iqr,rounds

# Goes on where it was stopped. MINUTES=N starts no job after N minutes; 0 writes the page alone.
# ONLY=REGEX takes some jobs.
exhaustive: .stamps/installed
	@$(VENV)/python -m tests.exhaustive $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only '$(ONLY)')
	@$(if $(ONLY)$(MINUTES),,$(VENV)/python -m pytest -q --numprocesses $(JOBS) --dist worksteal -m long tests)
	@$(if $(ONLY)$(MINUTES),,$(MAKE) faults)

# Under half an hour on two cores; what make test does a few of.
faults: .stamps/installed
	@$(VENV)/python -m tests.faults
	@APSCOPE_FAULTS=all $(VENV)/python -m pytest -q tests/faults/test_surroundings.py

.stamps/docs: .stamps/installed
	@PYTHON=$(PYTHON) .ci/system_packages.sh doxygen
	@echo "Installing the packages that the documentation site needs into .venv"
	@$(VENV)/python .ci/requirements.py docs | $(VENV)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

# The examples of docs/extending.md, on copies of the tree. NAMES='format column'
extending: .stamps/installed
	@JOBS=$(JOBS) $(VENV)/python -m tests.extending $(NAMES)

# Offline. A warning, such as that of a link to nowhere, is an error.
docs: .stamps/docs
	@$(VENV)/python -m sphinx --builder html --conf-dir docs --doctree-dir build/docs-pages \
	   --fail-on-warning --keep-going --quiet . build/docs
	@echo "The site is build/docs/index.html."

picture: out/report.html
	$(VENV)/python -m docs.tools.picture out docs/picture.svg
	$(VENV)/python -m docs.tools.quickreduce docs/quickreduce.png
	$(VENV)/python -m docs.tools.fractrain_gates docs/fractrain_gates.png
	$(VENV)/python -m docs.tools.report_picture out/report.html

tables: .stamps/installed
	$(VENV)/python -m docs.tools

notebooks: .stamps/installed
	$(VENV)/python -m docs.tools.notebooks $(NAMES)

stubs: .stamps/installed
	@$(VENV)/python .ci/stubs.py bindings/apscope

clean:
	rm -rf build out .venv .stamps docs/api .mypy_cache .ruff_cache
