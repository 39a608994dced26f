"""Profile `oci`: Slurm's own containers (`srun --container=BUNDLE`, slurm.schedmd.com/containers.html).

slurmstepd reads `config.json` of the bundle on each node, sets its command and environment to the step's and starts it with
the runtime of `oci.conf` (src/slurmd/slurmstepd/container.c). There are no options for mounts: they are in the bundle. So each
attempt has a bundle of its own, which is the registered one with the job's mounts, its root file system named by its full path.
Variables in the bundle win over the step's; those that the job brings are taken out of it. Hooks, namespaces and the mapping of
users stay as the site registered them. Without an `oci.conf` Slurm ignores the option and runs the step on the host: the bundle
brings a variable that proves it was used. Slurm before 23.02 overwrites the path of the root file system; it is refused.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from typing import Any

from tuneplane.contract.words import BOOTSTRAP_FILE
from tuneplane_node.engine import Mount
from tuneplane_server.executors.slurm.script import machine
from tuneplane_server.executors.slurm.script.launcher import Launcher, passed_names
from tuneplane_server.executors.slurm.script.request import ScriptError, ScriptRequest
from tuneplane_server.executors.slurm.script.template import fill, word

BUNDLE_DIR = "bundle"
CONFIG_FILE = "config.json"
_PROOF = "TUNEPLANE_IN_BUNDLE"
_STEP_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_MEMLOCK")
_SCRATCH = "/tmp"  # noqa: S108 - inside the container, whose root may be read-only

_BEFORE = """\
case $(srun --version 2>/dev/null) in
  *' '20.* | *' '21.* | *' '22.*)
    refuse "launch-failed: the profile oci needs Slurm 23.02 or newer: $(srun --version) takes no root file system from outside of a bundle" ;;
esac
"""
_CHECK = """\
[ "${@PROOF@:-}" = 1 ] || refuse "launch-failed: Slurm ran the step outside of its container; $node has no oci.conf, which the profile oci needs"
unset @PROOF@
"""


def launcher(request: ScriptRequest) -> Launcher:
    if request.bundle is None:
        raise ScriptError(f"the bundle {request.image[:200]!r} was not read")
    bundle = request.slurm_dir / BUNDLE_DIR
    config = job_config(request.bundle, request.image, request.mounts(), passed_names(request.environment_names))
    text = machine.inside(str(request.capsule / BOOTSTRAP_FILE), fill(_CHECK, {"PROOF": _PROOF}))
    return Launcher(
        machine=text,
        before=_BEFORE,
        options=(f"--container={word(str(bundle))}",),
        files={f"{BUNDLE_DIR}/{CONFIG_FILE}": json.dumps(config, indent=1) + "\n"},
    )


def job_config(
    registered: Mapping[str, Any], image: str, mounts: list[Mount], names: tuple[str, ...]
) -> dict[str, Any]:
    """`config.json` of one attempt. `image`: directory of the registered bundle. Raises `ScriptError`."""
    try:
        root, process = dict(registered["root"]), dict(registered["process"])
        given = [str(entry) for entry in process.get("env", [])]
        there = [dict(entry) for entry in registered.get("mounts", [])]
        root["path"] = posixpath.join(image, str(root["path"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ScriptError(f"{image[:200]}/{CONFIG_FILE} is no OCI bundle configuration ({error})") from error
    taken = {*names, _PROOF}
    process["env"] = [entry for entry in given if entry.partition("=")[0] not in taken] + [f"{_PROOF}=1"]
    process["cwd"], process["terminal"] = "/", False
    # `runc spec` writes 1024 open files; the step has what the site allows.
    process["rlimits"] = [limit for limit in process.get("rlimits", []) if limit.get("type") not in _STEP_LIMITS]
    targets = {entry.get("destination") for entry in there}
    if _SCRATCH not in targets:
        options = ["nosuid", "nodev", "mode=1777"]
        there.append({"destination": _SCRATCH, "type": "tmpfs", "source": "tmpfs", "options": options})
    there += [
        {
            "destination": mount.target,
            "type": "none",
            "source": mount.source,
            "options": ["rbind", "ro" if mount.read_only else "rw"],
        }
        for mount in mounts
    ]
    return {**registered, "root": root, "process": process, "mounts": there}
