#!/bin/sh
# Train `default` and `gircse` on a machine with one GPU and without network, to which folders can be copied:
#
#   recipes/on_gpu.sh pack OUT --data DATA --kinds KINDS   at home: what is needed, in parts to be carried one by one
#   recipes/on_gpu.sh unpack FOLDER              there, for each part or several: put them together
#   recipes/on_gpu.sh check                      there: what is missing
#   recipes/on_gpu.sh train default --minutes 9  there, again until it says that it is done; then gircse
#   recipes/on_gpu.sh score                      there
#   recipes/on_gpu.sh collect OUT                there: adapters and scores, to be carried home
#
# Everything is kept in build/on_gpu, or in ON_GPU_WORK. PYTHON names the interpreter.
set -eu
home=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    [ -x "$home/.venv/bin/python" ] && PYTHON="$home/.venv/bin/python"
fi
export PYTHONPATH="$home${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
exec "$PYTHON" "$home/recipes/on_gpu.py" "$@"
