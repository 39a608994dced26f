"""Names that every room spells the same way. Standard library only, CPython 3.9 to 3.14."""

from __future__ import annotations

PROJECT_API_VERSION = "tuneplane/project/v1"
JOB_API_VERSION = "tuneplane/v1"
JOB_KIND = "TrainingJob"
RECIPE_API_VERSION = "tuneplane/recipe/v1"
LOCK_API_VERSION = "tuneplane/recipe-lock/v1"
LEGACY_LOCK_PREFIX = "forge/recipe-lock/"
CAPSULE_API_VERSION = "tuneplane/capsule/v1"
OUTCOME_API_VERSION = "tuneplane/outcome/v1"
ARTIFACTS_API_VERSION = "tuneplane/artifacts/v1"

LAB_MARKER = "tuneplane.yaml"
EXPERIMENTS_DIR = "experiments"
CONFIG_FILE = "config.yaml"
LOCK_FILE = "recipe.lock.json"

CAPSULE_FILE = "capsule.json"
BOOTSTRAP_FILE = "bootstrap.sh"
RUNNER_FILE = "runner.pex"
OUTCOME_FILE = "outcome.json"
ARTIFACTS_FILE = "artifacts.json"

# Exit code of the runner itself when it could not start the trainer (distinct from trainers' own codes:
# sysexits EX_CONFIG; 126/127 stay "not executable"/"not found" as shells use them).
RUNNER_EXIT_PLATFORM = 78

PHASES = ("queued", "starting", "running", "finishing", "succeeded", "failed", "cancelled", "lost")
TERMINAL_PHASES = ("succeeded", "failed", "cancelled", "lost")

# Ingest streams. Each (attempt, rank, stream) counts its own seq from 1, without gaps.
STREAM_LOG = "log"
STREAM_METRIC = "metric"
STREAM_SAMPLE = "sample"
STREAM_EVENT = "event"
STREAMS = (STREAM_LOG, STREAM_METRIC, STREAM_SAMPLE, STREAM_EVENT)

# Upper limits of the wire (bytes, records); the server refuses more with 413, the client never sends more.
MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_RECORDS = 5000
MAX_LOG_CHUNK_BYTES = 64 * 1024
MAX_SAMPLE_BYTES = 256 * 1024
MAX_METRIC_NAME = 200
# Ranks from here on belong to senders that are no process of the job, each with a token of its own.
OUTSIDE_RANK = 1_000_000
MAX_METRIC_NAMES = 5000

# Environment of a job (docs/reference/environment). User env can never replace one of these.
ENV_RUN_ID = "TUNEPLANE_RUN_ID"
ENV_ATTEMPT = "TUNEPLANE_ATTEMPT"
ENV_OUT_DIR = "TUNEPLANE_OUT_DIR"
ENV_WORK_DIR = "TUNEPLANE_WORK_DIR"
ENV_EXP_DIR = "TUNEPLANE_EXP_DIR"
ENV_STORAGE_ROOT = "TUNEPLANE_STORAGE_ROOT"
ENV_DATA_CACHE = "TUNEPLANE_DATA_CACHE"
ENV_HUB_CACHE = "TUNEPLANE_HUB_CACHE"
ENV_VOLUMES_DIR = "VOLUMES_DIR"
ENV_RECIPE = "TUNEPLANE_RECIPE"
ENV_RECIPE_VERSION = "TUNEPLANE_RECIPE_VERSION"
ENV_RECIPE_DIGEST = "TUNEPLANE_RECIPE_DIGEST"
ENV_FRAMEWORK = "TUNEPLANE_FRAMEWORK"
ENV_FRAMEWORK_VERSION = "TUNEPLANE_FRAMEWORK_VERSION"
ENV_RUNTIME_ID = "TUNEPLANE_RUNTIME_ID"
ENV_NUM_NODES = "TUNEPLANE_CLUSTER_NUM_NODES"
ENV_GPUS_PER_NODE = "TUNEPLANE_CLUSTER_GPUS_PER_NODE"
ENV_POOL_TOPOLOGY = "TUNEPLANE_POOL_TOPOLOGY"
ENV_MACHINE_RANK = "TUNEPLANE_MACHINE_RANK"
ENV_MACHINE_COUNT = "TUNEPLANE_MACHINE_COUNT"
ENV_MAIN_IP = "TUNEPLANE_MAIN_PROCESS_IP"
ENV_MAIN_PORT = "TUNEPLANE_MAIN_PROCESS_PORT"
ENV_RESUME_FROM = "TUNEPLANE_RESUME_FROM"
ENV_INGEST_URL = "TUNEPLANE_INGEST_URL"
ENV_INGEST_TOKEN = "TUNEPLANE_INGEST_TOKEN"  # noqa: S105 - a name, not a value
# A judge model for rewards and evaluations, where the console names one: an OpenAI-compatible base URL, and its token.
ENV_JUDGE_ENDPOINT = "TUNEPLANE_JOB_JUDGE_ENDPOINT"
ENV_JUDGE_TOKEN = "TUNEPLANE_JOB_JUDGE_TOKEN"  # noqa: S105 - a name, not a value
# Where the reporter inside the trainer writes and the runner reads; set by the runner.
ENV_REPORT_DIR = "TUNEPLANE_REPORT_DIR"
# Directory holding capsule.json, bootstrap.sh and runner.pex; set by the executor.
ENV_CAPSULE_DIR = "TUNEPLANE_CAPSULE_DIR"
# The executor passes `NAME` of the experiment's env as `TUNEPLANE_ENV_NAME`; the runner gives it to the trainer as `NAME`. So the
# values lie on no disk, no shell on the way changes them (dash stops at an OPTIND, bash replaces UID), and none reaches
# what starts the trainer (PATH of the bootstrap, NVIDIA_VISIBLE_DEVICES of the container engine).
ENV_USER_PREFIX = "TUNEPLANE_ENV_"

IDENTITY_ENV_PREFIX = "TUNEPLANE_"
IDENTITY_ENV = (
    ENV_VOLUMES_DIR,
    "HF_HOME",
    "MODELSCOPE_CACHE",
    "TRAIN_DATA_DIR",
    "VALIDATION_DATA_DIR",
    "BASE_MODEL_DIR",
    "INIT_MODEL_DIR",
)


def is_identity_env(name: str) -> bool:
    """Whether a user-given environment variable name is reserved for the platform."""
    return name.startswith(IDENTITY_ENV_PREFIX) or name in IDENTITY_ENV
