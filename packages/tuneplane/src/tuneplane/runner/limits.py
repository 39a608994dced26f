"""Every bound of the runner in one place. Bytes and seconds."""

from __future__ import annotations

# Spool on disk. Logs may fill it up to the reserve, which is kept for metrics, samples and events.
SPOOL_BYTES = 512 * 1024 * 1024
SPOOL_RESERVE = 0.125
SEGMENT_BYTES = 4 * 1024 * 1024
ENV_SPOOL_BYTES = "TUNEPLANE_SPOOL_MAX_BYTES"  # for executors with small disks
SYNC_SECONDS = 1.0

# Output that was read and is not on disk yet; beyond it, output is counted and dropped rather than left in the pipe.
QUEUE_BYTES = 4 * 1024 * 1024
BURST_SECONDS = 0.2  # how long a burst may wait for the disk
READ_BYTES = 64 * 1024
PIPE_BYTES = 1024 * 1024
TICK_SECONDS = 0.5
COALESCE_SECONDS = 0.25
SMALL_READ_BYTES = 16 * 1024
SMALL_READ_SECONDS = 0.02  # a trainer that prints line by line is read fifty times a second, not once a line
LOG_TAIL_BYTES = 256 * 1024  # of which the stacks of eight ranks may be most
LOG_TAIL_CHARS = 16_000

# Shipping
BATCH_RAW_BYTES = 1024 * 1024
CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
ANSWER_BYTES = 1024 * 1024
BACKOFF_FIRST = 0.5
BACKOFF_MOST = 30.0
RETRY_AFTER_MOST = 300.0

# Package
PACKAGE_FILES = 200_000
PACKAGE_BYTES = 8 * 1024 * 1024 * 1024

# After the trainer
LINGER_SECONDS = 1.0  # for output still in flight (`tee`) before what it left behind is told to end
LEFT_BEHIND_SECONDS = 5.0  # then until it is killed
SETTLE_SECONDS = 15.0
INDEX_SECONDS = 10.0
HASH_SECONDS = 2.0

# Out dir
INDEX_FILES = 100_000
WATCH_SECONDS = 5.0
STABLE_SECONDS = 5.0
OUTSIDE_SECONDS = 30.0
OUTSIDE_ENTRIES = 5_000
CHECKPOINTS = 1_000

# Secrets: shorter values are left in, and named; shorter encoded parts stand in too much that is no secret.
SECRET_LEAST = 6
ENCODED_LEAST = 8

# Reports
REPORT_READ_BYTES = 4 * 1024 * 1024
REPORT_LINE_BYTES = 8 * 1024 * 1024
SOURCE_SECONDS = 0.1  # at a time; then the output has its turn

# Logs of frameworks that are read where they grow
TAIL_READ_BYTES = 1024 * 1024  # also the longest line
TFRECORD_BYTES = 1024 * 1024
CONSOLE_LINE_BYTES = 64 * 1024
TAIL_LOOK_SECONDS = 2.0  # between two looks for new event files
TAIL_FILES = 200  # each stays open
TAIL_ENTRIES = 20_000
TAIL_DEPTH = 8
TIME_MOST = 1e11  # Unix seconds; what is later is no time
