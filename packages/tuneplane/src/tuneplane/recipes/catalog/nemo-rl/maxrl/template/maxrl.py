"""Advantages of maximum likelihood reinforcement learning (MaxRL, arXiv 2602.02710, theorem 2 and algorithm 1)."""

import torch


def advantages(prompts: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
    """`(r - mean) / mean` over the answers of one prompt, 0 where none is right. `prompts` [n] or [n, tokens]: equal rows are one prompt;
    `rewards` [n], each 0 or 1."""
    if not torch.isin(rewards, torch.tensor([0.0, 1.0], dtype=rewards.dtype, device=rewards.device)).all():
        raise ValueError("MaxRL takes rewards of 0 and 1: switch reward scaling and shaping off")
    _, group = torch.unique(prompts, dim=0, return_inverse=True)
    sums = torch.zeros(int(group.max()) + 1, dtype=rewards.dtype, device=rewards.device)
    counts = sums.index_add(0, group, torch.ones_like(rewards))
    mean = (sums.index_add(0, group, rewards) / counts)[group]
    return torch.where(mean > 0, (rewards - mean) / mean.clamp(min=1.0 / len(rewards)), torch.zeros_like(rewards))


class MaxRLAdvantageEstimator:
    """In the shape of NeMo RL's estimators (nemo_rl/algorithms/advantage_estimator.py of 0.7)."""

    def __init__(self, estimator_config, loss_config):
        pass  # there is nothing to set

    def compute_advantage(self, prompt_ids, rewards, mask, **kwargs):
        return advantages(prompt_ids, rewards).unsqueeze(-1).expand(mask.shape)
