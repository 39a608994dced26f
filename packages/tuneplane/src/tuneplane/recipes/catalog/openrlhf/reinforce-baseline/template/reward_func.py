"""The rewards of the run: OpenRLHF's engines call `reward_func` for each answer."""

import re

import torch

NUMBER = re.compile(r"-?\d+")


def correct(answer: str, label: str) -> float:
    """1 when the last number of the answer is the right one."""
    numbers = NUMBER.findall(answer)
    return float(bool(numbers) and numbers[-1] == str(label))


def only_number(answer: str) -> float:
    """1 when there is nothing but a number."""
    return float(NUMBER.fullmatch(answer.strip()) is not None)


def reward_func(queries, prompts, labels, **kwargs):
    """`queries` are prompt and answer as text, special tokens included. What is in `extra_logs` gets a curve of its own."""
    answers = [
        re.sub(r"<\|[^|]*\|>|</s>", "", query[len(prompt) :]) for query, prompt in zip(queries, prompts, strict=True)
    ]
    right = torch.tensor([correct(answer, label) for answer, label in zip(answers, labels, strict=True)])
    short = torch.tensor([only_number(answer) for answer in answers])
    return {"rewards": right + 0.5 * short, "scores": right, "extra_logs": {"correct": right, "only_number": short}}
