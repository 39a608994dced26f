"""Nodes in lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuneplane.cli.job.show_text import age, local_time
from tuneplane.cli.text import clean, fields, table
from tuneplane.client.admin import LeftJob, Node, NodeCard, NodeProblem, RefusedNode
from tuneplane.i18n import _, ngettext


def nodes_text(nodes: Sequence[Node], refused: Sequence[RefusedNode]) -> str:
    """A line for each node, then what is wrong with any of them."""
    rows = [
        (
            node["name"],
            health_word(node),
            state_word(node),
            _cards(node),
            len(node.get("runs") or []),
            heard(node),
            node.get("version"),
        )
        for node in nodes
    ]
    columns = [_("NODE"), _("HEALTH"), _("STATE"), _("CARDS"), _("RUNS"), _("HEARD"), _("VERSION")]
    wrong = [problem_text(node["name"], problem) for node in nodes if (problem := node.get("problem")) is not None]
    wrong += [problem_text(item["name"], item["problem"]) for item in refused]
    return table(columns, rows) + "".join(f"\n{text}" for text in wrong)


def node_text(node: Node) -> str:
    runs, fences = node.get("runs") or [], node.get("fences") or []
    text = fields(
        [
            (_("node"), node["name"]),
            (_("health"), health_word(node)),
            (_("state"), _state_line(node)),
            (_("gets work"), _("yes") if node.get("placeable") else _("no")),
            (_("address"), node.get("address")),
            (_("version"), node.get("version")),
            (_("runs jobs in"), node.get("runtime")),
            (_("heard of"), local_time(node.get("last_heard"))),
            (_("joined"), local_time(node.get("joined_at"))),
            (_("storage root"), _storage(node)),
            (_("clock"), _clock(node.get("clock_offset"))),
            (_("machine"), _machine(node)),
        ]
    )
    problem = node.get("problem")
    if problem is not None:
        text += f"\n{problem_text(node['name'], problem)}"
    cards = node.get("cards") or []
    if cards:
        text += "\n" + table([_("CARD"), _("PRODUCT"), _("MEMORY"), _("HELD BY")], map(_card, cards))
    if runs:
        rows = [(run["job_id"], run["attempt"], _indices(run["gpus"]), age(run.get("since"))) for run in runs]
        text += "\n" + table([_("RUN"), _("ATTEMPT"), _("CARDS"), _("SINCE")], rows)
    if fences:
        rows = [(fence["job_id"], fence["attempt"], age(fence.get("since"))) for fence in fences]
        text += "\n" + table([_("TO CLEAN UP"), _("ATTEMPT"), _("SINCE")], rows)
    left = node.get("left_jobs") or []
    if left:
        rows = [(item["job_id"], item["attempt"], _left_cards(item), item.get("node_id")) for item in left]
        text += "\n" + table([_("LEFT"), _("ATTEMPT"), _("CARDS"), _("NODE ID")], rows)
    return text + "".join(
        f"\n{_level_word(found['level'])}{clean(found['text'])}\n" for found in node.get("findings") or []
    )


def _level_word(level: str) -> str:
    words = {"error": _("error: "), "warning": _("warning: "), "info": _("note: ")}
    return words.get(level, f"{clean(level)}: ")


def _left_cards(left: LeftJob) -> str:
    if not left.get("running", True):
        return _("ended")
    gpus = left.get("gpus")
    return "?" if gpus is None else _indices(gpus)


def problem_text(name: str, problem: NodeProblem) -> str:
    more = [line for line in (problem.get("hint"), problem.get("detail")) if line]
    return "".join(f"{clean(line)}\n" for line in (f"{name}: {problem['text']}", *(f"  {line}" for line in more)))


def health_word(node: Node) -> str:
    words = {
        "ready": _("ready"),
        "unproved": _("storage not proved yet"),
        "unreachable": _("unreachable"),
        "lost": _("lost"),
        "refused": _("refused"),
    }
    return words.get(node["health"], node["health"])


def state_word(node: Node) -> str:
    """What administrators want of it; `-` when nothing."""
    words = {"cordoned": _("cordoned"), "draining": _draining(node), "removed": _("removed"), "ready": "-"}
    return words.get(node["state"], node["state"])


def heard(node: Node) -> str:
    return _("{age} ago").format(age=age(node.get("last_heard")))


def runs_text(runs: Iterable[str]) -> str:
    return ", ".join(runs)


def _draining(node: Node) -> str:
    count = len(node.get("runs") or [])
    if not count:
        return _("drained")
    return ngettext("draining, {count} run left", "draining, {count} runs left", count).format(count=count)


def _state_line(node: Node) -> str | None:
    if node["state"] == "ready":
        return None
    since, by = local_time(node.get("state_at")), node.get("state_by")
    return _("{state}, since {time} by {user}").format(state=state_word(node), time=since, user=by)


def _cards(node: Node) -> str:
    cards = node.get("cards") or []
    held = sum(card.get("job_id") is not None for card in cards)
    return f"{held} / {len(cards)}" if cards else "-"


def _card(card: NodeCard) -> tuple[str, str | None, str | None, str | None]:
    memory = card.get("memory_gb")
    product = (
        _("{product} (simulated)").format(product=card.get("product")) if card.get("simulated") else card.get("product")
    )
    return str(card["index"]), product, None if memory is None else f"{memory:g} GB", card.get("job_id")


def _storage(node: Node) -> str | None:
    root, proved = node.get("storage_root"), local_time(node.get("proved_at"))
    if root is None or proved is None:
        return root
    return _("{path}, proved {time}").format(path=root, time=proved)


def _clock(offset: float | None) -> str | None:
    if offset is None:
        return None
    return _("{seconds:+.1f} s").format(seconds=offset)


def _machine(node: Node) -> str:
    return _("{cpus} CPUs, {memory:g} GB").format(cpus=node.get("cpus", 0), memory=node.get("memory_gb", 0))


def _indices(gpus: Sequence[int]) -> str:
    return ", ".join(map(str, gpus)) or "-"
