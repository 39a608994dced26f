"""Reports and comparisons in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from tuneplane.cli.job.show_text import age
from tuneplane.cli.text import clean, fields, table
from tuneplane.client.evaluations import Cell, Comparison, Difference, EvaluatedModel, Evaluation, GateResult
from tuneplane.i18n import _

SHOWN_HEADS = 3
TINY = "/out/tiny-model"  # where evalkit/benchmark makes one when no model is named


def number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else str(value)


def signed(value: Any) -> str:
    return f"{value:+.4f}" if isinstance(value, int | float) else str(value)


def with_reach(value: Any, stderr: float | None, confidence: float | None) -> str:
    """`0.4120 ± 0.0265`; the value alone where no error is known."""
    if stderr is None or confidence is None:
        return number(value)
    return f"{number(value)} ± {_z(confidence) * stderr:.4f}"


def model_text(model: EvaluatedModel) -> str:
    """`hf:Qwen/Qwen3-0.6B`; `run 06fq…, step 400`; what the job says itself where none was named."""
    if model["run"]:
        step = model["step"]
        run = clean(model["run"])
        return (
            _("run {run}, step {step}").format(run=run, step=step)
            if step is not None
            else _("run {run}").format(run=run)
        )
    if model["ref"] is None and (model["name"] or "").endswith(TINY):
        return _("the template's tiny model")
    return clean(model["ref"] or model["name"] or "-")


def heads_text(evaluation: Evaluation) -> str:
    problem = evaluation["problem"]
    if problem:
        return clean(problem["text"])
    shown = evaluation["heads"][:SHOWN_HEADS]
    more = evaluation["task_count"] - len(shown)
    parts = [f"{clean(item['task'])} {number(item['value'])}" for item in shown]
    return ", ".join([*parts, *([_("{count} more").format(count=more)] if more > 0 else [])])


def head(found: Evaluation) -> str:
    """What was measured, of what, and how."""
    settings, versions = found.get("settings") or {}, found.get("versions") or {}
    model = found["model"]
    seconds = found.get("seconds")
    return fields(
        [
            (_("run"), found["run"]),
            (_("experiment"), f"@{found['owner']}/{found['project']}/{found['experiment']}"),
            (_("model"), model_text(model)),
            (_("as loaded"), model["name"]),
            (_("revision"), model.get("revision")),
            (_("parameters"), _count(model.get("parameters"))),
            (_("runner"), found["runner"]),
            (
                _("rows"),
                _("the first {count} of each task").format(count=settings["limit"])
                if settings.get("limit")
                else _("all"),
            ),
            (
                _("chat template"),
                _("yes") if settings.get("apply_chat_template") and model.get("chat_template") else _("no"),
            ),
            (_("system message"), settings.get("system_prompt")),
            (_("versions"), ", ".join(f"{name} {version}" for name, version in versions.items())),
            (_("took"), None if seconds is None else f"{seconds:.0f} s"),
            (_("made"), age(found["created_at"])),
            (_("score"), None if found["score"] is None else number(found["score"])),
        ]
    )


def figures_table(found: Evaluation) -> str:
    rows = [
        (
            item["task"],
            _figure_name(figure),
            with_reach(figure["value"], figure["stderr"], found.get("confidence")),
            "" if figure["higher_is_better"] else _("less is better"),
            str(item["n"]) if item["n"] == item["total"] else f"{item['n']}/{item['total']}",
            item["num_fewshot"],
            item["version"] or "-",
            "; ".join(item["notes"]),
        )
        for item in found.get("tasks") or []
        for figure in item["figures"]
    ]
    return table([_("TASK"), _("METRIC"), _("VALUE"), "", _("ROWS"), _("SHOTS"), _("VERSION"), ""], rows)


def gates_table(gates: Sequence[GateResult]) -> str:
    rows = [
        (
            gate["metric"],
            " ".join(
                f"{sign} {bound:g}" for sign, bound in (("≥", gate["min"]), ("≤", gate["max"])) if bound is not None
            ),
            None if gate["value"] is None else number(gate["value"]),
            _gate_words(gate),
        )
        for gate in gates
    ]
    return table([_("GATE"), _("BOUND"), _("VALUE"), _("RESULT")], rows)


def _gate_words(gate: GateResult) -> str:
    words = {"passed": _("passed"), "failed": _("not passed"), "missing": _("not passed: there is no such figure")}
    state = words.get(gate["state"], gate["state"])
    return state if gate["certain"] is not False else _("{state}, but within the figure's interval").format(state=state)


def legend(found: Comparison) -> str:
    """Which letter stands for which run."""
    rows = [
        (letter, run["run"], model_text(run["model"]), run.get("display_name") or run["experiment"])
        for letter, run in zip(ascii_uppercase, found["runs"], strict=False)
    ]
    return table(["", _("RUN"), _("MODEL"), _("NAME")], rows)


def comparison_table(found: Comparison) -> tuple[str, list[str]]:
    """(the table, what the marks in it mean)."""
    letters = ascii_uppercase[: len(found["runs"])]
    headers = [_("TASK"), _("METRIC"), letters[0]]
    headers += [part for letter in letters[1:] for part in (letter, f"{letter} − {letters[0]}", "")]
    reasons: dict[str, int] = {}
    rows = []
    for row in found["rows"]:
        base, *others = row["cells"]
        cells = [row["task"], _figure_name(row), _value(base, found["confidence"])]
        for cell in others:
            cells += [_value(cell, found["confidence"]), *_apart(cell, reasons)]
        rows.append(cells)
    return table(headers, rows), _remarks(found, reasons)


def _remarks(found: Comparison, reasons: dict[str, int]) -> list[str]:
    percent = f"{100 * found['confidence']:g}"
    remarks = [
        _("± is half of the {percent} % interval; * a difference beyond chance at that level").format(percent=percent)
    ]
    if any(cell["difference"] and cell["difference"]["few"] for row in found["rows"] for cell in row["cells"]):
        remarks.append(_("? fewer than 30 rows: too few for the interval to mean much"))
    return remarks + [
        _("({number}) not compared: {why}").format(number=place, why=clean(why)) for why, place in reasons.items()
    ]


def _value(cell: Cell, confidence: float) -> str:
    return "-" if cell["value"] is None else with_reach(cell["value"], cell["stderr"], confidence)


def _apart(cell: Cell, reasons: dict[str, int]) -> tuple[str, str]:
    """(the difference with its error, its mark). `reasons`: why figures are not compared -> the number that stands for it."""
    if cell["mismatches"]:
        why = "; ".join(item["text"] for item in cell["mismatches"])
        return f"({reasons.setdefault(why, len(reasons) + 1)})", ""
    found = cell["difference"]
    if found is None:
        return "-", ""
    reach = "" if found["low"] is None else f" ± {_half(found):.4f}"
    return f"{signed(found['delta'])}{reach}", _mark(found)


def _mark(found: Difference) -> str:
    mark = ("*" if found["significant"] else "") + ("?" if found["few"] else "")
    word = ""
    if found["significant"]:
        word = _("better") if found["better"] else _("worse")
    return " ".join(part for part in (mark, word) if part)


def _half(found: Difference) -> float:
    low, high = found["low"], found["high"]
    return (float(high or 0) - float(low or 0)) / 2


def _figure_name(figure: Any) -> str:
    return f"{figure['name']}, {figure['filter']}" if figure["filter"] else str(figure["name"])


def _count(value: int | None) -> str | None:
    """`596 M`, `7.6 B` as models are named."""
    if value is None:
        return None
    for size, unit in ((10**9, "B"), (10**6, "M")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return str(value)


def _z(confidence: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + confidence / 2)
