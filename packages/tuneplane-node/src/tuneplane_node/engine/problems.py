"""Everything that can be wrong on a node, as one table: code, who has to act, the sentence and the hint.

Texts are translated when they are read, so a page shows them in its reader's language. The sentences take named
values; what the container engine itself said travels apart, in `detail`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuneplane.i18n import N_, _
from tuneplane_node.engine.daemon_problems import DAEMON_PROBLEMS
from tuneplane_node.engine.machine_problems import MACHINE_PROBLEMS
from tuneplane_node.engine.problem import Blame, Level, Problem
from tuneplane_node.tls_sentences import in_readers_language

__all__ = ["PROBLEMS", "Blame", "Finding", "Level", "NodeError", "Problem", "finding", "plain_values"]


@dataclass(frozen=True)
class Finding:
    """One thing that `check()` found, in the language of the context it was made in. `values` fill the table's sentences again."""

    code: str
    level: Level
    text: str
    hint: str = ""
    detail: str = ""
    values: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


class NodeError(Exception):
    """The engine refused or failed, for a reason of the table. Nothing was left behind unless the hint says so."""

    def __init__(self, code: str, detail: str = "", **values: object) -> None:
        self.code = code
        self.problem = PROBLEMS[code]
        self.detail = detail[:2000]
        self.values = values
        super().__init__(f"{code}: {self.problem.text.format(**values)}{f' ({self.detail})' if detail else ''}")

    @property
    def retry(self) -> bool:
        return self.problem.retry

    @property
    def blame(self) -> Blame:
        return self.problem.blame

    def text(self) -> str:
        """The sentence in the current language, and in it what was found out where nobody read it."""
        why = self.values.get("why")
        values = {**self.values, "why": in_readers_language(why)} if isinstance(why, str) else self.values
        return _(self.problem.text).format(**values)

    def hint(self) -> str:
        """What to do, in the current language."""
        return _(self.problem.hint).format(**self.values) if self.problem.hint else ""

    def finding(self) -> Finding:
        values = plain_values(self.values)
        return Finding(self.code, self.problem.level, self.text(), self.hint(), self.detail, values)


def finding(code: str, detail: str = "", **values: object) -> Finding:
    return NodeError(code, detail, **values).finding()


def plain_values(values: Mapping[str, object]) -> dict[str, str | int | float | bool | None]:
    """Values of a sentence as JSON can carry them: what is no number is its text."""
    return {
        name: value if value is None or isinstance(value, (bool, int, float)) else str(value)[:2000]
        for name, value in values.items()
    }


