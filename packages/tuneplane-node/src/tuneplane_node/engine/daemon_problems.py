"""What can be wrong between a console and the daemon of a node; a part of the table in `problems.py`."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_node.engine.problem import Problem

DAEMON_PROBLEMS: dict[str, Problem] = {
    # a node that cannot be spoken to: nothing is known of its jobs then, and they run on
    "node-unreachable": Problem(
        "infra",
        N_("The node at {address} cannot be reached."),
        N_(
            "Check on the node that tuneplane-node serve runs, and that the console's machine may connect to this address and port. Running jobs are not affected."
        ),
        retry=True,
    ),
    "node-tls": Problem(
        "infra",
        N_("No trusted TLS connection to the node at {address}: {why}"),
        N_(
            "Both sides must agree: https:// with TUNEPLANE_NODE_TLS_CERT on the node and, for a certificate of your own authority, TUNEPLANE_AGENT_CA_FILE on the console; http:// without."
        ),
        retry=True,
    ),
    "node-token": Problem(
        "infra",
        N_("The node at {address} does not accept the console's token."),
        N_("Give TUNEPLANE_AGENT_TOKEN or TUNEPLANE_AGENT_TOKEN_FILE the same value on the console and on the node."),
        retry=True,
    ),
    "node-answer": Problem(
        "infra",
        N_("What answers at {address} is no TunePlane node: {why}"),
        N_("Check TUNEPLANE_NODE_ADDRESS and TUNEPLANE_NODE_PORT of the node, and whether a proxy stands between."),
        retry=True,
    ),
    "node-version": Problem(
        "infra",
        N_("The node at {address} is of version {node}, the console of {console}: they are too far apart."),
        N_("Both may differ by one minor version. Upgrade the older one; running jobs live on."),
        retry=True,
    ),
    "node-says": Problem(
        "infra",
        N_("The node reports {node_code}: {said}"),
        N_("The versions of console and node differ, and this side has no words of its own for it. {advice}"),
    ),
    # what a node refuses
    "capsule-altered": Problem(
        "infra",
        N_("The file {path} is not the one that the console has sent."),
        N_("Nothing was started. Check the storage of the node: it shows other contents than the console wrote."),
        retry=True,
    ),
    "capsule-unreadable": Problem(
        "infra",
        N_("The file {path} cannot be read on the node."),
        N_("Check that the storage root is mounted on the node and that the daemon's user may read it."),
        retry=True,
    ),
    "launch-superseded": Problem(
        "infra",
        N_("The launch of {name} came later than its cleanup, so nothing was started."),
        N_("The console asks again by itself. If it lasts, the clocks of its machines differ."),
        retry=True,
    ),
    "node-stopping": Problem(
        "infra",
        N_("The daemon of this node is just being stopped."),
        N_("The console asks again by itself. Running jobs are not affected."),
        retry=True,
    ),
    "path-outside-storage": Problem(
        "platform",
        N_("{path} is not below the storage root {root} of this node."),
        N_("Set TUNEPLANE_STORAGE_ROOT to the same path on the console and on every node."),
    ),
    "token-wrong": Problem(
        "infra",
        N_("The token of this call is not the one of this node."),
        N_("Give TUNEPLANE_AGENT_TOKEN or TUNEPLANE_AGENT_TOKEN_FILE the same value on the console and on the node."),
        retry=True,
    ),
    "token-tries": Problem(
        "infra",
        N_("Too many wrong tokens came from this address."),
        N_("Wait a minute; then correct the token of whoever calls from there."),
        retry=True,
    ),
    "console-tls": Problem(
        "infra",
        N_("No trusted TLS connection to the console at {url}: {why}"),
        N_(
            "Correct TUNEPLANE_CONSOLE_URL: https:// where the console, or a proxy before it, has a certificate, else http://. For a certificate of your own authority set TUNEPLANE_NODE_CA_FILE."
        ),
    ),
    # starting the daemon
    "agent-token-missing": Problem(
        "infra",
        N_("There is no token, and without one anybody on the network could start programs on this machine."),
        N_(
            "Set TUNEPLANE_AGENT_TOKEN_FILE (or TUNEPLANE_AGENT_TOKEN) to the same secret here and on the console. Make one with: openssl rand -hex 32"
        ),
    ),
    "agent-token-invalid": Problem(
        "infra",
        N_("The token in {setting} cannot be used: {why}"),
        N_(
            "Write one line of at least 16 printable ASCII characters without spaces. Make one with: openssl rand -hex 32"
        ),
    ),
    "agent-token-unreadable": Problem(
        "infra",
        N_("The file of the token, {path}, cannot be read."),
        N_("Check TUNEPLANE_AGENT_TOKEN_FILE and that the user of this service may read the file."),
    ),
    "setting-missing": Problem(
        "infra",
        N_("The setting {setting} is missing."),
        N_("Set it and start again. Form: {form}"),
    ),
    "state-unusable": Problem(
        "infra",
        N_("The daemon's state directory {path} cannot be used: {why}"),
        N_("Set TUNEPLANE_NODE_STATE to a directory on a local disk that the user of this service may write."),
    ),
    "daemon-running": Problem(
        "infra",
        N_("Another tuneplane-node (process {pid}) already serves from {path}."),
        N_(
            "One daemon serves one machine: stop the other one, or give this one its own TUNEPLANE_NODE_STATE, TUNEPLANE_NODE_NAME and TUNEPLANE_NODE_PORT."
        ),
    ),
    "port-taken": Problem(
        "infra",
        N_("The daemon cannot listen on {host} port {port}: {why}"),
        N_("See who has the port (ss -ltnp), or choose another with TUNEPLANE_NODE_PORT."),
    ),
    "tls-files": Problem(
        "infra",
        N_("The certificate {cert} and its key {key} cannot be used: {why}"),
        N_("Set TUNEPLANE_NODE_TLS_CERT and TUNEPLANE_NODE_TLS_KEY to a certificate chain and its key, both PEM."),
    ),
}
