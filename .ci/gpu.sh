#!/bin/bash
# What only a GPU can show, in one command and 7 minutes on 16 processors, without network and
# without Debian's packages: builds the kernels and the modules; proves every kernel and every step
# equal to the host, and the package on torch tensors; trains there and here; runs compute-sanitizer
# on small inputs; times every kernel beside a device copy, a replay of ResNet-18's size beside the
# CPU, and a step of training beside one without quantization. Every part has a time limit and runs
# whatever became of the others. Writes FOLDER/gpu.json and prints the table of docs/performance.md.
#
#   .ci/gpu.sh [--dry-run] [--out FOLDER] [--seconds N]     FOLDER: build/gpu, N: 420
#   .ci/gpu.sh --sources    where there is a network: puts the sources of nlohmann-json and RE2 into
#                           build/gpu-sources, which a machine without these libraries needs
#
# Needs nvcc 13, a C++20 compiler, CMake, ninja, compute-sanitizer, and PYTHON (python3) with its
# headers, pybind11, NumPy and torch. --dry-run builds everything and runs what needs no GPU, on the
# CPU, with limits 20 times as long. Exit status: 0; 1 if a part failed; 2 for a wrong argument; 77
# without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."

refuse() { echo ".ci/gpu.sh: $1" >&2; exit 2; }

dry= out=build/gpu seconds=420 fetch=
while (($#)); do
    case $1 in
        --dry-run) dry=1 ;;
        --sources) fetch=1 ;;
        --out) out=${2:-} && shift; [[ $out ]] || refuse "--out needs a folder" ;;
        --seconds)
            seconds=${2:-} && shift
            [[ $seconds =~ ^[1-9][0-9]{0,4}$ ]] \
                || refuse "--seconds '$seconds' is not a number from 1 to 99999" ;;
        *)
            refuse "there is no argument '$1'; there are --dry-run, --out FOLDER, --seconds N and \
--sources" ;;
    esac
    shift
done
export PYTHON=${PYTHON:-python3} JOBS=${JOBS:-$(nproc)} sources=$PWD/build/gpu-sources dry

options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DAPSCOPE_ORACLE=OFF -DAPSCOPE_CPP=OFF)

if [[ $fetch ]]; then
    set -e
    # A configuration that finds neither library fetches both (fetch.cmake).
    cmake -S . -B build/gpu-fetch "${options[@]}" --log-level=WARNING -DAPSCOPE_PYTHON=OFF \
        -DAPSCOPE_FETCH=ON -DRE2_LIBRARY= -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON \
        -DCMAKE_DISABLE_FIND_PACKAGE_re2=ON
    rm -rf "$sources"
    mkdir -p "$sources/json/nlohmann_json" "$sources/grpc/third_party"
    cp -r build/gpu-fetch/_deps/json-src/nlohmann_json/include "$sources/json/nlohmann_json/"
    cp -r build/gpu-fetch/_deps/grpc-src/third_party/re2 "$sources/grpc/third_party/"
    rm -rf build/gpu-fetch
    echo "The sources of nlohmann-json and RE2 are in build/gpu-sources."
    exit 0
fi

if [[ $dry ]]; then
    export CUDA_VISIBLE_DEVICES=
    gpu="dry run, no GPU" capability=9.0 driver=
elif ! gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null) || [[ ! $gpu ]]; then
    echo "This machine has no GPU that nvidia-smi lists; .ci/gpu.sh --dry-run does what needs none."
    exit 77
else
    gpu=${gpu%%$'\n'*}
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1)
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
fi
. .ci/nvcc.sh "$PYTHON" || exit 1

