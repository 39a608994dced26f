#!/usr/bin/env python3
"""The message catalogs (.po) of the three distributions: `update` them from the sources, `compile` them to .mo.

`update` adds new messages without a translation, keeps what is translated and drops what is no longer used. Both are run
by make (i18n-update, i18n); `extract` is also what tests/repo compares the catalogs with.
"""

from __future__ import annotations

import sys
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
LANGUAGE = "zh_Hans"
# Without the dates and names that tools like to put there: they would change with every run.
HEADER = """\
# Chinese (simplified) messages of {domain}. `make i18n-update` adds and removes messages; the words are written by hand.
msgid ""
msgstr ""
"Language: zh_Hans\\n"
"POT-Creation-Date: 2026-01-01 00:00+0000\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""
KEYWORDS = {"_": None, "gettext": None, "N_": None, "ngettext": (1, 2)}
# distribution -> its sources and the folder of its catalogs
DOMAINS = {
    "tuneplane": (ROOT / "packages/tuneplane/src/tuneplane", "locale"),
    "tuneplane_node": (ROOT / "packages/tuneplane-node/src/tuneplane_node", "locale"),
    "tuneplane_server": (ROOT / "packages/tuneplane-server/src/tuneplane_server", "console/translations"),
}


def catalog_path(domain: str) -> Path:
    base, folder = DOMAINS[domain]
    return base / folder / LANGUAGE / "LC_MESSAGES" / f"{domain}.po"


def extract(domain: str) -> Catalog:
    """Every message in the sources of a distribution, with the files that use it."""
    base = DOMAINS[domain][0]
    with (ROOT / "babel.cfg").open(encoding="utf-8") as mapping:
        methods, options = parse_mapping_cfg(mapping)
    catalog = Catalog(project=domain, charset="utf-8")
    for name, line, message, _comments, context in extract_from_dir(
        base, method_map=methods, options_map=options, keywords=KEYWORDS
    ):
        # Only the file: line numbers would change with every edit of the source.
        catalog.add(message, None, [(name, line)], context=context)
    return catalog


def load(path: Path) -> Catalog:
    with path.open("rb") as source:
        return read_po(source, locale=LANGUAGE, abort_invalid=True)


def update(domain: str) -> str:
    path, found = catalog_path(domain), extract(domain)
    if not path.exists() and not len(found):
        return f"{domain}: no messages"
    catalog = load(path) if path.exists() else Catalog(locale=LANGUAGE, project=domain, charset="utf-8")
    catalog.update(found, no_fuzzy_matching=True)
    catalog.obsolete.clear()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".po.part")
    with partial.open("wb") as target:
        target.write(HEADER.format(domain=domain).encode())
        write_po(target, catalog, width=120, sort_output=True, include_lineno=False, omit_header=True)
    partial.replace(path)
    missing = sum(1 for message in load(path) if message.id and not is_translated(message))
    return f"{domain}: {len(catalog)} messages, {missing} without a translation"


def compile_all() -> None:
    for domain in DOMAINS:
        path = catalog_path(domain)
        if path.exists():
            partial = path.with_suffix(".mo.part")
            with partial.open("wb") as target:
                write_mo(target, load(path))
            partial.replace(path.with_suffix(".mo"))


def is_translated(message: Message) -> bool:
    """Every form has words, and nobody marked them as uncertain."""
    forms = [message.string] if isinstance(message.string, str) else list(message.string or [""])
    return all(forms) and not message.fuzzy


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["update"]:
        for domain in arguments[1:] or DOMAINS:
            print(f"translations: {update(domain)}", file=sys.stderr)
    elif arguments != ["compile"]:
        print("usage: translations.py compile | update [DISTRIBUTION…]", file=sys.stderr)
        return 2
    compile_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
