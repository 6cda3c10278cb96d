#!/bin/bash
# run.sh MINUTES [TARGET...]: runs all targets, or these, for MINUTES each, two at a time; exits with
# 1 if one finds anything. Inputs are in build/fuzz/corpus/, findings in build/fuzz/found/.
set -euo pipefail
cd "$(dirname "$0")/../.."
minutes=$1 python=.venv/bin/python
shift
mkdir -p build/fuzz/{corpus,found,logs}

one() {
    local target=$1 program=(build/fuzz/tests/fuzz/fuzz_$1)
    [[ ! -f tests/fuzz/fuzz_$target.py ]] || program=("$python" "tests/fuzz/fuzz_$target.py")
    mkdir -p "build/fuzz/corpus/$target"
    if "${program[@]}" -max_total_time=$((minutes * 60)) -rss_limit_mb=4096 -timeout=60 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
        "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"build/fuzz/logs/$target" 2>&1; then
        local inputs
        inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/logs/$target")
        echo "$target: $inputs inputs in $minutes minutes, no finding"
    else
        echo "$target: a finding; see build/fuzz/logs/$target and build/fuzz/found/"
        return 1
    fi
}
export -f one
export minutes python PYTHONPATH=$PWD
(($#)) || set -- safetensors manifest formats plans specs schemes converters results packs
printf '%s\n' "$@" | xargs -P 2 -I{} bash -c 'one {}'
