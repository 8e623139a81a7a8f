#!/usr/bin/env bash
# `make lock`: writes the lock files, each with the hash of every file that pip may install, good for all Pythons and systems.
# usage: requirements/lock.sh UV
#
# torch is not in them, nor what only its GPU build needs: its CPU and its GPU build are one version with different files, and which
# of them pip finds is a matter of where it looks. Its version is fixed in pyproject.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$1

lock() {  # lock FILE EXTRA...
  local file=requirements/$1 extras=()
  shift
  for extra in "$@"; do extras+=(--extra "$extra"); done
  local compile=("$uv" pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate "${extras[@]}" pyproject.toml)
  local without=()
  for name in $("${compile[@]}" | grep -oE '^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z-]+)' | sort -u); do
    without+=(--no-emit-package "$name")
  done
  {
    echo "# Written by make lock."
    "${compile[@]}" --generate-hashes "${without[@]}"
  } >"$file.new"
  mv "$file.new" "$file"
}

lock demo.txt
lock test.txt learn ray web dev
lock docs.txt docs
