"""The rewards of this experiment: each class is known to config.yaml by the name it gets in `orms` at the end of the file.

ms-swift calls them with the completions and the columns of the rows (here `answer`), one value for each completion.
"""

import re

from swift.rewards import ORM, orms

NUMBER = re.compile(r"-?\d+")


class Correct(ORM):
    """1 when the last number of the completion is the answer."""

    def __call__(self, completions: list[str], answer: list[str], **kwargs) -> list[float]:
        last = [(NUMBER.findall(completion) or [""])[-1] for completion in completions]
        return [float(found == right) for found, right in zip(last, answer, strict=True)]


class OnlyNumber(ORM):
    """1 when the completion is a number and nothing else."""

    def __call__(self, completions: list[str], **kwargs) -> list[float]:
        return [float(NUMBER.fullmatch(completion.strip()) is not None) for completion in completions]


orms["correct"] = Correct
orms["only_number"] = OnlyNumber
