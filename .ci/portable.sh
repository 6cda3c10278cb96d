#!/bin/bash
# Builds the program of tests/portable with g++, Clang, Clang with libc++, g++ for aarch64 and zig
# for WebAssembly, and runs every build; all must print the same. Builds whose tools this machine
# lacks are skipped with a message. Arguments: names of builds (clang libc++ aarch64 wasm32);
# default: all.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD folder=$PWD/build/portable
wanted=("$@")
((${#wanted[@]})) || wanted=(clang libc++ aarch64 wasm32)
asked() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

packages=()
if asked clang || asked libc++; then packages+=(clang-16); fi
if asked libc++; then packages+=(libc++-16-dev libc++abi-16-dev); fi
if asked aarch64; then packages+=(g++-aarch64-linux-gnu qemu-user); fi
.ci/system_packages.sh "${packages[@]}" \
    || echo "Builds whose packages (of ${packages[*]}) are missing are skipped."
mkdir -p "$folder"

# Debian's sources of RE2, with the tables that it makes from Unicode's files, for libraries and
# processors other than the system's.
re2_source() {
    local source=$folder/re2-source apt=$folder/apt
    [[ ! -e $source/complete ]] || return 0
    rm -rf "$source" "$apt"
    mkdir -p "$source" "$apt/parts" "$apt/lists/partial"
    printf 'deb-src http://deb.debian.org/debian %s main\n' \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" >"$apt/parts/sources.list"
    local own=(-qq -o Dir::Etc::SourceList="$apt/parts/sources.list"
        -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt/lists"
        -o APT::Sandbox::User=root)
    (cd "$apt" && apt-get "${own[@]}" update && apt-get "${own[@]}" source --download-only re2 \
        && apt-get -qq -o APT::Sandbox::User=root download unicode-data)
    tar --extract --strip-components=1 --directory "$source" --file "$apt"/re2_*.orig.tar.*
    dpkg-deb --extract "$apt"/unicode-data_*.deb "$apt/unicode"
    (
        cd "$source/re2"
        sed -i "s|^_UNICODE_DIR = .*|_UNICODE_DIR = '$apt/unicode/usr/share/unicode'|" unicode.py
        perl make_perl_groups.pl >perl_groups.cc
        python3 make_unicode_groups.py >unicode_groups.cc
        python3 make_unicode_casefold.py >unicode_casefold.cc
    )
    touch "$source/complete"
}

# All builds but the system's own need RE2, and nlohmann-json's headers without the system's other
# headers.
libraries() {  # build, CMake's arguments
    re2_source
    mkdir -p "$folder/headers/include" "$folder/headers/share/cmake"
    cp -r /usr/include/nlohmann "$folder/headers/include/"
    cp -r /usr/share/cmake/nlohmann_json "$folder/headers/share/cmake/"
    [[ ! -d $folder/re2-$1/lib/cmake ]] || return 0
    cmake -G Ninja -S "$folder/re2-source" -B "$folder/re2-build-$1" --log-level=ERROR \
        -DCMAKE_BUILD_TYPE=Release -DRE2_BUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX="$folder/re2-$1" "${@:2}" >/dev/null
    cmake --build "$folder/re2-build-$1" --parallel "${JOBS:-$(nproc)}" -- --quiet
    cmake --install "$folder/re2-build-$1" >/dev/null
}

build() {  # build, CMake's arguments
    local name=$1 start=$SECONDS
    cmake -G Ninja -B "build/$name" -DCMAKE_BUILD_TYPE=Release -DAPSCOPE_PORTABLE=ON \
        -DAPSCOPE_PYTHON=OFF -DAPSCOPE_ORACLE=OFF -DAPSCOPE_WERROR=ON \
        -DBUILD_SHARED_LIBS=OFF -DCMAKE_PREFIX_PATH="$folder/headers;$folder/re2-$name" \
        --log-level=ERROR "${@:2}" >/dev/null
    cmake --build "build/$name" --parallel "${JOBS:-$(nproc)}" --target apscope_columns -- --quiet
    echo "Built build/$name in $((SECONDS - start)) s"
}

has() {  # build, its tools
    local tool
    asked "$1" || return 1
    for tool in "${@:2}"; do
        command -v "$tool" >/dev/null || { echo "Skipped: $1, because $tool is missing"; return 1; }
    done
}

cmake --preset release --log-level=ERROR >/dev/null
cmake --build build/release --parallel "${JOBS:-$(nproc)}" --target apscope_columns -- --quiet
if has clang clang++-16; then
    cmake --preset clang --log-level=ERROR >/dev/null
    cmake --build build/clang --parallel "${JOBS:-$(nproc)}" --target apscope_columns -- --quiet
fi
if has libc++ clang++-16 apt-get; then
    with=(-DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_CXX_FLAGS=-stdlib=libc++)
    libraries libc++ "${with[@]}"
    build libc++ "${with[@]}"
fi
if has aarch64 aarch64-linux-gnu-g++ qemu-aarch64 apt-get; then
    libraries aarch64 --toolchain "$root/tests/portable/aarch64.cmake"
    build aarch64 --toolchain "$root/tests/portable/aarch64.cmake"
fi
# zig and wasmtime, from PyPI, in a folder of their own.
if has wasm32 apt-get; then
    if [[ ! -e $folder/python/complete ]]; then
        echo "Installing zig and wasmtime from PyPI into build/portable/python"
        rm -rf "$folder/python"
        .venv/bin/python -m pip install --quiet --no-deps --target "$folder/python" \
            'ziglang==0.17.*' 'wasmtime==50.*'
        mkdir -p "$folder/zig"
        for tool in c++ ar ranlib; do
            printf '#!/bin/bash\nexec %q %s "$@"\n' "$folder/python/ziglang/zig" "$tool" \
                >"$folder/zig/$tool"
            chmod +x "$folder/zig/$tool"
        done
        touch "$folder/python/complete"
    fi
    libraries wasm32 --toolchain "$root/tests/portable/wasm32.cmake"
    build wasm32 --toolchain "$root/tests/portable/wasm32.cmake"
fi
.venv/bin/python -m tests.portable
