#!/bin/bash
# Usage: any_processor.sh [SETTING...]
#
# Runs the tests whose numbers pass through PyTorch's, NumPy's or the BLAS's kernels under those of
# other processors and other numbers of threads, one setting after the other; all without arguments.
# The logs are build/any-processor/SETTING.log. FILES=tests is every Python test; JOBS=N processes.
set -uo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
logs=build/any-processor
files=${FILES:-tests/python/train tests/python/torch_ops tests/python/record tests/python/claims
    tests/python/repository/test_notebooks.py tests/python/repository/test_samples.py
    tests/python/repository/test_insight.py}
mkdir -p "$logs"

# Instruction set, kernel of OpenBLAS, threads. `own` is what the library chooses here.
settings="default haswell 1
default own 4
avx2 haswell 4
avx2 own 1
avx512 haswell 1
avx512 own 4"

run() {  # instruction set, kernel of OpenBLAS, threads: pytest in that setting
    local variables=(ATEN_CPU_CAPABILITY="$1" {OMP,MKL,OPENBLAS}_NUM_THREADS="$3")
    case $1 in
        default)  # no more than every x86-64 processor has, in NumPy and the C library too
            variables+=(ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE
                GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F
                NPY_DISABLE_CPU_FEATURES="$("$python" -c "import numpy._core._multiarray_umath as m
print(*(f for f in m.__cpu_dispatch__ if m.__cpu_features__[f]))")") ;;
        avx2) variables+=(ONEDNN_MAX_CPU_ISA=AVX2 MKL_CBWR=AVX2) ;;
    esac
    [[ $2 == own ]] || variables+=(OPENBLAS_CORETYPE="${2^}")
    # shellcheck disable=SC2086  # words
    env -u OPENBLAS_CORETYPE "${variables[@]}" "$python" -m pytest -q -p no:cacheprovider \
        --numprocesses "${JOBS:-2}" --dist worksteal $files
}

status=0
for name; do
    grep -qx "${name//-/ }" <<< "$settings" && continue
    echo "There is no setting $name; use one of:" ${settings// /-} >&2
    exit 2
done
while read -r set blas threads; do
    name=$set-$blas-$threads
    if (($#)) && [[ " $* " != *" $name "* ]]; then continue; fi
    run "$set" "$blas" "$threads" > "$logs/$name.log" 2>&1 < /dev/null || status=1
    printf '%-18s %s\n' "$name" "$(tail -n 1 "$logs/$name.log")"
done <<< "$settings"
exit $status
