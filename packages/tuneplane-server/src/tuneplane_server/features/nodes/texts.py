"""What can be wrong with a node as the console sees it, in sentences of the reader's language."""

from __future__ import annotations

from typing import NamedTuple

from tuneplane.i18n import N_, _
from tuneplane_node.wire import NodeProblem as NodeSays
from tuneplane_server.features.nodes.node import NodeProblem

NAME_TAKEN = "node-name-taken"
NODE_CLONED = "node-cloned"
NODE_RENAMED = "node-renamed"
NODE_VERSION = "node-version"
NODE_REMOVED = "node-removed"
STORAGE_OTHER = "storage-other"
STORAGE_CONSOLE = "storage-console"
NOT_AGENT = "executor-not-agent"


class ProblemText(NamedTuple):
    """Message ids; the problem's values fill them."""

    text: str
    hint: str


PROBLEM_TEXTS: dict[str, ProblemText] = {
    NAME_TAKEN: ProblemText(
        N_(
            "Another machine has the name {name}: {taken_address} (node id {taken_id}), heard of {taken_heard}. This one is "
            "{address} (node id {node_id})."
        ),
        N_(
            "Give one of them another TUNEPLANE_NODE_NAME. If the other one is gone for good, an administrator frees the name: "
            "tp admin node remove {name} --force"
        ),
    ),
    NODE_CLONED: ProblemText(
        N_(
            "Two machines have the node id {node_id}: {taken_address} (started as {taken_boot}, heard of {taken_heard}) and this one, "
            "{address} (started as {boot}). One is a copy of the other."
        ),
        N_(
            "If it is one machine that was started again, this ends by itself in half a minute. Else remove node-id from the state "
            "directory of the copy, give it a TUNEPLANE_NODE_NAME of its own, and start its daemon again."
        ),
    ),
    NODE_RENAMED: ProblemText(
        N_(
            "This machine, {address} (node id {node_id}), is known as {taken}: {taken_address}, heard of {taken_heard}. Under two "
            "names its cards would be there twice."
        ),
        N_(
            "If it was renamed, it joins under its new name by itself when {taken} is silent and no run holds anything there any "
            "more. If it is a copy of that machine, remove node-id from its state directory and start its daemon again."
        ),
    ),
    NODE_VERSION: ProblemText(
        N_("The node is of version {node}, this console of {console}: they are too far apart."),
        N_("Both may differ by one minor version. Upgrade the older one; running jobs live on."),
    ),
    NODE_REMOVED: ProblemText(
        N_("An administrator has removed the node {name} from this console."),
        N_("Stop its tuneplane-node. To use the node again: tp admin node uncordon {name}"),
    ),
    STORAGE_OTHER: ProblemText(
        N_("The storage root of the node is not the console's. Console: {console}. Node: {node}."),
        N_(
            "Mount the shared storage at the same path on both machines and set TUNEPLANE_STORAGE_ROOT to it. A directory of the "
            "same name on another disk is another directory."
        ),
    ),
    STORAGE_CONSOLE: ProblemText(
        N_("The console cannot write to its own storage root {path}, so that no node can prove that it has the same."),
        N_(
            "Look at the disk of the storage root on the console's machine; its nodes prove it anew by themselves then."
        ),
    ),
    NOT_AGENT: ProblemText(
        N_("This console runs jobs on its own machine and uses no nodes."),
        N_("Set TUNEPLANE_EXECUTOR=agent on the console and start it again, or stop tuneplane-node."),
    ),
}


def problem_text(problem: NodeProblem) -> str:
    if problem.code in PROBLEM_TEXTS:
        return _(PROBLEM_TEXTS[problem.code].text).format(**problem.values)
    return _of_node(problem).error().text()


def problem_hint(problem: NodeProblem) -> str:
    if problem.code in PROBLEM_TEXTS:
        return _(PROBLEM_TEXTS[problem.code].hint).format(**problem.values)
    return _of_node(problem).error().hint()


def _of_node(problem: NodeProblem) -> NodeSays:
    """A code of the node's own table, such as `node-unreachable`."""
    return NodeSays(problem.code, problem.values, problem.detail)
