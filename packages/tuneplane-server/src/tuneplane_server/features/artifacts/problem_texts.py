"""Why a checkpoint is not complete, or cannot be exported, in the reader's language. The runner says it in English
(`tuneplane.runner.checkpoints`, `checkpoint_layouts`, `export_layouts`)."""

from __future__ import annotations

import re

from tuneplane.i18n import N_, _

# The first that fits counts: what has a beginning of its own stands before what could be its end.
_SENTENCES = (
    N_("it cannot be read: {why}"),
    N_("its weights are in shards of Megatron, which are not converted here"),
    N_("its weights are in shards of the trainer, and none are in Hugging Face's layout"),
    N_("its weights are shards in safetensors; with checkpointing.save_consolidated: true NeMo RL writes whole ones"),
    N_("it holds no weights in a layout that is known"),
    N_("its critic cannot be read: {why}"),
    N_("its critic holds no model weights"),
    N_("cannot be read: {why}"),
    N_("its weights were removed, as max_actor_ckpt_to_keep asks"),
    N_("its shards are still being written, or were cut off"),
    N_("it holds weights to use, but no state to resume from (no_save_optim)"),
    N_("there is no {name} beside it: it was cut off while being written"),
    N_("there is no {name} in it: it was cut off while being written"),
    N_("{name} does not name it yet: it is still being written, or was cut off"),
    N_("{name} cannot be read: {why}"),
    N_("{name} is still being written"),
    N_("trainer_state.json is missing: it was cut off while being written"),
    N_("its layout is not known; a script of your own marks a whole one with an empty file {name}"),
    N_("trainer_state.json is of step {found}, not {step}"),
    N_("shard {name} is missing"),
    N_("it holds no model weights"),
    N_("it holds no optimizer state"),
    N_("it holds no scheduler state"),
    N_("it holds no random state"),
    N_("the random state of a rank is missing (found {count}, highest {highest})"),
    N_("{name} is empty"),
    N_("{name} is cut off ({error})"),
    N_("{name} is cut off"),
)

_OF_THE_CRITIC = "its critic: "  # then what is wrong with it, in the words of the others


def _pattern(sentence: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", sentence)  # text and names by turns
    return re.compile(
        "".join(f"(?P<{part}>.+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)), re.DOTALL
    )


_KNOWN = tuple((_pattern(sentence), sentence) for sentence in _SENTENCES)


def problem_text(stored: str | None) -> str | None:
    """What no version of the runner that we know has written stays as it is."""
    if stored is None:
        return None
    if stored.startswith(_OF_THE_CRITIC) and (said := problem_text(stored.removeprefix(_OF_THE_CRITIC))) is not None:
        return _("its critic: {problem}").format(problem=said)
    for pattern, sentence in _KNOWN:
        if (match := pattern.fullmatch(stored)) is not None:
            return _(sentence).format(**match.groupdict())
    return stored
