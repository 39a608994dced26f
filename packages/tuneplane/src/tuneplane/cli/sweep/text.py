"""A sweep and its trials in words and tables."""

from __future__ import annotations

from typing import Any

from tuneplane.cli.job.show_text import age, phase_word, reason_text
from tuneplane.cli.text import clean, fields, table
from tuneplane.client.sweeps import Sweep, Trial
from tuneplane.i18n import _
from tuneplane.sweeps.space import as_text

_STATES = {
    "running": lambda: _("running"),
    "stopping": lambda: _("stopping"),
    "cancelling": lambda: _("cancelling"),
    "done": lambda: _("done"),
    "stopped": lambda: _("stopped"),
    "cancelled": lambda: _("cancelled"),
    "planned": lambda: _("planned"),
    "submitted": lambda: _("submitted"),
    "succeeded": lambda: _("succeeded"),
    "pruned": lambda: _("stopped early"),
    "failed": lambda: _("failed"),
}
OVER = ("done", "stopped", "cancelled")
ENDED = ("succeeded", "pruned", "failed", "cancelled")
MAX_REASON = 60


def state_word(state: str) -> str:
    """The state of a sweep or a trial in the reader's language; one that this client does not know stays as it is."""
    word = _STATES.get(state)
    return word() if word else state


def progress(sweep: Sweep) -> str:
    """`5 of 20 over, 4 running, best 0.31 (trial 3)`."""
    counts = sweep["counts"]
    over = sum(counts.get(state, 0) for state in ENDED)
    parts = [_("{over} of {total} trials over").format(over=over, total=sweep["total"])]
    if counts.get("submitted"):
        parts.append(_("{count} at work").format(count=counts["submitted"]))
    parts += [f"{counts[state]} {state_word(state)}" for state in ("failed", "pruned") if counts.get(state)]
    best = sweep.get("best")
    if best:
        where = "" if best.get("number") is None else _(" (trial {number})").format(number=best["number"])
        parts.append(_("best {value}{where}").format(value=number(best["value"]), where=where))
    return ", ".join(parts)


def head(sweep: Sweep) -> str:
    """What the sweep is and how far it has come."""
    objective, early = sweep.get("objective"), sweep.get("early_stopping")
    goals = {"min": _("less is better"), "max": _("more is better")}
    text = fields(
        [
            (_("sweep"), sweep["id"]),
            (_("name"), sweep.get("name")),
            (_("experiment"), f"@{sweep.get('owner', '?')}/{sweep['project']}/{sweep['experiment']}"),
            (_("method"), f"{sweep.get('recipe', '?')}, {sweep['method']}"),
            (_("state"), state_word(sweep["state"])),
            (_("trials"), progress(sweep)),
            (_("at once"), sweep.get("max_parallel")),
            (_("seed"), str(sweep.get("seed", "-"))),
            (_("objective"), objective and f"{objective['metric']}, {goals.get(objective['goal'], objective['goal'])}"),
            (_("early stopping"), early and _early(early)),
            (
                _("varies"),
                "; ".join(f"{name}: {axis_text(axis)}" for name, axis in (sweep.get("params") or {}).items()),
            ),
            (_("created"), age(sweep.get("created_at"))),
        ]
    )
    why = sweep.get("why")
    if why:
        text += f"\n{clean(why.get('text') or why['code'])}\n"
        text += f"  → {clean(why['hint'])}\n" if why.get("hint") else ""
    return text


def trial_table(sweep: Sweep, trials: list[Trial]) -> str:
    names = list(sweep.get("params") or {})
    objective = sweep.get("objective")
    headers = [
        _("TRIAL"),
        objective["metric"] if objective else _("VALUE"),
        _("STEP"),
        *names,
        _("STATE"),
        _("RUN"),
        "",
    ]
    rows = [
        (
            trial["number"],
            None if trial.get("value") is None else number(trial["value"]),
            trial.get("step"),
            *(_cell(trial["params"].get(name)) for name in names),
            _state(trial),
            trial.get("job_id"),
            _why(trial),
        )
        for trial in trials
    ]
    return table(headers, rows)


def sorted_trials(sweep: Sweep) -> list[Trial]:
    """The best first, those without a value last."""
    goal = (sweep.get("objective") or {}).get("goal")

    def key(trial: Trial) -> tuple[bool, float, int]:
        value = trial.get("value")
        plain = not isinstance(value, int | float) or isinstance(value, bool)
        return plain, 0.0 if plain else (-value if goal == "max" else value), trial["number"]

    return sorted(sweep.get("trials") or [], key=key)


def axis_text(axis: dict[str, Any]) -> str:
    """`1e-05, 2e-05`; `1e-06 … 0.0001 (log)`."""
    if axis.get("values") is not None:
        return ", ".join(as_text(value) for value in axis["values"])
    marks = [word for key, word in (("log", _("log")), ("integer", _("whole numbers"))) if axis.get(key)]
    return f"{axis['min']} … {axis['max']}" + (f" ({', '.join(marks)})" if marks else "")


def number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _early(early: dict[str, Any]) -> str:
    factor, steps = early.get("factor", 3), early["min_steps"]
    return _("the best 1/{factor} go on at step {first}, {second}, {third}, …").format(
        factor=factor, first=steps, second=steps * factor, third=steps * factor**2
    )


def _cell(value: Any) -> str:
    return as_text(value)


def _state(trial: Trial) -> str:
    phase = trial.get("phase")
    return phase_word(phase) if trial["state"] == "submitted" and phase else state_word(trial["state"])


def _why(trial: Trial) -> str:
    reason = trial.get("reason")
    return clean(reason_text(reason))[:MAX_REASON] if reason and trial["state"] == "failed" else ""
