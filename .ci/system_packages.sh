#!/bin/bash
# Installs, with apt, the Debian packages that the build needs and this machine lacks, and those
# given as arguments: commands whose packages have the same name, and other packages. Does nothing
# if all are installed.
set -euo pipefail

python=${PYTHON:-python3}
missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
need_python() { "$python" -c "$1" 2>/dev/null || missing+=("$2"); }
need_package() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]] || missing+=("$1")
}

need_command g++ g++
need_command cmake cmake
need_command ninja ninja-build
for wanted in "$@"; do
    command -v "$wanted" >/dev/null || need_package "$wanted"
done
need_python 'import ensurepip, venv' python3-venv
need_python 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' python3-dev
if command -v dpkg-query >/dev/null; then
    # Runs the report in its tests, which are skipped without it, so it is optional.
    ((EUID != 0)) || need_command chromium chromium
    for package in libmpfr-dev libboost-dev libre2-dev libxtensor-dev nlohmann-json3-dev libgtest-dev; do
        need_package "$package"
    done
else
    echo "This is not a Debian system: install MPFR, Boost, RE2, xtensor, nlohmann-json and" \
        "GoogleTest with their headers; Google Benchmark is optional." >&2
fi
((${#missing[@]})) || exit 0

command="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "apscope needs ${missing[*]} (Debian's names), but this machine has no apt-get." >&2
    exit 1
fi
as_root=()
if ((EUID != 0)); then
    if ! { command -v sudo && sudo -n true; } &>/dev/null; then
        echo "apscope needs Debian packages that are not installed, and only root can install them:" \
            "run 'apt-get update && $command' as root, then try again." >&2
        exit 1
    fi
    as_root=(sudo -n)
fi
echo "Installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $command -qq >/dev/null
