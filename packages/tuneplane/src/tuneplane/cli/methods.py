"""`tp methods`: what the catalog offers, and one method with its parameters."""

from __future__ import annotations

import json
from typing import Any

import click

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import fields, wrap, write, write_json
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import N_, _
from tuneplane.recipes.index import (
    Entry,
    catalog_digest,
    config_keys,
    entry,
    load_index,
    nearest_hint,
    organisation_of,
    prose,
)

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
    "tp methods preference",
    "tp methods trl/grpo",
    "tp methods --framework trl --json",
    about=_(
        "Lists the methods by framework; with words, those whose name, title or summary has all of them. With one method,"
        " its parameters with types, bounds and what they mean."
    ),
)
@click.argument("words", metavar="[METHOD | WORD...]", nargs=-1)
@click.option("--framework", default=None, help=_("Only methods of this framework."))
@json_option
def command(words: tuple[str, ...], framework: str | None, as_json: bool) -> None:
    # `tp methods list` and `tp methods show trl/sft` say the same in more words.
    wanted = list(words[1:] if words and words[0] in _WORDS else words)
    if words[:1] == ("show",) and len(wanted) != 1:
        raise click.UsageError(_("name one method"))
    if words[:1] == ("show",) or (len(wanted) == 1 and "/" in wanted[0]):
        _show(entry(wanted[0]), as_json)
    else:
        _list(_found(wanted, framework), as_json)


def _found(words: list[str], framework: str | None) -> dict[str, Entry]:
    """The methods that have all the words, in any language. Raises `RefusedError` when there are none, with the nearest."""
    known = load_index()["methods"]
    frameworks = sorted({item["manifest"]["framework"] for item in known.values()})
    if framework is not None and framework not in frameworks:
        message = _("there is no framework “{name}”").format(name=framework[:80])
        hint = nearest_hint(framework, frameworks) or _("there are: {names}").format(names=", ".join(frameworks))
        raise RefusedError([Refusal("method-unknown", message, hint)])
    found = {
        name: item
        for name, item in sorted(known.items())
        if framework in (None, item["manifest"]["framework"])
        and all(word.casefold() in _text_of(item) for word in words)
    }
    if words and not found:
        message = _("no method has “{words}” in its name, title or summary").format(words=" ".join(words)[:80])
        hint = nearest_hint(words[0], list(known)) or _("tp methods lists what there is")
        raise RefusedError([Refusal("method-unknown", message, hint)])
    return found


def _text_of(item: Entry) -> str:
    """Everything a word may be found in."""
    manifest = item["manifest"]
    texts = [manifest, *manifest["i18n"].values()]
    parts = [manifest["name"], manifest["category"], *manifest["modalities"]]
    return " ".join([*parts, *(text[key] for text in texts for key in ("title", "summary"))]).casefold()


def _list(found: dict[str, Entry], as_json: bool) -> None:
    if as_json:
        write_json(
            {"catalog_digest": catalog_digest(), "items": [_as_json(name, item) for name, item in found.items()]}
        )
        return
    widest = max(map(len, found), default=0)
    group = ""
    for name, item in found.items():
        runtime = f"{item['manifest']['framework']} {item['manifest']['runtime']['default_version']}"
        if runtime != group:
            write(f"\n{runtime}\n" if group else f"{runtime}\n")
            group = runtime
        write(f"  {name:<{widest}}  {prose(item)['title']}\n")


def _as_json(name: str, item: Entry) -> dict[str, Any]:
    manifest, words = item["manifest"], prose(item)
    return {
        "name": name,
        "version": manifest["version"],
        "title": words["title"],
        "summary": words["summary"],
        "framework": manifest["framework"],
        "framework_version": manifest["runtime"]["default_version"],
        "category": manifest["category"],
        "digest": item["digest"],
        "origin": "built-in" if organisation_of(name) is None else "organisation",
    }


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
                (_("from"), organisation_of(manifest["name"])),
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
