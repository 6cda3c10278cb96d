#!/bin/bash
# any_processor.sh [SETTING...]: the tests whose numbers come from PyTorch's, NumPy's or the BLAS's kernels,
# under kernels of other processors and other numbers of threads. The logs are build/any-processor/SETTING.log.
cd "$(dirname "$0")/.." || exit 1
export MKL_DYNAMIC=FALSE PYTHONDONTWRITEBYTECODE=1
FILES=${FILES:-$(cat tests/any_processor.txt)}
LOGS=build/any-processor
mkdir -p $LOGS

# name ATEN_CPU_CAPABILITY ONEDNN_MAX_CPU_ISA MKL_CBWR OPENBLAS_CORETYPE threads; - leaves it to the library
SETTINGS="default-haswell-1 default SSE41 COMPATIBLE Haswell 1
default-own-4 default SSE41 COMPATIBLE - 4
avx2-haswell-4 avx2 AVX2 AVX2 Haswell 4
avx2-own-1 avx2 AVX2 AVX2 - 1
avx512-haswell-1 avx512 - - Haswell 1
avx512-own-4 avx512 - - - 4"
status=0
while read -r name aten onednn mkl openblas threads; do
    [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] && continue
    unset ONEDNN_MAX_CPU_ISA MKL_CBWR OPENBLAS_CORETYPE
    export ATEN_CPU_CAPABILITY=$aten OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads
    [ "$onednn" = - ] || export ONEDNN_MAX_CPU_ISA=$onednn
    [ "$mkl" = - ] || export MKL_CBWR=$mkl
    [ "$openblas" = - ] || export OPENBLAS_CORETYPE=$openblas
    .venv/bin/python -m pytest -q --numprocesses "${JOBS:-2}" --dist worksteal -p no:cacheprovider $FILES \
        > "$LOGS/$name.log" 2>&1 || status=1
    echo "$name: $(tail -1 "$LOGS/$name.log")"
done <<< "$SETTINGS"
exit $status
