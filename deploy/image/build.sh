#!/bin/sh
# Installs this tree and all it runs with into an empty folder:
#
#     deploy/image/build.sh PREFIX
#
# Every download is held to a hash. Byte code is compiled here once, for a root that cannot be
# written to later. $PYTHON is the interpreter that will run it.
set -eu
prefix=$1
python=${PYTHON:-python3}
pip() { "$python" -m pip --disable-pip-version-check "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip install --quiet --require-hashes --target "$work/tools" --requirement requirements-build.txt
PYTHONPATH=$work/tools pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work" .

# Without --ignore-installed, what the interpreter has already would be missing in the folder.
pip install --quiet --no-compile --ignore-installed --prefix "$prefix" \
    --require-hashes --only-binary :all: --requirement requirements.txt
pip install --quiet --no-compile --ignore-installed --prefix "$prefix" \
    --no-deps --no-index "$work"/resettle-*.whl

# Held to the content of the sources rather than to their times, which a copy may change.
"$python" -m compileall -q --invalidation-mode unchecked-hash "$prefix"
