#!/bin/sh
# Start a command of Rembrandt. Compiled code is copied to where it can be added to: the rest of the file system cannot be
# written.
set -eu
if ! cp -r /opt/rembrandt/kernels "$NUMBA_CACHE_DIR"; then
  echo "error: $NUMBA_CACHE_DIR cannot be written; start the container with --tmpfs /tmp" >&2
  exit 1
fi
exec rembrandt "$@"
