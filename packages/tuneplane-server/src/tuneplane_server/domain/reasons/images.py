"""Images, runtimes and the launch itself. Where the node engine knows the case, the code is the engine's (tuneplane_node/engine/problems.py)."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry

ENTRIES = (
    ReasonEntry(
        "image-not-found",
        "user",
        N_("the training image does not exist in its registry: {image}"),
        N_("check the name, the tag and the architecture of the image"),
        retry=False,
    ),
    ReasonEntry(
        "image-missing",
        "user",
        N_("the run has no training image"),
        N_("set the image of the framework with TUNEPLANE_IMAGE_<FRAMEWORK>, or name one with tp submit --image"),
        retry=False,
    ),
    ReasonEntry(
        "image-unauthorized",
        "infra",
        N_("the registry refused to give the training image: {image}"),
        N_("log the node's container runtime in to the registry; a misspelt private name looks the same"),
        retry=False,
    ),
    ReasonEntry(
        "image-disk-full",
        "infra",
        N_("there is no space on the node for the training image: {image}"),
        N_("remove unused images, or give the container runtime's storage more space"),
        retry=True,
    ),
    ReasonEntry(
        "image-tls",
        "infra",
        N_("the certificate of the registry of {image} cannot be trusted"),
        N_("install the registry's CA for the container runtime, or list the registry as insecure there"),
        retry=False,
    ),
    ReasonEntry(
        "image-rate-limited",
        "infra",
        N_("the registry of {image} allows no more pulls for now"),
        N_("wait, log in to the registry, or use a mirror"),
        retry=True,
    ),
    ReasonEntry(
        "image-registry-unreachable",
        "infra",
        N_("the registry of {image} cannot be reached from the node"),
        N_("check DNS, the network, and the proxy settings of the container runtime on the node"),
        retry=True,
    ),
    ReasonEntry(
        "image-pull-timeout",
        "infra",
        N_("pulling the training image took too long: {image}"),
        N_(
            "pull it on the node by hand: layers that are there already are kept, so the next attempt goes on from them"
        ),
        retry=True,
    ),
    ReasonEntry(
        "image-pull-failed",
        "infra",
        N_("the training image cannot be pulled: {image}"),
        N_("the message quotes the container runtime; try to pull the image on the node by hand"),
        retry=True,
    ),
    ReasonEntry(
        "python-missing",
        "user",
        N_("the training image has no Python 3.9 or newer"),
        N_("use an image with Python, or set TUNEPLANE_PYTHON in the run's environment to its path"),
        retry=False,
    ),
    ReasonEntry(
        "runtime-missing",
        "infra",
        N_("there is no Python environment at {path}"),
        N_("build it on the console's machine with: tuneplane-server runtime build {runtime_id}"),
        retry=False,
    ),
    ReasonEntry(
        "gpu-unsupported",
        "infra",
        N_("the container runtime of the node cannot give GPUs to a container"),
        N_(
            "install the NVIDIA driver and the NVIDIA Container Toolkit on the node; tuneplane-server doctor checks them"
        ),
        retry=False,
    ),
    ReasonEntry(
        "mount-missing",
        "infra",
        N_("a directory that the run needs does not exist on the node"),
        N_("check that the storage root is mounted there at the same path, and the setting TUNEPLANE_CONTAINER_MOUNTS"),
        retry=True,
    ),
    ReasonEntry(
        "launch-failed",
        "infra",
        N_("the executor could not start the run"),
        N_("the message quotes the executor; tuneplane-server doctor checks it"),
        retry=True,
    ),
    ReasonEntry(
        "start-timeout",
        "infra",
        N_("the run did not start within {seconds} seconds"),
        N_(
            "the node may be overloaded, still pulling the image, or still being powered up; see the run's events. Where it needs longer, set TUNEPLANE_START_TIMEOUT_SECONDS higher"
        ),
        retry=True,
    ),
)
