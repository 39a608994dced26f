"""The data versions of Slurm's REST API that are known, newest first, and the shape of each one's data."""

from __future__ import annotations

from collections.abc import Iterable

from tuneplane_server.executors.slurm.rest.shapes.base import Shape
from tuneplane_server.executors.slurm.rest.shapes.plain import PlainShape
from tuneplane_server.executors.slurm.rest.shapes.wrapped import WrappedShape

# Slurm of 26.05, 25.11, 25.05, 24.11, 24.05, 23.11 and 22.05. v0.0.39 (23.02) has neither shape: its successors' fields with its
# predecessor's numbers.
_SHAPES: dict[str, type[Shape]] = {
    "v0.0.45": WrappedShape,
    "v0.0.44": WrappedShape,
    "v0.0.43": WrappedShape,
    "v0.0.42": WrappedShape,
    "v0.0.41": WrappedShape,
    "v0.0.40": WrappedShape,
    "v0.0.38": PlainShape,
}
KNOWN = tuple(_SHAPES)


def newest(offered: Iterable[str], known: Iterable[str] = KNOWN) -> Shape | None:
    """The newest shape of those offered that are in `known`, None when there is none."""
    there = set(offered) & set(known)
    return next((shape(version) for version, shape in _SHAPES.items() if version in there), None)
