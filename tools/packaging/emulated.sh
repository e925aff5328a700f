#!/usr/bin/env bash
# Runs the wheel for aarch64 on this machine: Debian's Python for arm64 under qemu, to a first result.
# Needs Debian, qemu-user-static, and python3 with pip. Usage: tools/packaging/emulated.sh [WHEEL]
set -euo pipefail
cd "$(dirname "$0")/../.."
wheel=${1:-$(ls dist/lightloom-*-manylinux*_aarch64.whl)}
place=${EMULATED:-$(mktemp -d)} # kept if it is named
system=$place/system site=$place/site
mkdir -p "$place"/apt/state/lists/partial "$place"/apt/cache/archives/partial "$system"
if [ ! -x "$system/usr/bin/python3.11" ]; then
  touch "$place/apt/status"
  apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$place/apt/state"
    -o Dir::State::status="$place/apt/status" -o Dir::Cache="$place/apt/cache" -o Debug::NoLocking=1)
  "${apt[@]}" update >/dev/null
  "${apt[@]}" install -y --no-install-recommends --download-only python3.11 libstdc++6 >/dev/null
  for package in "$place"/apt/cache/archives/*_arm64.deb; do dpkg-deb -x "$package" "$system"; done
fi
platforms=()
for glibc in 17 24 26 27 28; do platforms+=(--platform "manylinux_2_${glibc}_aarch64"); done
rm -rf "$site"
python3 -m pip install -q --no-compile --target "$site" --only-binary=:all: --python-version 3.11 \
  --platform manylinux2014_aarch64 "${platforms[@]}" "$wheel" 2>"$place/pip.log" || { cat "$place/pip.log"; exit 1; }
emulated=(qemu-aarch64-static -L "$system")
python() { PYTHONPATH=$site HOME=$place "${emulated[@]}" "$system/usr/bin/python3.11" "$@"; }
python -c 'import platform; print("machine:", platform.machine())'
"${emulated[@]}" "$site/bin/lightloomd" --version
python -m lightloom --version
cd "$place"
python -m lightloom compare mixtral-8x7b --gpus 128 --bandwidth 400 --force --out first
