"""Takes the values of secrets out of everything that is about to be recorded: output, metrics' names, samples, events.

What is looked for: the ingest token, the secrets that the job names, and variables whose own names say that they are secret
(`HF_TOKEN`, `WANDB_API_KEY`), as they are and as they look in base64, in a URL and in JSON. Files of the out dir are the
trainer's own and are left alone.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple
from urllib.parse import quote

from tuneplane.contract.words import ENV_INGEST_TOKEN, ENV_USER_PREFIX
from tuneplane.runner import limits
from tuneplane.runner.output import Chunk

_SAYS_SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)\Z", re.I
)
# Tokens of a vocabulary: `<|endoftext|>` is in every sample.
_SAYS_NO_SECRET = re.compile(
    r"(^|_)(BOS|EOS|EOT|PAD|UNK|SEP|CLS|MASK|START|STOP|END|IMAGE|VIDEO|AUDIO|SPECIAL)_TOKEN\Z", re.I
)
_CUT = "…"  # tuneplane.report cuts long texts with it, perhaps in the middle of a secret
_HOLD_SECONDS = 5.0  # how long what may be the beginning of a secret waits for the rest


class Redactor:
    """`too_short`: names of secrets that are left in, because so few characters stand in too much that is no secret."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.too_short = sorted(name for name, value in secrets.items() if len(value.strip()) < limits.SECRET_LEAST)
        found: Dict[str, str] = {}
        for name, value in secrets.items():
            for form in forms_of(value.strip()) if len(value.strip()) >= limits.SECRET_LEAST else ():
                found.setdefault(form, f"[redacted:{name}]")
        # The longest first: a shorter form may be part of it.
        self._forms = sorted(found.items(), key=lambda item: (-len(item[0]), item[0]))
        self._raw = [
            (form.encode("utf-8", "surrogateescape"), mark.encode("utf-8", "replace")) for form, mark in self._forms
        ]

    def raw(self, data: bytes) -> bytes:
        for form, mark in self._raw:
            if form in data:
                data = data.replace(form, mark)
        return data

    def text(self, text: str) -> str:
        for form, mark in self._forms:
            if form in text:
                text = text.replace(form, mark)
        if text.endswith(_CUT):
            begun = self._begun(text[:-1])
            if begun:
                text = text[: -1 - begun] + "[redacted]" + _CUT
        return text

    def json(self, value: Any) -> Any:
        """The same JSON value with every text in it redacted, keys too."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.json(item) for item in value]
        return value

    def ends_in(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret that goes on in the next read."""
        most = 0
        for form, _ in self._raw:
            start = max(0, len(data) - len(form) + 1)
            at = data.find(form[:1], start)
            while at >= 0 and len(data) - at > most:
                if form.startswith(data[at:]):
                    most = len(data) - at
                    break
                at = data.find(form[:1], at + 1)
        return most

    def lies_over(self, data: bytes, border: int) -> bool:
        """Whether a secret begins before `border` and ends behind it."""
        return any(form in data[max(0, border - len(form) + 1) : border + len(form) - 1] for form, _ in self._raw)

    def _begun(self, text: str) -> int:
        most = 0
        for form, _ in self._forms:
            for length in range(min(len(form) - 1, len(text)), max(most, limits.SECRET_LEAST - 1), -1):
                if text.endswith(form[:length]):
                    most = length
                    break
        return most


class RedactedChunks:
    """Redacts the reads of each output stream, over the borders between them."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: Dict[str, Chunk] = {}

    def feed(self, chunks: Sequence[Chunk]) -> List[Chunk]:
        """The same chunks without secrets; an end that may begin one is held back for the next read of its stream."""
        redacted: List[Chunk] = []
        for chunk in chunks:
            held = self._held.pop(chunk.fd, None)
            data = held.data + chunk.data if held else chunk.data
            # Held as it is: a secret at the end that is the beginning of a longer one is not decided yet.
            rest = self._redactor.ends_in(data)
            if rest and self._redactor.lies_over(data, len(data) - rest):
                data = self._redactor.raw(data)
                rest = self._redactor.ends_in(data)
            if rest:
                self._held[chunk.fd] = chunk._replace(data=data[-rest:])
                data = data[:-rest]
            data = self._redactor.raw(data)
            if data:
                redacted.append(chunk._replace(data=data))
        return redacted

    def release(self, now: float, all_of_it: bool = False) -> List[Chunk]:
        """What was held back so long that nothing follows it."""
        due = [chunk for chunk in self._held.values() if all_of_it or now - chunk.time > _HOLD_SECONDS]
        for chunk in due:
            del self._held[chunk.fd]
        return [chunk._replace(data=self._redactor.raw(chunk.data)) for chunk in due]


def redacted_chunks(redactor: Redactor, chunks: Sequence[Chunk]) -> List[Chunk]:
    """All of an output, which nothing follows, without secrets."""
    redacted = RedactedChunks(redactor)
    return redacted.feed(chunks) + redacted.release(0.0, all_of_it=True)


def secrets_of(environ: Mapping[str, str], named: Sequence[str]) -> Dict[str, str]:
    """Name -> value of what must not be recorded. `named`: the job's own secrets, whatever they are called."""
    wanted: Set[str] = {ENV_INGEST_TOKEN, *named}
    secrets: Dict[str, str] = {}
    # The user's first: it is the one the trainer sees. The image's own of the same name is secret all the same.
    for name, value in sorted(environ.items(), key=lambda item: not item[0].startswith(ENV_USER_PREFIX)):
        plain = name[len(ENV_USER_PREFIX) :] if name.startswith(ENV_USER_PREFIX) else name
        says = _SAYS_SECRET.search(plain) and not _SAYS_NO_SECRET.search(plain)
        if value and (plain in wanted or says):
            secrets[plain if secrets.get(plain, value) == value else f"{plain} (image)"] = value
    return secrets


def forms_of(value: str) -> Tuple[str, ...]:
    """How a value may look in output: itself, in a URL, in JSON, and in base64 wherever it begins in what is encoded."""
    raw = value.encode("utf-8", "surrogateescape")
    forms = {
        value,
        quote(raw, safe=""),
        quote(raw),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    for shift in range(3):
        # Of `shift` unknown bytes before and the unknown rest behind, only the middle is the secret's alone.
        encoded = base64.b64encode(b"\0" * shift + raw).rstrip(b"=").decode("ascii")
        middle = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        if len(middle) >= limits.ENCODED_LEAST:
            forms.update((middle, middle.replace("+", "-").replace("/", "_")))
    return tuple(sorted(forms))
