"""The table of reasons: why an attempt ended as it did, and what to do about it. One table, nothing else decides.

`class`: user (the experiment), infra (machines, network, store), platform (TunePlane itself), policy (a limit somebody
set). `retry`: whether a further attempt can help; whether one is made is the job's `limits.retries` for the class.
The texts are message ids; `{…}` is filled from the reason's data. The anchor is a heading of docs/<language>/reference/reasons.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tuneplane.i18n import N_

type ReasonClass = Literal["user", "infra", "platform", "policy"]


@dataclass(frozen=True)
class ReasonEntry:
    code: str
    class_: ReasonClass
    text: str
    hint: str
    retry: bool

    @property
    def anchor(self) -> str:
        return f"reference/reasons#{self.code}"


_ENTRIES = (
    # --- user: the experiment itself ---
    ReasonEntry(
        "trainer-failed", "user",
        N_("the trainer ended with exit code {exit_code}"),
        N_("the last lines of the log say why; with a fix, submit again"),
        retry=True,
    ),
    ReasonEntry(
        "trainer-signalled", "user",
        N_("the trainer was ended by signal {signal}"),
        N_("a segmentation fault or abort comes from native code: look at the last lines of the log"),
        retry=True,
    ),
    ReasonEntry(
        "gpu-out-of-memory", "user",
        N_("the GPU ran out of memory"),
        N_("lower the batch size per device or the sequence length, use gradient checkpointing, or more GPUs"),
        retry=False,
    ),
    ReasonEntry(
        "out-of-memory", "user",
        N_("the machine's memory limit of this run was reached and the trainer was killed"),
        N_("ask for more memory, or load less data at once"),
        retry=False,
    ),
    ReasonEntry(
        "module-missing", "user",
        N_("a Python module could not be imported"),
        N_("the training image lacks it: choose an image that has it, or put the file into the experiment"),
        retry=False,
    ),
    ReasonEntry(
        "entrypoint-missing", "user",
        N_("the file or module that starts the training is not there"),
        N_("check that the experiment holds it and that it is not excluded from the package"),
        retry=False,
    ),
    ReasonEntry(
        "config-rejected", "user",
        N_("the framework refused the configuration"),
        N_("the last lines of the log name the key; tp validate finds most of these before submitting"),
        retry=False,
    ),
    ReasonEntry(
        "data-unreadable", "user",
        N_("the training data could not be read"),
        N_("check the path and the format of the data; the last lines of the log name the file"),
        retry=False,
    ),
    ReasonEntry(
        "loss-not-finite", "user",
        N_("the loss became NaN or infinite"),
        N_("lower the learning rate, clip the gradients, or look at the data of the last steps"),
        retry=False,
    ),
    ReasonEntry(
        "python-missing", "user",
        N_("the training image has no Python 3.9 or newer"),
        N_("use an image with Python, or set TUNEPLANE_PYTHON in the run's environment to its path"),
        retry=False,
    ),
    ReasonEntry(
        "image-not-found", "user",
        N_("the training image does not exist in its registry: {image}"),
        N_("check the name, the tag and the architecture of the image"),
        retry=False,
    ),
    ReasonEntry(
        "command-not-found", "user",
        N_("the training image has no command {command}"),
        N_("a training image needs a POSIX shell and a Python of 3.9 or newer"),
        retry=False,
    ),
    # --- infra: machines, network, store ---
    ReasonEntry(
        "image-unauthorized", "infra",
        N_("the registry refused to give the training image: {image}"),
        N_("log the node's container runtime in to the registry; a misspelt private name looks the same"),
        retry=False,
    ),
    ReasonEntry(
        "image-disk-full", "infra",
        N_("there is no space on the node for the training image: {image}"),
        N_("remove unused images, or give the container runtime's storage more space"),
        retry=True,
    ),
    ReasonEntry(
        "image-tls", "infra",
        N_("the certificate of the registry of {image} cannot be trusted"),
        N_("install the registry's CA for the container runtime, or list the registry as insecure there"),
        retry=False,
    ),
    ReasonEntry(
        "image-rate-limited", "infra",
        N_("the registry of {image} allows no more pulls for now"),
        N_("wait, log in to the registry, or use a mirror"),
        retry=True,
    ),
    ReasonEntry(
        "image-pull-failed", "infra",
        N_("the training image cannot be pulled: {image}"),
        N_("the message quotes the container runtime; try to pull the image on the node by hand"),
        retry=True,
    ),
    ReasonEntry(
        "runtime-missing", "infra",
        N_("there is no Python environment at {path}"),
        N_("build it on the console's machine with: tuneplane-server runtime build {runtime_id}"),
        retry=False,
    ),
    ReasonEntry(
        "gpu-unsupported", "infra",
        N_("the container runtime of the node cannot give GPUs to a container"),
        N_("install the NVIDIA driver and the NVIDIA Container Toolkit on the node; tuneplane-server doctor checks them"),
        retry=False,
    ),
    ReasonEntry(
        "launch-failed", "infra",
        N_("the executor could not start the run"),
        N_("the message quotes the executor; tuneplane-server doctor checks it"),
        retry=True,
    ),
    ReasonEntry(
        "start-timeout", "infra",
        N_("the run did not start within {seconds} seconds"),
        N_("the node may be overloaded or still pulling the image; see the run's events"),
        retry=True,
    ),
    ReasonEntry(
        "container-lost", "infra",
        N_("the run's container is gone and left no outcome"),
        N_("somebody removed it, or the node was restarted; with retries for infra it goes on from its last checkpoint"),
        retry=True,
    ),
    ReasonEntry(
        "interrupted", "infra",
        N_("the run was told to stop by something other than TunePlane"),
        N_("a restart of the node or of the container runtime does this"),
        retry=True,
    ),
    ReasonEntry(
        "killed", "infra",
        N_("the run was killed from outside"),
        N_("the kernel's log on the node may say by whom, for example for want of memory"),
        retry=True,
    ),
    ReasonEntry(
        "no-outcome", "infra",
        N_("the run ended with exit code 0 and left no outcome record"),
        N_("its wrapper ended before the training did, so it does not count as succeeded"),
        retry=True,
    ),
    ReasonEntry(
        "disk-full", "infra",
        N_("there was no space left on the disk"),
        N_("free space in the storage root, or keep fewer checkpoints"),
        retry=True,
    ),
    ReasonEntry(
        "gpu-failed", "infra",
        N_("a GPU reported an error"),
        N_("look at the node's kernel log for Xid messages and take the card out of use"),
        retry=True,
    ),
    ReasonEntry(
        "communication-failed", "infra",
        N_("the ranks lost each other (NCCL or Gloo)"),
        N_("the first rank that failed shows the cause; often the network, or another rank out of memory"),
        retry=True,
    ),
    ReasonEntry(
        "storage-failed", "infra",
        N_("the storage root could not be written"),
        N_("check that it is mounted on the node at the same path and writable"),
        retry=True,
    ),
    # --- platform: TunePlane itself ---
    ReasonEntry(
        "package-corrupt", "platform",
        N_("the package or the capsule on disk is not the one that was admitted"),
        N_("submit again; if it happens again, check the disk of the storage root"),
        retry=True,
    ),
    ReasonEntry(
        "runner-failed", "platform",
        N_("the runner could not start the trainer"),
        N_("the message and the log say where; please report it if it is not your image"),
        retry=True,
    ),
    # --- policy: limits that somebody set ---
    ReasonEntry(
        "cancelled", "policy",
        N_("the run was cancelled"),
        N_("its checkpoints are kept; tp submit starts a new run"),
        retry=False,
    ),
    ReasonEntry(
        "time-limit", "policy",
        N_("the run reached its limit of {seconds} seconds"),
        N_("raise limits.max_duration, or allow retries for policy so that it goes on from its last checkpoint"),
        retry=True,
    ),
)  # fmt: skip

REASONS: dict[str, ReasonEntry] = {entry.code: entry for entry in _ENTRIES}


def fill(text: str, data: Mapping[str, Any]) -> str:
    """A (translated) text with its `{…}` filled; what is unknown shows as `?`, so that no reason fails to show."""
    return text.format_map(_Known(data))


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"
