#!/bin/bash
# sanitize.sh asan|tsan: builds the C++ tests and the Python modules under the preset's sanitizers,
# runs the C++ tests, and under asan the Python tests of .ci/sanitized/tests.txt. Python itself is
# not run under the thread sanitizer: the interpreter and NumPy are built without it, so it does not
# see their synchronization; the C++ tests run the same parallel loops. JOBS: number of parallel
# jobs.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=${JOBS:-$(nproc)}
step() { echo "$preset, $1: $((SECONDS - begun)) s" && begun=$SECONDS; }

begun=$SECONDS
cmake --preset "$preset" --log-level=WARNING
cmake --build --preset "$preset" --parallel "$jobs" -- --quiet
step build
ctest --preset "$preset" --parallel "$jobs" | grep -v '  Passed  \|  Start '
step "C++ tests"
[[ $preset == asan ]] || exit 0

# The interpreter was built without sanitizers, so their library is loaded first, with that of C++,
# whose exceptions it intercepts. Memory that Python and its packages keep until the end is not a
# leak; a too large allocation fails in the caller, as it does without sanitizers.
preload=$(for library in libasan libubsan libstdc++; do
    g++ -print-file-name=$library.so
done | paste -sd:)
grep -v '^#' .ci/sanitized/tests.txt | env LD_PRELOAD="$preload" \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
    UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=.ci/sanitized APSCOPE_MODULES="build/$preset/bindings" \
    xargs .venv/bin/python -m pytest -q -p no:cacheprovider --numprocesses "$jobs" --dist worksteal
step "Python tests"
