"""Maximum likelihood reinforcement learning: NeMo RL's GRPO with the advantages of maxrl.py."""

import os
import runpy
import sys

import nemo_rl.algorithms.grpo as grpo
from maxrl import MaxRLAdvantageEstimator

SCRIPT = os.environ.get("NEMO_RL_DIR", "/opt/nemo-rl") + "/examples/run_grpo.py"

if not hasattr(grpo, "GRPOAdvantageEstimator"):
    sys.exit("this NeMo RL makes its advantages elsewhere: run.py was written for 0.7")
grpo.GRPOAdvantageEstimator = MaxRLAdvantageEstimator  # what it makes for `grpo.adv_estimator.name: grpo`
sys.argv[0] = SCRIPT
runpy.run_path(SCRIPT, run_name="__main__")
