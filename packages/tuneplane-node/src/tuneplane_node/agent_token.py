"""The one secret that console and nodes share, from a variable or from a file that is read anew when it has changed."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tuneplane.i18n import _
from tuneplane_node.engine.problems import NodeError

TOKEN_VARIABLE, FILE_VARIABLE = "TUNEPLANE_AGENT_TOKEN", "TUNEPLANE_AGENT_TOKEN_FILE"
SHORTEST, LONGEST = 16, 1024
_LOG = logging.getLogger("tuneplane_node")


class AgentToken:
    """`text` or `file`, exactly one of them. Raises NodeError agent-token-missing, -invalid or -unreadable when made.

    Calling it gives the token that is valid now. A file that has become unreadable or wrong is told in the log, once, and the
    token before stays valid: an exchange that was half done must not cut off running jobs.
    """

    def __init__(self, text: str = "", file: Path | None = None) -> None:
        if text and file is not None:
            why = _("{other} is set as well; keep one of them").format(other=FILE_VARIABLE)
            raise NodeError("agent-token-invalid", setting=TOKEN_VARIABLE, why=why)
        if not text and file is None:
            raise NodeError("agent-token-missing")
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._told = ""
        if file is None:
            self._token = _checked(text, TOKEN_VARIABLE)
        else:
            self._seen, self._token = _fingerprint(file), _read(file)

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None) -> Self:
        source = os.environ if env is None else env
        file = source.get(FILE_VARIABLE, "")
        return cls(source.get(TOKEN_VARIABLE, ""), Path(file).expanduser().absolute() if file else None)

    def __call__(self) -> str:
        if self._file is None:
            return self._token
        try:
            seen = _fingerprint(self._file)
            if seen != self._seen:
                self._token, self._seen = _read(self._file), seen
                _LOG.info(_("The token was read anew from {path}.").format(path=self._file))
            self._told = ""
        except NodeError as problem:
            if str(problem) != self._told:
                self._told = str(problem)
                text = _("{problem} The token before stays valid.").format(problem=problem.text())
                _LOG.warning("%s %s", text, problem.detail)
        return self._token

    def __repr__(self) -> str:
        return f"AgentToken({self._file or TOKEN_VARIABLE})"


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(2 * LONGEST)
    except OSError as problem:
        raise NodeError("agent-token-unreadable", str(problem), path=file) from problem
    return _checked(content.decode("utf-8", "replace").rstrip(), FILE_VARIABLE)


def _fingerprint(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError as problem:
        raise NodeError("agent-token-unreadable", str(problem), path=file) from problem
    return found.st_mtime_ns, found.st_size, found.st_ino


def _checked(text: str, setting: str) -> str:
    why = ""
    if not text.strip():
        why = _("it is empty")
    elif "\n" in text or "\r" in text:
        why = _("it holds a line break")
    elif not all("!" <= letter <= "~" for letter in text):
        why = _("it holds a space, or letters that are not ASCII")
    elif len(text) < SHORTEST:
        why = _("it has {count} characters").format(count=len(text))
    elif len(text) > LONGEST:
        why = _("it has more than {count} characters").format(count=LONGEST)
    if why:
        raise NodeError("agent-token-invalid", setting=setting, why=why)
    return text
