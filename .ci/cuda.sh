#!/bin/bash
# The CUDA library, its test and the module _cuda, compiled on any x86-64 or aarch64 Linux: with the
# machine's nvcc if there is one, otherwise with NVIDIA's compiler from PyPI, in its own folder.
# ARCHITECTURES: 90 by default. The build does not need a GPU. WITHOUT_COMPILER: the exit status if
# no compiler can be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! . .ci/nvcc.sh .venv/bin/python; then
    echo "No nvcc here, and PyPI's was not installed: the CUDA sources were not compiled."
    exit "${WITHOUT_COMPILER:-1}"
fi
nvcc --version | tail -2 | head -1
cmake --preset cuda --log-level=WARNING -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90}"
# ptxas says what every kernel that is compiled now needs.
cmake --build build/cuda --parallel "${JOBS:-$(nproc)}" -- --quiet >build/cuda/compiled.log 2>&1 || {
    grep -v 'ptxas info\|bytes stack frame' build/cuda/compiled.log
    exit 1
}
.venv/bin/python .ci/registers.py build/cuda/compiled.log
status=0
build/cuda/tests/cuda/cuda_test || status=$?
((status == 0 || status == 77))  # 77: no GPU here
# The compiled kernels, run on the host.
build/cuda/tests/cuda/interpreter/interpreted_cuda_test --small --quick --no-timings \
    >build/cuda/interpreted.log || {
    grep -v ' 0 mismatches' build/cuda/interpreted.log
    exit 1
}
echo "$(grep -c ' 0 mismatches' build/cuda/interpreted.log) proofs hold in the interpreter of PTX"
.venv/bin/python -m pytest -q tests/python/replay/test_interpreted_gpu.py
# The recorder of matrix units, which is run by hand.
nvcc -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90a,code=sm_90a \
    -c -o build/cuda/record_matrix_units.o tests/cuda/record_matrix_units.cu
# The module by itself: what it says without a GPU, and how it reads DLPack.
trap 'rm -f bindings/apscope/_cuda*.so' EXIT
cp build/cuda/bindings/_cuda*.so bindings/apscope/
.venv/bin/python -c 'import apscope._cuda'
.venv/bin/python -m pytest -q tests/python/replay/test_cuda.py tests/python/replay/test_dlpack.py
