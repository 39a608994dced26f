"""Suites: what is measured together, under a name. A pack of the recipe is a suite of its own.

Plain values: `tp bench suites` and the help show them without importing anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import N_, _

METHOD = "evalkit/benchmark"
RUNS_CODE = frozenset({"humaneval", "mbpp"})  # packs that run code which the model wrote


@dataclass(frozen=True)
class Suite:
    """`packs` and `tasks` as in config.yaml; a `runner` other than lm-eval brings its own questions."""

    name: str
    summary: str
    packs: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    runner: str = "lm-eval"


SUITES = (
    Suite("smoke", N_("40 sums that come with the template and need no download"), tasks=("arithmetic_sample",)),
    Suite(
        "general",
        N_("knowledge and common sense"),
        packs=("mmlu", "arc", "hellaswag", "winogrande", "truthfulqa"),
    ),
    Suite("mathematics", N_("word problems and competitions"), packs=("gsm8k", "math", "aime")),
    Suite("reasoning", N_("hard questions in several steps"), packs=("bbh", "drop", "gpqa")),
    Suite("chinese", N_("examinations in Chinese"), packs=("ceval", "cmmlu")),
    Suite("instructions", N_("instructions whose keeping can be checked"), packs=("ifeval",)),
    Suite("code", N_("programs, which are run: --allow-code"), packs=("humaneval", "mbpp")),
    Suite("bias", N_("toxicity and prejudice"), packs=("toxigen", "bbq")),
    Suite("safety", N_("whether harmful questions are refused, and harmless ones are not"), runner="safety"),
    Suite("judge", N_("a judge model grades answers"), runner="judge"),
)


@dataclass(frozen=True)
class Chosen:
    """What several suites come to together."""

    packs: tuple[str, ...]
    tasks: tuple[str, ...]
    runner: str

    @property
    def runs_code(self) -> bool:
        return not RUNS_CODE.isdisjoint(self.packs)


def choose(names: Iterable[str], tasks: Iterable[str], packs: Collection[str]) -> Chosen:
    """The named suites or packs, and `tasks` beside them. `packs`: those that the recipe has. Raises `RefusedError`: a name that is
    none (`param-choice`), or what cannot be measured in one run (`param-choice`)."""
    by_name = {suite.name: suite for suite in SUITES}
    by_name |= {name: Suite(name, "", packs=(name,)) for name in packs if name not in by_name}
    chosen = []
    for name in names:
        if name not in by_name:
            raise RefusedError([_unknown(name, list(by_name))])
        chosen.append(by_name[name])
    more = tuple(tasks)
    runners = {suite.runner for suite in chosen} | ({"lm-eval"} if more or not chosen else set())
    if len(runners) > 1:
        message = _("{runners} cannot be measured in one run").format(runners=", ".join(sorted(runners)))
        raise RefusedError([Refusal("param-choice", message, _("evaluate one after the other"), field="runner")])
    return Chosen(
        tuple(dict.fromkeys(pack for suite in chosen for pack in suite.packs)),
        tuple(dict.fromkeys([*(task for suite in chosen for task in suite.tasks), *more])),
        runners.pop(),
    )


def _unknown(name: str, known: list[str]) -> Refusal:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = (
        _("did you mean “{name}”?").format(name=close[0])
        if close
        else _("tp bench suites lists them; a task of lm-eval by its own name: --tasks")
    )
    return Refusal("param-choice", _("there is no suite “{name}”").format(name=name[:80]), hint, field="suite")
