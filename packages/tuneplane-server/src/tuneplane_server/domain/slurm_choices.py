"""Which partition a profile's jobs go to and which QOS a priority means, as the settings say it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Names of partitions, accounts, QOS and reservations. Slurm takes more, but nobody can tell `a,b=c` apart from a name.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}", re.ASCII)
_PRIORITY = re.compile(r"-?[0-9]{1,3}", re.ASCII)
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100  # of a JobSpec


@dataclass(frozen=True)
class Partitions:
    """`default`: for the profiles that are not named; None: whatever Slurm's own default is."""

    default: str | None = None
    by_profile: Mapping[str, str] = field(default_factory=dict)

    def of(self, profile: str) -> str | None:
        return self.by_profile.get(profile.lower(), self.default)

    @property
    def names(self) -> tuple[str, ...]:
        """Every partition that is named, each once."""
        return tuple(dict.fromkeys([*self.by_profile.values(), *([self.default] if self.default else [])]))


@dataclass(frozen=True)
class QosLevels:
    """`levels`: (least priority, QOS), rising. Below the lowest one the account's own default counts: no QOS is asked for."""

    levels: tuple[tuple[int, str], ...] = ()

    def of(self, priority: int) -> str | None:
        reached = [qos for least, qos in self.levels if least <= priority]
        return reached[-1] if reached else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(qos for _least, qos in self.levels))


def is_name(text: str) -> bool:
    """Whether `text` can be the name of a partition, an account, a QOS or a reservation."""
    return _NAME.fullmatch(text) is not None


def parse_partitions(text: str) -> Partitions:
    """`main`, or `cpu=main,h200=gpu`, or both: a name without a profile is for the others. Raises `ValueError` with a stable word:
    `name` or `twice`."""
    default: str | None = None
    by_profile: dict[str, str] = {}
    for profile, name in _pairs(text):
        if profile is None:
            if default is not None:
                raise ValueError("twice")
            default = name
        elif not is_name(profile):
            raise ValueError("name")
        elif profile.lower() in by_profile:
            raise ValueError("twice")
        else:
            by_profile[profile.lower()] = name
    return Partitions(default, by_profile)


def parse_qos(text: str) -> QosLevels:
    """`normal`, or by least priority `0=normal,50=high`; a name alone is for every priority. Raises `ValueError` with a stable
    word: `name`, `twice` or `priority`."""
    levels: dict[int, str] = {}
    for figure, name in _pairs(text):
        if figure is not None and not _PRIORITY.fullmatch(figure):
            raise ValueError("priority")
        least = LOWEST_PRIORITY if figure is None else int(figure)
        if not LOWEST_PRIORITY <= least <= HIGHEST_PRIORITY:
            raise ValueError("priority")
        if least in levels:
            raise ValueError("twice")
        levels[least] = name
    return QosLevels(tuple(sorted(levels.items())))


def _pairs(text: str) -> list[tuple[str | None, str]]:
    pairs: list[tuple[str | None, str]] = []
    for part in text.split(","):
        left, equals, right = part.strip().partition("=")
        key, name = (left.strip(), right.strip()) if equals else (None, left.strip())
        if not is_name(name):
            raise ValueError("name")
        pairs.append((key, name))
    return pairs
