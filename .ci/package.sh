#!/bin/bash
# Builds the sdist from the tree, the wheel from the sdist, and installs it where nothing of the
# tree is in reach. Leaves both in build/package/.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
out=$PWD/build/package
rm -rf "$out" && mkdir -p "$out"

"$python" -m build --sdist --no-isolation --outdir "$out" . >"$out/sdist.log" 2>&1 || { tail -n 40 "$out/sdist.log"; exit 1; }
sdist=$(echo "$out"/apscope-*.tar.gz)
contents=$(tar --list --file "$sdist" | sed 's:^[^/]*/::' | sort)
for needed in CMakeLists.txt LICENSE LICENSE-THIRD-PARTY.txt README.md pyproject.toml PKG-INFO core/rounding.h bindings/apscope/py.typed; do
    grep --quiet --line-regexp --fixed-strings "$needed" <<<"$contents" || { echo "$sdist lacks $needed"; exit 1; }
done
if grep --extended-regexp '^(notebooks|tests|docs|build|out|\.)|\.(so|ipynb|safetensors)$' <<<"$contents"; then
    echo "$sdist holds these, which no build needs"; exit 1
fi
size=$(stat --format %s "$sdist")
((size < 1500000)) || { echo "$sdist has $size bytes"; exit 1; }

# Beside the tree's own build, so that a compiler cache knows the objects.
tar --extract --file "$sdist" --directory "$out"
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$out" "$out"/apscope-*/

"$python" -m venv "$out/venv"
"$out/venv/bin/python" -m pip install --quiet "$out"/apscope-*.whl
oracle=()
if ls build/release/bindings/_oracle*.so &>/dev/null; then oracle=(--oracle); fi
cp .ci/check_installed.py "$out/venv"
(cd "$out/venv" && bin/python -I check_installed.py "${oracle[@]}")
echo "$(basename "$sdist"): $(wc -l <<<"$contents") files, $((size / 1000)) kB; $(cd "$out" && du -h apscope-*.whl | tr '\t' ' ')"
