#!/bin/bash
# What `make lint` runs, all of it, whatever fails: exits 1 where anything did. --format writes the
# sources as it wants them instead.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
mapfile -t cpp < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu')
mapfile -t js < <(git ls-files --cached --others --exclude-standard '*.js')

if [[ ${1:-} == --format ]]; then
    "$bin/clang-format" -i "${cpp[@]}"
    "$bin/biome" format --write "${js[@]}"
    "$bin/ruff" check --quiet --fix-only .
    "$bin/ruff" format --quiet .
    exit
fi

status=0
check() {  # title, command
    local start=$SECONDS log
    if log=$("${@:2}" 2>&1); then
        printf '%-14s passed, %d s\n' "$1" $((SECONDS - start))
    else
        printf '%s\n%-14s failed, %d s\n' "$log" "$1" $((SECONDS - start))
        status=1
    fi
}

check tree "$bin/python" .ci/check_tree.py
check clang-format "$bin/clang-format" --dry-run -Werror "${cpp[@]}"
check biome "$bin/biome" format "${js[@]}"
check "ruff check" "$bin/ruff" check --quiet .
check "ruff format" "$bin/ruff" format --check --quiet .
check floors "$bin/lint-imports" --no-cache
check mypy "$bin/python" -m mypy
check workflows "$bin/check-jsonschema" --builtin-schema vendor.github-workflows \
    .github/workflows/*.yml
exit $status