mkdir -p "$out" && out=$(realpath "$out") || exit 1
rm -rf "$out"/*.log "$out"/*.json "$out"/{parts,times,site}
export out architecture=${capability/./} build=$out/build cuda_test=$out/build/tests/cuda/cuda_test
device=$([[ $dry ]] && echo cpu || echo cuda)
export device

# ---- The parts --------------------------------------------------------------------------------

configure() {
    local with=() own=(-DAPSCOPE_FETCH=ON -DRE2_LIBRARY=
        -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON -DCMAKE_DISABLE_FIND_PACKAGE_re2=ON)
    [[ ! -d $sources ]] || with=("${own[@]}" -DFETCHCONTENT_FULLY_DISCONNECTED=ON
        -DFETCHCONTENT_SOURCE_DIR_JSON="$sources/json"
        -DFETCHCONTENT_SOURCE_DIR_GRPC="$sources/grpc")
    local all=(-S . -B "$build" "$@" --log-level=WARNING -DAPSCOPE_CUDA=ON
        -DCMAKE_CUDA_ARCHITECTURES="$architecture" -DPython_EXECUTABLE="$(command -v "$PYTHON")")
    cmake "${all[@]}" "${with[@]}" && return
    echo "The Python modules are left out: build/gpu-sources (.ci/gpu.sh --sources makes it where" \
        "there is a network), pybind11 or Python's headers are missing, see above."
    rm -rf "$build"
    cmake "${all[@]}" -DAPSCOPE_ANALYSIS=OFF -DAPSCOPE_PYTHON=OFF
}
build_kernels() {
    configure "$@" && cmake --build "$build" --parallel "$JOBS" --target cuda_test
}
build_modules() {
    cmake --build "$build" --parallel "$JOBS" --target _core _cuda || return
    mkdir -p "$out/site"
    cp -r bindings/apscope "$out/site/" && cp "$build"/bindings/_c*.so "$out/site/apscope/"
}
proofs() { "$cuda_test" --quick --no-timings --json "$out/proofs.json"; }
kernel_times() { "$cuda_test" --no-proofs --json "$out/kernel_times.json"; }
replay() {
    PYTHONPATH=$out/site "$PYTHON" tests/cuda/replay.py --device "$device" --json "$out/replay.json"
}
arrays() {
    PYTHONPATH=$out/site "$PYTHON" tests/cuda/arrays.py --device "$device" --json "$out/arrays.json"
}
training() {
    PYTHONPATH=$out/site "$PYTHON" tests/cuda/training.py --device "$device" \
        --json "$out/training.json"
}
sanitize() {
    if ! command -v compute-sanitizer >/dev/null; then
        echo "compute-sanitizer is not on the PATH"
        return $([[ $dry ]] && echo 77 || echo 1)
    fi
    compute-sanitizer --error-exitcode 1 --tool "$1" "$cuda_test" --small --quick --no-timings
}
memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }
# As many rounding modes as begin in this time, about 8 s each.
all_inputs() {
    "$cuda_test" --only-quantize --no-timings --seconds "$1" --json "$out/all_inputs.json" e4m3fn
}
export -f configure build_kernels build_modules proofs kernel_times replay arrays training \
    sanitize memcheck racecheck all_inputs

status=0 start=$EPOCHREALTIME
left() { echo $((seconds - ${EPOCHREALTIME%.*} + ${start%.*})); }
# Into the variable `processor`: the processor seconds of the parts until now.
count_processor() {
    times >"$out/times"
    processor=$(awk 'NR == 2 { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$out/times")
}
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
# part NAME LIMIT ARGUMENTS...: runs the function NAME; notes its time and how it ended.
part() {
    local name=$1 limit=$2 begin=$EPOCHREALTIME rc=0 how wall used before
    count_processor && before=$processor
    shift 2
    [[ $dry ]] || ((limit < $(left))) || limit=$(left)
    [[ ! $dry ]] || limit=$((limit * 20))
    if ((limit < 5)); then
        how="not started" limit=0
        echo "No time was left of $seconds s." >"$out/$name.log"
    else
        timeout --kill-after=5 "$limit" bash -c 'set -uo pipefail; "$@"' "$name" "$name" "$@" \
            >"$out/$name.log" 2>&1 || rc=$?
        case $rc in
            0) how=passed ;;
            77) how=skipped ;;
            124 | 137) how="out of time" ;;
            *) how=failed ;;
        esac
    fi
    [[ $how == passed || ($how == skipped && $dry) ]] || status=1
    wall=$(since "$begin")
    count_processor
    used=$(awk -v a="$before" -v b="$processor" 'BEGIN { printf "%.1f", b - a }')
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$how" "$wall" "$used" "$limit" >>"$out/parts"
    printf '%-14s %-12s %7.1f s of %d, %7.1f processor seconds\n' \
        "$name" "$how" "$wall" "$limit" "$used"
    [[ $how == passed ]] || tail -3 "$out/$name.log" | sed 's/^/    /'
}

echo "$gpu; logs in $out"
part build_kernels 150 "${options[@]}"
part proofs 60
part kernel_times 45
part build_modules 120
part replay 60
part arrays 40
part training 60
part memcheck 45
part racecheck 45
part all_inputs 90 $(($(left) > 75 ? 60 : $(left) - 15))

"$PYTHON" -m docs.tools.gpu --collect "$out" --gpu "$gpu" --driver "$driver" || status=1
echo "$(since "$start") s in all; $out/gpu.json"
exit "$status"
