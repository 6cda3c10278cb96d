#!/bin/bash
# Builds the sdist from the tree, the wheel and the C++ library from the sdist, and tries both where
# nothing of the tree is in reach. Leaves them in build/package/. QUICK=1: both are built from the
# tree, whose objects are there, as continuous integration does: the sdist has all sources.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
out=$PWD/build/package
rm -rf "$out" && mkdir -p "$out"

"$python" -m build --sdist --no-isolation --outdir "$out" . >"$out/sdist.log" 2>&1 \
    || { tail -n 40 "$out/sdist.log"; exit 1; }
sdist=$(echo "$out"/apscope-*.tar.gz)
contents=$(tar --list --file "$sdist" | sed 's:^[^/]*/::' | sort)
missing=$(comm -23 <(
    printf '%s\n' LICENSE LICENSE-THIRD-PARTY.txt README.md pyproject.toml PKG-INFO \
        $(git ls-files core emulation analysis bindings CMakeLists.txt fetch.cmake) | sort -u) <(sort -u <<<"$contents"))
[[ -z $missing ]] || { echo "$sdist lacks" $missing; exit 1; }
if grep --extended-regexp '^(notebooks|tests|docs|build|out|\.)|\.(so|ipynb|safetensors)$' <<<"$contents"; then
    echo "$sdist holds these, which no build needs"; exit 1
fi
size=$(stat --format %s "$sdist")
((size < 2000000)) || { echo "$sdist has $size bytes"; exit 1; }

tar --extract --file "$sdist" --directory "$out"
source=$(echo "$out"/apscope-*/)
built=$source
[[ ! ${QUICK:-} ]] || built=$PWD
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$out" "$built"

"$python" -m venv "$out/venv"
"$out/venv/bin/python" -m pip install --quiet "$out"/apscope-*.whl
oracle=()
if ls build/release/bindings/_oracle*.so &>/dev/null; then oracle=(--oracle); fi
cp .ci/check_installed.py "$out/venv"
(cd "$out/venv" && bin/python -I check_installed.py "${oracle[@]}")

# The C++ library, which needs no dependency that only the package, tests or some users need: CMake
# must find its way without them. Its objects are mostly those of the wheel. Then a program that
# uses it.
without=("-DCMAKE_DISABLE_FIND_PACKAGE_"{Python,Python3,pybind11,xtensor,Boost,GTest}=ON)
configure() {
    cmake --no-warn-unused-cli --log-level=WARNING -G Ninja "${without[@]}" "$@" \
        >"$out/cpp.log" 2>&1 || { cat "$out/cpp.log"; exit 1; }
}
configure -S "$source" -B "$source/build/cpp" -DAPSCOPE_PYTHON=OFF
cmake --build "$built/build/release" --target apscope -- --quiet
cmake --install "$built/build/release" --prefix "$out/prefix" --component cpp >"$out/cpp.log"
configure -S "$source/bindings/cpp/examples" -B "$out/examples" -DCMAKE_PREFIX_PATH="$out/prefix"
cmake --build "$out/examples" --target round_array -- --quiet
"$out/examples/round_array" | diff - bindings/cpp/examples/round_array.txt
echo "$(basename "$sdist"): $(wc -l <<<"$contents") files, $((size / 1000)) kB; $(cd "$out" && du -h apscope-*.whl | tr '\t' ' ')"