PROBLEMS: dict[str, Problem] = {
    # what was asked
    "request-invalid": Problem(
        "platform",
        N_("The launch request is not valid: {field} {value}"),
        N_("This is a fault of the console, not of the experiment. Report it with this text."),
    ),
    "setting-invalid": Problem(
        "platform",
        N_("The setting {setting} is not valid: {value}"),
        N_("Correct the setting and start again. Form: {form}"),
    ),
    "name-conflict": Problem(
        "infra",
        N_("A container named {name} exists and belongs to something else."),
        N_("Remove or rename that container on the node."),
    ),
    "image-missing": Problem(
        "user",
        N_("No image was given, and {runtime} starts nothing without one."),
        N_("Set the image of this framework with TUNEPLANE_IMAGE_<FRAMEWORK> or name one with --image."),
    ),
    "command-not-found": Problem(
        "user",
        N_("The image has no command {command}."),
        N_("A training image needs a POSIX shell and a Python of 3.9 or newer."),
    ),
    "workdir-missing": Problem(
        "platform",
        N_("The working directory {path} does not exist in the container."),
        N_("Check that the storage root is the same directory on the console and on the node."),
    ),
    "mount-missing": Problem(
        "infra",
        N_("A directory to be mounted does not exist on the node."),
        N_("Check TUNEPLANE_CONTAINER_MOUNTS and that the storage root is on this machine at the same path."),
    ),
    "mount-unsupported": Problem(
        "platform",
        N_("Process mode cannot show {source} under another path, {target}."),
        N_("Use the same path on both sides, or run jobs in Docker or Podman."),
    ),
    # images
    "image-not-found": Problem(
        "user",
        N_("The image {image} does not exist in its registry."),
        N_("Check the name, the tag and the architecture of the image."),
    ),
    "image-unauthorized": Problem(
        "infra",
        N_("The registry refused to give the image {image}."),
        N_(
            "Log in to the registry on the node (docker login or podman login) as the user of the console; a misspelt private name looks the same."
        ),
    ),
    "image-disk-full": Problem(
        "infra",
        N_("There is no space left on the node for the image {image}."),
        N_(
            "Remove unused images (docker system prune or podman system prune) or give the engine's storage more space."
        ),
    ),
    "image-tls": Problem(
        "infra",
        N_("The certificate of the registry of {image} cannot be trusted, or the registry does not speak TLS."),
        N_("Install the registry's CA for the container engine, or list the registry as insecure there."),
    ),
    "image-rate-limited": Problem(
        "infra",
        N_("The registry of {image} limits how often this machine may pull."),
        N_("Wait, log in to the registry, or use a mirror."),
        retry=True,
    ),
    "image-registry-unreachable": Problem(
        "infra",
        N_("The registry of {image} cannot be reached from the node."),
        N_("Check the node's network, DNS and proxy settings of the container engine."),
        retry=True,
    ),
    "image-pull-timeout": Problem(
        "infra",
        N_("Pulling the image {image} took longer than {seconds} s."),
        N_("Pull it on the node by hand. Layers that are there already are kept, so the next try goes on from them."),
        retry=True,
    ),
    "image-pull-failed": Problem(
        "infra",
        N_("The image {image} cannot be pulled."),
        N_("Try to pull it on the node by hand; the engine's own words are shown with this message."),
        retry=True,
    ),
    # engines
    "engine-unreachable": Problem(
        "infra",
        N_("The container engine {runtime} does not answer at {address}."),
        N_(
            "Start it (systemctl start docker, or systemctl start podman.socket) and check that the console's user may use its socket. Running jobs are not affected."
        ),
        retry=True,
    ),
    "engine-refused": Problem(
        "infra",
        N_("The container engine {runtime} could not start the container."),
        N_("Its own words are shown with this message."),
        retry=True,
    ),
    "engine-address": Problem(
        "platform",
        N_("{address} is not the address of a local container engine."),
        N_("Use unix:///path/to/docker.sock: jobs need this machine's directories, so the engine must be on it."),
    ),
    "engine-jobs-end-with-daemon": Problem(
        "infra",
        N_("When the Docker daemon is restarted it ends the running jobs."),
        N_('Set "live-restore": true in /etc/docker/daemon.json and reload the daemon.'),
        level="warning",
    ),
    "engine-no-limits": Problem(
        "infra",
        N_("{runtime} cannot limit the memory or the CPUs of a job here."),
        N_("Enable the memory and cpu controllers of the kernel's control groups."),
        level="warning",
    ),
    "engine-no-init": Problem(
        "infra",
        N_("Podman has no init program (catatonit), so the runner itself is the first process of a container."),
        N_("Install catatonit on the node to have finished processes collected for sure."),
        level="info",
    ),
    "engine-ready": Problem("infra", N_("{runtime} {version} answers at {address}."), "", level="info"),
    # GPUs
    "gpu-unsupported": Problem(
        "infra",
        N_("GPUs were asked for, and {runtime} cannot give any to a container here."),
        N_(
            "Install the NVIDIA driver and the NVIDIA Container Toolkit on the node (for Podman: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)."
        ),
    ),
    "gpu-unknown": Problem(
        "platform",
        N_("There is no GPU {index} on this node."),
        N_("See what the node has with tuneplane-node inventory."),
    ),
    "gpu-query-failed": Problem(
        "infra",
        N_("nvidia-smi is installed and does not answer properly, so no GPU of this machine is used."),
        N_("Run nvidia-smi on the node; a driver update usually needs a reboot."),
        retry=True,
    ),
    "gpu-simulated": Problem(
        "infra",
        N_("The {count} GPUs of this node are invented (TUNEPLANE_SIMULATED_GPUS); real ones are not used."),
        "",
        level="info",
    ),
    # process mode
    "process-isolates-nothing": Problem(
        "infra",
        N_(
            "Process mode isolates nothing: jobs run as the user of TunePlane itself, see that user's files, and CPU and memory limits are not enforced."
        ),
        N_("Use it for development only; set TUNEPLANE_RUNTIME=docker or podman to run other people's code."),
        level="warning",
    ),
    "process-unsupported": Problem(
        "infra", N_("Process mode needs Linux with /proc."), N_("Use Docker or Podman on this machine.")
    ),
    "runtime-missing": Problem(
        "infra",
        N_("There is no Python environment at {path}."),
        N_("Build it with: tuneplane-server runtime build {runtime_id}"),
    ),
    "record-unusable": Problem(
        "infra",
        N_("The state of jobs below {path} cannot be read or written."),
        N_("Check that the directory belongs to the console's user and that its disk has space."),
        retry=True,
    ),
    "still-running": Problem(
        "infra",
        N_("Processes of {name} did not end within {seconds} s of being killed."),
        N_(
            "They may hang in a driver or on a dead network file system: see dmesg on the node. Their GPUs stay held until they are gone."
        ),
        retry=True,
    ),
    "supervisor-failed": Problem(
        "infra",
        N_("The process that watches over the job did not start."),
        N_("Its own words are shown with this message."),
        retry=True,
    ),
    # building the Python environments of process mode
    "requirement-not-exact": Problem(
        "platform",
        N_("{requirement} does not name one exact version."),
        N_("A runtime is rebuilt the same everywhere: write name==version."),
    ),
    "python-missing": Problem(
        "infra",
        N_("There is no working CPython {version} with venv and pip on this machine."),
        N_(
            "Install it (Debian: apt install python{version} python{version}-venv; or pyenv install {version}; or uv python install {version})."
        ),
    ),
    "environment-differs": Problem(
        "infra",
        N_("The runtime {runtime_id} exists with other packages or another Python."),
        N_("When no job uses it, build it anew with: tuneplane-server runtime build {runtime_id} --rebuild"),
    ),
    "environment-busy": Problem(
        "infra",
        N_("Another process has been building the runtime {runtime_id} for {seconds} s."),
        N_("Wait for it or end it; then run this again."),
        retry=True,
    ),
    "environment-disk-full": Problem(
        "infra",
        N_("There is no space left on the disk for the runtime {runtime_id}."),
        N_("Free some space and run this again: what is there already is kept."),
    ),
    "environment-package-missing": Problem(
        "infra",
        N_("pip finds no package for one of the requirements of the runtime {runtime_id}."),
        N_("Check pip's own configuration (pip config list): it decides where packages come from."),
    ),
    "environment-network": Problem(
        "infra",
        N_("pip could not reach its package index for the runtime {runtime_id}."),
        N_("Check the network, proxy and pip's own configuration (pip config list), and run this again."),
        retry=True,
    ),
    "environment-failed": Problem(
        "infra",
        N_("The runtime {runtime_id} could not be built."),
        N_("The last lines of the tool are shown with this message. Run this again after mending the cause."),
    ),
    **DAEMON_PROBLEMS,
    **MACHINE_PROBLEMS,
}
