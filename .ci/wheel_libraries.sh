#!/bin/bash
# Installs, in the container that builds wheels, the libraries that a build needs: the headers are
# those of Debian 12, which the tests run with; RE2 is built from Debian's source, and so is MPFR,
# because it is too old there.
set -euo pipefail

# A snapshot of the archive, from which no file is removed. To use another archive:
# DEBIAN=http://deb.debian.org/debian.
debian=${DEBIAN:-https://snapshot.debian.org/archive/debian/20260115T000000Z}
prefix=${PREFIX:-/usr/local}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fetch() {  # SHA-256, path in the archive
    curl --fail --location --silent --show-error --retry 3 --output "${2##*/}" \
        "$debian/pool/main/$2"
    echo "$1  ${2##*/}" | sha256sum --check --quiet
}
headers() {  # SHA-256, path in the archive
    fetch "$@"
    ar p "${2##*/}" data.tar.xz | tar --extract --xz --directory "$scratch"
}

headers 8849269320a19da455160476b6feabbdc848d49f4fa80b017324603945039fe1 x/xtensor/libxtensor-dev_0.24.3-1_amd64.deb
headers a52e21846e50da3beba4b059fce4d99d8dea1971953a2a9d959f7658e27bf188 x/xtl/xtl-dev_0.7.2-2.1_all.deb
headers ec57940def6b6186c30be0e0ee81d1e58f86d11a54a145b28686a1e3e4aae801 n/nlohmann-json3/nlohmann-json3-dev_3.11.2-2_all.deb
headers ba14fe04d7f138f874bd3ab3a20c4fd1e9f654e271449b8f3e48d20f942dbb93 b/boost1.74/libboost1.74-dev_1.74.0+ds1-21_amd64.deb
mkdir -p "$prefix"/{include,share/cmake,xtensor/lib/cmake}
cp -r usr/include/{xtensor,xtl,nlohmann,boost} "$prefix/include"
cp -r usr/share/cmake/{xtl,nlohmann_json} "$prefix/share/cmake"
cp -r usr/lib/*/cmake/xtensor "$prefix/xtensor/lib/cmake"  # four folders up is its prefix

fetch 3bc61251da3b0b97be40a8a127818c517c62516e4eda11fc901d29496663df54 r/re2/re2_20220601+dfsg.orig.tar.xz
mkdir re2
tar --extract --xz --file re2_20220601+dfsg.orig.tar.xz --directory re2 --strip-components 1
make --silent --directory re2 --jobs "$(nproc)" \
    CXXFLAGS="-O3 -DNDEBUG -pthread -std=c++11" prefix="$prefix" shared-install

if command -v dnf >/dev/null; then dnf install -y --quiet gmp-devel; fi
fetch 06a378df13501248c1b2db5aa977a2c8126ae849a9d9b7be2546fb4a9c26d993 m/mpfr4/mpfr4_4.2.0.orig.tar.xz
tar --extract --xz --file mpfr4_4.2.0.orig.tar.xz
cd mpfr-*
./configure --quiet --prefix="$prefix" --enable-thread-safe --disable-static
make --silent --jobs "$(nproc)"
make --silent install
