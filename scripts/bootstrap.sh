#!/usr/bin/env bash
# Installs what the repository needs, into the repository only. Says everything that is missing on the machine at once.
# usage: scripts/bootstrap.sh python|node
set -euo pipefail
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9
NODE_NEEDED="20.19 or newer, of the line 22 at least 22.12"
missing=()

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        [ -n "$candidate" ] || continue
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

# What the build of the page asks for: ^20.19 || >=22.12.
is_node_new_enough() {
    local major minor
    IFS=. read -r major minor _ <<<"${1#v}"
    case "$major" in
        20) [ "$minor" -ge 19 ] ;;
        22) [ "$minor" -ge 12 ] ;;
        *) [ "$major" -gt 22 ] ;;
    esac
}

python=$(find_python)
[ -n "$python" ] || missing+=("Python 3.11 or newer (found: $(python3 --version 2>/dev/null || echo none)); set PYTHON=... to name one")
command -v git >/dev/null 2>&1 || missing+=("git")
if command -v node >/dev/null 2>&1; then
    is_node_new_enough "$(node --version)" || missing+=("Node $NODE_NEEDED (found: $(node --version))")
else
    missing+=("Node $NODE_NEEDED")
fi
command -v npm >/dev/null 2>&1 || missing+=("npm")

if [ ${#missing[@]} -gt 0 ]; then
    echo "This machine lacks:" >&2
    printf '  - %s\n' "${missing[@]}" >&2
    echo "Install that and run make again. Node and npm: https://nodejs.org/en/download" >&2
    exit 1
fi

install_python() {
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "Creating .venv with $($python --version) ..."
        rm -rf .venv
        if ! "$python" -m venv .venv; then
            rm -rf .venv
            echo "The Python module venv is missing; on Debian and Ubuntu: apt-get install python3-venv" >&2
            exit 1
        fi
    fi
    if [ "$(.venv/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" != "$UV_VERSION" ]; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
    fi
    echo "Installing the Python packages (the first time about 400 MB with the bundled models) ..."
    # --inexact: uv itself lives in the environment and is not in the lock.
    .venv/bin/uv sync --frozen --all-extras --inexact --quiet
}

install_node() {
    echo "Installing the packages of the web page ..."
    (cd web && npm ci --no-audit --no-fund --loglevel=error)
}

case "${1:-}" in
    python) install_python ;;
    node) install_node ;;
    *)
        echo "usage: $0 python|node" >&2
        exit 2
        ;;
esac
