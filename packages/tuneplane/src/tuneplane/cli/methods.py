"""`tp methods`: what the catalog offers, and one method with its parameters."""

from __future__ import annotations

import json
from typing import Any

import click

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import fields, table, wrap, write, write_json
from tuneplane.i18n import N_, _
from tuneplane.recipes.index import Entry, catalog_digest, config_keys, entry, load_index, prose

_WORDS = ("list", "show")
WIDTH = 100
# The groups that the manifests of the catalog sort parameters into; they are shown through gettext.
GROUPS = (
    N_("duration"),
    N_("evaluation"),
    N_("generation"),
    N_("lora"),
    N_("method"),
    N_("optimizer"),
    N_("precision"),
    N_("saving"),
    N_("sequence"),
)


@tp_command(
    "tp methods",
    "tp methods trl/grpo",
    "tp methods --framework trl --json",
    about=_("Without METHOD it lists all of them; with one, its parameters with types, bounds and what they mean."),
)
@click.argument("words", metavar="[METHOD]", nargs=-1)
@click.option("--framework", default=None, help=_("Only methods of this framework."))
@json_option
def command(words: tuple[str, ...], framework: str | None, as_json: bool) -> None:
    # `tp methods list` and `tp methods show trl/sft` say the same in more words.
    wanted = list(words[1:] if words and words[0] in _WORDS else words)
    if len(wanted) > 1:
        raise click.UsageError(_("name one method"))
    if words[:1] == ("show",) and not wanted:
        raise click.UsageError(_("name a method"))
    if wanted:
        _show(entry(wanted[0]), as_json)
    else:
        _list(framework, as_json)


def _list(framework: str | None, as_json: bool) -> None:
    found = [
        (name, item, prose(item))
        for name, item in sorted(load_index()["methods"].items())
        if framework is None or item["manifest"]["framework"] == framework
    ]
    if as_json:
        methods = [
            {
                "name": name,
                "version": item["manifest"]["version"],
                "title": words["title"],
                "summary": words["summary"],
                "framework": item["manifest"]["framework"],
                "framework_version": item["manifest"]["runtime"]["default_version"],
                "category": item["manifest"]["category"],
                "digest": item["digest"],
            }
            for name, item, words in found
        ]
        write_json({"catalog_digest": catalog_digest(), "items": methods})
        return
    rows = [
        (name, f"{item['manifest']['framework']} {item['manifest']['runtime']['default_version']}", words["title"])
        for name, item, words in found
    ]
    write(table([_("METHOD"), _("RUNTIME"), ""], rows))


def _show(item: Entry, as_json: bool) -> None:
    manifest, words = item["manifest"], prose(item)
    if as_json:
        write_json({**item, "title": words["title"], "summary": words["summary"], "param_docs": words["params"]})
        return
    versions = manifest["runtime"]["versions"]
    write(f"{manifest['name']} {manifest['version']}: {words['title']}\n{words['summary']}\n\n")
    write(
        fields(
            [
                (_("runtime"), ", ".join(f"{manifest['framework']} {version}" for version in versions)),
                (_("runs"), manifest["entrypoint"]["value"]),
                (_("roles"), ", ".join(manifest["roles"])),
                (_("main metric"), (manifest.get("metrics") or {}).get("primary")),
                (_("digest"), item["digest"]),
            ]
        )
    )
    groups: dict[str, list[str]] = {}
    for name, param in manifest["params"].items():
        groups.setdefault(param["group"], []).append(name)
    for group, names in groups.items():
        write(
            f"\n{_(group)}\n"
            + "".join(_param_text(name, manifest["params"][name], words["params"][name]) for name in names)
        )
    count = len(config_keys(item) or {})
    if count:
        text = _("config.yaml takes all {count} keys of {framework}; the ones above are the main ones")
        write("\n" + text.format(count=count, framework=manifest["framework"]) + "\n")


def _param_text(name: str, param: dict[str, Any], doc: str) -> str:
    """Name, type and default on one line, what it means below."""
    default = param.get("default")
    shown = json.dumps(default) if isinstance(default, bool) else str(default)
    head = f"  {name}: {_type(param)}" + ("" if default is None else ", " + _("default {value}").format(value=shown))
    lines = [head, *_wrapped(doc)]
    if param.get("choices"):
        lines += _wrapped(_("one of: {choices}").format(choices=", ".join(param["choices"])))
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return wrap(text, WIDTH, indent="      ")


def _type(param: dict[str, Any]) -> str:
    """`int ≥1`, `float >0 ≤1`, `choice`."""
    low, above, high = param.get("min"), param.get("exclusive_min"), param.get("max")
    text = _("choice") if param.get("choices") else str(param["type"])
    if above is not None:
        text += f" >{above:g}"
    elif low is not None:
        text += f" ≥{low:g}"
    return f"{text} ≤{high:g}" if high is not None else text
