"""Reads and checks the runtime registry file: every mistake at once, each with its line, what is wrong and what to write."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.yamlfile import Document, parse_yaml
from tuneplane.quoted_words import system_words
from tuneplane.recipes.index import nearest
from tuneplane_server.features.runtimes.entries import (
    ARCHITECTURES,
    FILE_ENDINGS,
    FORMS,
    ImageForm,
    RegisteredImage,
    RegisteredRuntime,
    Registry,
    architecture_of,
    form_of,
)

MAX_BYTES = 4 * 1024 * 1024
MAX_RUNTIMES = 2000
MAX_CAPABILITIES = 32
MAX_SHOWN = 20  # refusals; a file of another kind has thousands of mistakes
_CODE = "runtime-registry"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_CAPABILITY = re.compile(r"[a-z0-9][a-z0-9._+-]{0,31}", re.ASCII)
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.ASCII)
_MAX_TEXT = 512


def read_bytes(file: Path) -> bytes:
    """The file as it is. Raises `RefusedError`."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        why = _("cannot be read: {why}").format(why=system_words(error))
        hint = _("TUNEPLANE_RUNTIME_REGISTRY_FILE names it: put the file there, or unset the variable")
        raise RefusedError([Refusal(_CODE, why, hint, file=str(file))]) from None
    if len(data) > MAX_BYTES:
        why = _("is larger than {limit} MB").format(limit=MAX_BYTES // 1024 // 1024)
        raise RefusedError([Refusal(_CODE, why, file=str(file))])
    return data


def parse_registry(data: bytes, file: Path) -> Registry:
    """YAML or JSON, `runtimes:` runtime id -> a text, or form -> a text or `{image|path, digest, architecture, capabilities}`.

    Raises `RefusedError` with every mistake, at most `MAX_SHOWN` of them.
    """
    try:
        document = parse_yaml(data, file)
    except RefusedError as error:
        raise RefusedError([_as_ours(refusal) for refusal in error.refusals[:MAX_SHOWN]]) from None
    found = _Reading(document).runtimes()
    if found.refusals:
        raise RefusedError(found.refusals[:MAX_SHOWN])
    return Registry(found.read, hashlib.sha256(data).hexdigest())


def _as_ours(refusal: Refusal) -> Refusal:
    return Refusal(_CODE, refusal.message, refusal.hint, refusal.field, refusal.file, refusal.line)


class _Reading:
    """One pass over a document; `read` is what is sound, `refusals` what is not."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.read: dict[str, RegisteredRuntime] = {}
        self.refusals: list[Refusal] = []

    def runtimes(self) -> _Reading:
        content = self._document.value
        example = _("write: runtimes: {example}").format(example="{trl-1.16: {oci: registry.example.org/trl:1.16}}")
        if not isinstance(content, dict) or not isinstance(content.get("runtimes"), dict):
            self._refuse("runtimes", _("it has no mapping “runtimes”"), example)
            return self
        self._unknown(content, ("runtimes",), "")
        entries = content["runtimes"]
        if len(entries) > MAX_RUNTIMES:
            message = _("it lists {count} runtimes, and at most {limit} are read").format(
                count=len(entries), limit=MAX_RUNTIMES
            )
            self._refuse("runtimes", message)
            return self
        for runtime_id, entry in entries.items():
            at = f"runtimes.{runtime_id}"
            if not _ID.fullmatch(runtime_id):
                message = _("“{name}” cannot be a runtime id").format(name=runtime_id[:80])
                self._refuse(at, message, _("letters, digits and . _ - , at most 64, as the recipes name it"))
                continue
            self.read[runtime_id] = self._runtime(runtime_id, entry, at)
        self._twice()
        return self

    def _runtime(self, runtime_id: str, entry: Any, at: str) -> RegisteredRuntime:
        if isinstance(entry, str):
            only = self._image(form_of(entry), entry, at)
            return RegisteredRuntime(runtime_id, {only.form: only} if only else {}, self._line(at), plain=True)
        if not isinstance(entry, dict) or not entry:
            message = _("the runtime {runtime_id} needs a text, or a mapping of forms").format(runtime_id=runtime_id)
            self._refuse(at, message, _("forms: {forms}").format(forms=", ".join(FORMS)))
            return RegisteredRuntime(runtime_id, {}, self._line(at))
        self._unknown(entry, FORMS, at)
        found = [self._image(form, entry[form], f"{at}.{form}") for form in FORMS if form in entry]
        return RegisteredRuntime(runtime_id, {image.form: image for image in found if image}, self._line(at))

    def _image(self, form: ImageForm, value: Any, at: str) -> RegisteredImage | None:
        key = "image" if form == "oci" else "path"
        if isinstance(value, str):
            value = {key: value}
        if not isinstance(value, dict):
            self._refuse(at, _("{form} needs a text or a mapping with {key}").format(form=form, key=key))
            return None
        before = len(self.refusals)
        self._unknown(value, ("path", "image", "digest", "architecture", "capabilities"), at)
        if "path" in value and "image" in value:
            self._refuse(at, _("path and image mean the same"), _("keep one of them"))
        image = self._place(form, value.get("path", value.get("image")), key, at)
        digest = self._digest(value, at)
        if image is not None and form == "oci":
            image, digest = self._pinned(image, digest, at)
        made = RegisteredImage(
            form, image or "", digest, self._architecture(value, at), self._capabilities(value, at), self._line(at)
        )
        return made if len(self.refusals) == before else None

    def _place(self, form: ImageForm, image: Any, key: str, at: str) -> str | None:
        if not isinstance(image, str) or not image:
            self._refuse(at, _("{form} has no {key}").format(form=form, key=key), _("write {key}: …").format(key=key))
            return None
        fault = self._oci_fault(image) if form == "oci" else self._path_fault(form, image)
        if fault is None:
            return image
        self._refuse(at, *fault)
        return None

    def _oci_fault(self, image: str) -> tuple[str, str] | None:
        if _unprintable(image) or image.startswith("-"):
            return _("{image} is no image reference").format(image=ascii(image)), _("write name:tag or name@sha256:…")
        if image.startswith("/"):
            return (
                _("oci names a path, {image}").format(image=image),
                _("an OCI image is a reference, name:tag or name@sha256:…; a file goes under sif or sqsh"),
            )
        if "@" not in image and ":" not in image.rsplit("/", 1)[-1]:
            return (
                _("the image {image} has neither a tag nor a digest").format(image=image),
                _("write {image}:1.0, or with the digest {image}@sha256:…").format(image=image),
            )
        return None

    def _path_fault(self, form: ImageForm, path: str) -> tuple[str, str] | None:
        if not path.startswith("/"):
            return (
                _("{form} names {path}, which is no absolute path").format(form=form, path=path),
                _("write the path as the machines of the jobs see it, from / on"),
            )
        if _unprintable(path) or posixpath.normpath(path) != path or path == "/" or path.startswith("//"):
            return _("{path} is no plain path").format(path=ascii(path)), _(
                "without “..”, “//”, spaces or a slash at its end"
            )
        endings = FILE_ENDINGS.get(form)
        if endings is not None and not path.endswith(endings):
            return (
                _("{form} names {path}, which does not end in {endings}").format(
                    form=form, path=path, endings=", ".join(endings)
                ),
                _("name the image file itself, not its directory"),
            )
        return None

    def _digest(self, value: Mapping[str, Any], at: str) -> str | None:
        given = value.get("digest")
        if given is None:
            return None
        match = _DIGEST.fullmatch(given) if isinstance(given, str) else None
        if match is None:
            message = _("the digest {digest} is no SHA-256").format(digest=ascii(str(given)[:80]))
            self._refuse(
                f"{at}.digest", message, _("write sha256: and 64 hexadecimal digits, as sha256sum prints them")
            )
            return None
        return match[1]

    def _pinned(self, image: str, digest: str | None, at: str) -> tuple[str, str | None]:
        """A reference with a digest beside it is pulled by that digest, without its tag: not every engine takes both."""
        name, mark, own = image.partition("@")
        match = _DIGEST.fullmatch(own) if mark else None
        if mark and match is None:
            message = _("{image} is pinned by a digest that is no SHA-256").format(image=image)
            self._refuse(at, message, _("write name@sha256: and 64 hexadecimal digits"))
        elif match is not None and digest is not None and match[1] != digest:
            message = _("{image} and the digest beside it name different images").format(image=image)
            self._refuse(f"{at}.digest", message, _("keep the one that is right"))
        elif match is None and digest is not None:
            path, slash, last = name.rpartition("/")
            return f"{path}{slash}{last.partition(':')[0]}@sha256:{digest}", digest
        return image, match[1] if match else digest

    def _architecture(self, value: Mapping[str, Any], at: str) -> str | None:
        given = value.get("architecture")
        if given is None:
            return None
        found = architecture_of(given) if isinstance(given, str) else None
        if found is None:
            message = _("the architecture {name} is not known").format(name=ascii(str(given)[:40]))
            self._refuse(f"{at}.architecture", message, _("one of: {names}").format(names=", ".join(ARCHITECTURES)))
        return found

    def _capabilities(self, value: Mapping[str, Any], at: str) -> tuple[str, ...]:
        given = value.get("capabilities")
        if given is None:
            return ()
        if not isinstance(given, list) or len(given) > MAX_CAPABILITIES:
            message = _("capabilities is a list of at most {limit} words").format(limit=MAX_CAPABILITIES)
            self._refuse(f"{at}.capabilities", message, _("for example [fp8, flash-attention]"))
            return ()
        for index, word in enumerate(given):
            if not isinstance(word, str) or not _CAPABILITY.fullmatch(word):
                message = _("the capability {word} is no plain word").format(word=ascii(str(word)[:40]))
                self._refuse(f"{at}.capabilities[{index}]", message, _("small letters, digits and . _ + -"))
            elif word in given[:index]:
                self._refuse(f"{at}.capabilities[{index}]", _("{word} stands twice").format(word=word))
        return tuple(str(word) for word in given)

    def _twice(self) -> None:
        """Two ids that differ only in case are one that was misspelt: recipes name it in one way."""
        seen: dict[str, RegisteredRuntime] = {}
        for runtime in self.read.values():
            first = seen.setdefault(runtime.runtime_id.lower(), runtime)
            if first is not runtime:
                message = _("{other} and {runtime_id} differ only in capital letters, first in line {line}").format(
                    other=first.runtime_id, runtime_id=runtime.runtime_id, line=first.line
                )
                self._refuse(f"runtimes.{runtime.runtime_id}", message, _("keep the one that the recipes name"))

    def _unknown(self, entry: Mapping[str, Any], known: tuple[str, ...], at: str) -> None:
        for key in entry:
            if key not in known:
                close = nearest(key, list(known))
                hint = _("did you mean “{name}”?").format(name=close) if close else ""
                hint = hint or _("known are: {names}").format(names=", ".join(known))
                self._refuse(f"{at}.{key}" if at else key, _("unknown key “{key}”").format(key=key[:80]), hint)

    def _line(self, at: str) -> int:
        """Of the key, or of the nearest one around it that the file has."""
        lines = self._document.lines
        while at and at not in lines:
            at = at.rpartition("[" if at.endswith("]") else ".")[0]
        return lines.get(at, 0)

    def _refuse(self, at: str, message: str, hint: str = "") -> None:
        self.refusals.append(Refusal(_CODE, message, hint, at, str(self._document.path), self._line(at)))


def _unprintable(text: str) -> bool:
    return len(text) > _MAX_TEXT or not text.isprintable() or any(letter.isspace() for letter in text)
