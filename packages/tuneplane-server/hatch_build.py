"""Compile the message catalogs (.po) into the .mo files that gettext reads, whenever the package is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileTranslations(BuildHookInterface[Any]):
    """The .mo files are not kept in git; a wheel or an editable install gets them from here."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for po in sorted(Path(self.root, "src").rglob("*.po")):
            with po.open("rb") as source:
                catalog = read_po(source, locale=po.parent.parent.name)
            with po.with_suffix(".mo").open("wb") as target:
                write_mo(target, catalog)
