#!/bin/bash
# minimise.sh [TARGET...]: keeps the inputs in build/fuzz/corpus/TARGET that reach code which the
# others do not reach, by libFuzzer's -merge=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONPATH=$PWD  # as the targets import `tests`
(($#)) || set -- $(ls build/fuzz/corpus)
for target; do
    program=(build/fuzz/tests/fuzz/fuzz_"$target")
    [[ ! -f tests/fuzz/fuzz_$target.py ]] || program=(.venv/bin/python "tests/fuzz/fuzz_$target.py")
    rm -rf "build/fuzz/merged/$target" && mkdir -p "build/fuzz/merged/$target"
    "${program[@]}" -merge=1 "build/fuzz/merged/$target" "tests/fuzz/corpus/$target" \
        "build/fuzz/corpus/$target" >"build/fuzz/logs/$target-merge" 2>&1
    rm -rf "build/fuzz/corpus/$target" && mv "build/fuzz/merged/$target" "build/fuzz/corpus/$target"
done
