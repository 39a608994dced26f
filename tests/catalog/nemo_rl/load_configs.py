"""Run by the Python of the nemo-rl environment: read configurations as NeMo RL's `load_config` does, and print them resolved.

    NEMO_RL_DIR=<folder> python load_configs.py <config>…

`defaults` names one file to inherit from, the file's own keys are merged over it, `mul` multiplies (nemo_rl/utils/config.py of 0.7). All of it is OmegaConf,
NeMo RL's own configuration library; only these few lines are ours.
"""

import json
import sys

from omegaconf import OmegaConf


def load(path):
    config = OmegaConf.load(path)
    base = config.pop("defaults", None)
    return config if base is None else OmegaConf.merge(load(base), config)


OmegaConf.register_new_resolver("mul", lambda left, right: left * right)
for name in sys.argv[1:]:
    print(json.dumps(OmegaConf.to_container(load(name), resolve=True)))
