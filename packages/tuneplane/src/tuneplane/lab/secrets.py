"""Files that must not leave the laptop: known by their name, or by what stands in them.

A line that only looks like a secret can say so with `tuneplane:allow-secret` on it. What was found is never printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from tuneplane.i18n import N_, _

ALLOW_MARK = b"tuneplane:allow-secret"

_NAMES = (
    ".env", ".env.*", ".envrc", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg",
    ".s3cfg", ".boto", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "*.pem", "*.key", "*.p12",
    "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg", "*.asc", "credentials", "credentials.json", "credentials.yaml",
    "credentials.yml", "credentials.toml", "credentials.ini", "client_secret*.json", "service-account*.json",
    "service_account*.json", "secrets.json", "secrets.yaml", "secrets.yml", "secrets.toml", "secrets.env", "*.secret", "kubeconfig",
    "*.kubeconfig", ".vault-token",
)  # fmt: skip
_HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist")
_DIRECTORIES = {".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker"}


class _Pattern(NamedTuple):
    what: str
    literal: bytes  # searched first: finding it is a hundred times cheaper than running the expression
    expression: re.Pattern[bytes]


def _token(what: str, literal: bytes, expression: bytes) -> _Pattern:
    return _Pattern(what, literal, re.compile(rb"(?<![A-Za-z0-9_])" + expression))


_PATTERNS = (
    _Pattern(
        N_("a private key"), b"PRIVATE KEY", re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
    ),
    _token(N_("a Hugging Face token"), b"hf_", rb"hf_([A-Za-z0-9]{34,40})(?![A-Za-z0-9_])"),
    _token(N_("an AWS access key"), b"AKIA", rb"AKIA([0-9A-Z]{16})(?![A-Za-z0-9_])"),
    _token(N_("an AWS access key"), b"ASIA", rb"ASIA([0-9A-Z]{16})(?![A-Za-z0-9_])"),
    _token(N_("a GitHub token"), b"gh", rb"gh[pousr]_([A-Za-z0-9]{36,255})(?![A-Za-z0-9_])"),
    _token(N_("a GitHub token"), b"github_pat_", rb"github_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59})"),
    _token(N_("a GitLab token"), b"glpat-", rb"glpat-([A-Za-z0-9_-]{20,})"),
    _token(
        N_("an API key"), b"sk-", rb"sk-(?:proj-|ant-|or-|svcacct-|admin-)?((?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{24,})"
    ),
    _token(N_("a Slack token"), b"xox", rb"xox[abposr]-([A-Za-z0-9-]{20,})"),
    _token(N_("a Google API key"), b"AIza", rb"AIza([0-9A-Za-z_-]{35})(?![A-Za-z0-9_-])"),
    _token(N_("an npm token"), b"npm_", rb"npm_([A-Za-z0-9]{36})(?![A-Za-z0-9_])"),
    _token(N_("a PyPI token"), b"pypi-", rb"pypi-(AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,})"),
    _token(
        N_("a TunePlane token"),
        b"tp_",
        rb"tp_((?=[A-Za-z_-]*[0-9])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])",
    ),
)

OVERLAP = 512  # longest secret that may be split over two chunks


def secret_by_name(name: str) -> bool:
    """Whether a file with this last part of its path is taken for a secret."""
    lower = name.lower()
    return lower not in _HARMLESS_NAMES and any(fnmatchcase(lower, pattern) for pattern in _NAMES)


def secret_directory(name: str) -> bool:
    """Whether a directory of this name holds credentials of some tool."""
    return name in _DIRECTORIES


@dataclass(frozen=True)
class Finding:
    """`what` in the reader's language, `line` 1-based."""

    what: str
    line: int


class SecretScanner:
    """Looks through one file, fed chunk by chunk and closed; `findings` holds at most one finding a line and kind."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._tail = b""
        self._lines = 0  # newlines before `_tail`

    def feed(self, chunk: bytes) -> None:
        window = self._tail + chunk
        self._search(window, max(0, len(window) - OVERLAP))
        kept = window[-OVERLAP:]
        self._lines += window.count(b"\n", 0, len(window) - len(kept))
        self._tail = kept

    def close(self) -> None:
        self._search(self._tail, len(self._tail) + 1)

    def _search(self, window: bytes, until: int) -> None:
        """Matches that start before `until`; a later one may go on in the next chunk and is found then, whole."""
        for pattern in _PATTERNS:
            if pattern.literal not in window:
                continue
            for match in pattern.expression.finditer(window):
                if match.start() >= until:
                    break
                if not (pattern.expression.groups and _is_placeholder(match.group(1))):
                    self._keep(pattern.what, window, match)

    def _keep(self, what: str, window: bytes, match: re.Match[bytes]) -> None:
        start = window.rfind(b"\n", 0, match.start()) + 1
        end = window.find(b"\n", match.end())
        if ALLOW_MARK in window[start : end if end >= 0 else len(window)]:
            return
        finding = Finding(_(what), self._lines + window.count(b"\n", 0, match.start()) + 1)
        if finding not in self.findings:
            self.findings.append(finding)


def _is_placeholder(body: bytes) -> bool:
    """`hf_xxxxxxxx…` in a README is an example: a real token does not repeat a handful of characters."""
    return len(set(body)) < 8
