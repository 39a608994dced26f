"""Inventory, allocation, container runtimes and job supervision of one machine."""

from __future__ import annotations

from tuneplane_node.engine.engine import Engine
from tuneplane_node.engine.environments import build_environment, is_environment_ready
from tuneplane_node.engine.inventory import Gpu, Inventory
from tuneplane_node.engine.problems import PROBLEMS, Finding, NodeError, Problem
from tuneplane_node.engine.requests import (
    LABEL_ATTEMPT,
    LABEL_INSTANCE,
    LABEL_JOB,
    LaunchRequest,
    Mount,
    Observed,
    OwnedContainer,
    RuntimeHandle,
    parse_mounts,
)
from tuneplane_node.engine.sampling.samples import CardSample, JobSample, MachineSample
from tuneplane_node.engine.strangers import Stranger

__all__ = [
    "LABEL_ATTEMPT",
    "LABEL_INSTANCE",
    "LABEL_JOB",
    "PROBLEMS",
    "CardSample",
    "Engine",
    "Finding",
    "Gpu",
    "Inventory",
    "JobSample",
    "LaunchRequest",
    "MachineSample",
    "Mount",
    "NodeError",
    "Observed",
    "OwnedContainer",
    "Problem",
    "RuntimeHandle",
    "Stranger",
    "build_environment",
    "is_environment_ready",
    "parse_mounts",
]
