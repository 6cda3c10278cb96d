#!/bin/bash
# Builds the sdist from the tree, the wheel from the sdist, and installs it where nothing of the
# tree is in reach; then the C++ library from the same sdist. Leaves both in build/package/.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
out=$PWD/build/package
rm -rf "$out" && mkdir -p "$out"

"$python" -m build --sdist --no-isolation --outdir "$out" . >"$out/sdist.log" 2>&1 \
    || { tail -n 40 "$out/sdist.log"; exit 1; }
sdist=$(echo "$out"/apscope-*.tar.gz)
contents=$(tar --list --file "$sdist" | sed 's:^[^/]*/::' | sort)
for needed in CMakeLists.txt LICENSE LICENSE-THIRD-PARTY.txt README.md pyproject.toml PKG-INFO \
    core/rounding.h bindings/apscope/py.typed; do
    grep --quiet --line-regexp --fixed-strings "$needed" <<<"$contents" \
        || { echo "$sdist lacks $needed"; exit 1; }
done
if grep --extended-regexp '^(notebooks|tests|docs|build|out|\.)|\.(so|ipynb|safetensors)$' <<<"$contents"; then
    echo "$sdist holds these, which no build needs"; exit 1
fi
size=$(stat --format %s "$sdist")
((size < 2000000)) || { echo "$sdist has $size bytes"; exit 1; }

# Next to the tree's own build, so that a compiler cache finds the objects.
tar --extract --file "$sdist" --directory "$out"
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$out" "$out"/apscope-*/

"$python" -m venv "$out/venv"
"$out/venv/bin/python" -m pip install --quiet "$out"/apscope-*.whl
oracle=()
if ls build/release/bindings/_oracle*.so &>/dev/null; then oracle=(--oracle); fi
cp .ci/check_installed.py "$out/venv"
(cd "$out/venv" && bin/python -I check_installed.py "${oracle[@]}")

# The C++ library alone, and a program that uses it: CMake finds no dependency that only the
# package, tests or some users need. In the folder where the wheel's build lies, for the compiler
# cache.
source=$(echo "$out"/apscope-*/)
without=("-DCMAKE_DISABLE_FIND_PACKAGE_"{Python,Python3,pybind11,xtensor,Boost,GTest}=ON)
configure() {
    cmake --no-warn-unused-cli --log-level=WARNING -G Ninja "${without[@]}" "$@" \
        >"$out/cpp.log" 2>&1 || { cat "$out/cpp.log"; exit 1; }
}
configure -S "$source" -B "$source/build/cpp" -DAPSCOPE_PYTHON=OFF
cmake --build "$source/build/cpp" --target apscope -- --quiet
cmake --install "$source/build/cpp" --prefix "$out/prefix" --component cpp >"$out/cpp.log"
configure -S "$source/bindings/cpp/examples" -B "$out/examples" -DCMAKE_PREFIX_PATH="$out/prefix"
cmake --build "$out/examples" --target round_array -- --quiet
"$out/examples/round_array" | diff - bindings/cpp/examples/round_array.txt
echo "$(basename "$sdist"): $(wc -l <<<"$contents") files, $((size / 1000)) kB; $(cd "$out" && du -h apscope-*.whl | tr '\t' ' ')"
