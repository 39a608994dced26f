"""Names and limits of sweeps that both sides share."""

from __future__ import annotations

METHODS = ("grid", "random", "bayes", "asha")
GOALS = ("min", "max")
MAX_TRIALS = 1000
MAX_PARAMS = 32
MAX_PARALLEL = 100
DEFAULT_TRIALS = 20
DEFAULT_PARALLEL = 4
DEFAULT_FACTOR = 3
# A parameter of this kind is an environment variable of the trial's job; every method takes them, also one without parameters.
ENV_PREFIX = "env."
