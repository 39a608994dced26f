#!/bin/sh
# The whole job: whatever this script does. It starts in this directory, in the image of the job.
# Keep what should outlive the job below $TUNEPLANE_OUT_DIR; after a restart, $TUNEPLANE_RESUME_FROM names the newest checkpoint.
set -eu
exec python3 train.py
