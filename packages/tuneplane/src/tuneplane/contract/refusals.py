"""A refusal: one thing wrong with what the user gave, said once, with what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# code -> the CLI's exit code class is always 3 (refused); these are the stable codes of both sides.
REFUSAL_CODES = frozenset(
    {
        # lab and files
        "lab-not-found", "lab-invalid", "experiment-not-found", "experiment-exists", "name-invalid", "file-missing",
        "yaml-invalid", "config-invalid", "config-cycle", "package-too-large", "package-secret", "package-link", "package-mismatch",
        # recipe and lock
        "method-unknown", "lock-missing", "lock-invalid", "lock-tampered", "lock-stale", "lock-runtime-changed", "lock-foreign",
        "runtime-removed", "catalog-mismatch", "recipe-invalid", "recipe-clash",
        # parameters
        "param-unknown", "param-type", "param-range", "param-choice", "param-required", "key-platform-owned", "number-not-finite",
        # JobSpec
        "spec-invalid", "spec-unknown-field", "project-foreign", "profile-unknown", "profile-invalid", "pool-impossible",
        "pool-heterogeneous", "roles-invalid", "runtime-unresolved", "runtime-form", "runtime-registry", "observability-url", "ingest-url", "data-missing",
        "model-missing", "env-reserved", "secret-missing", "sandbox-missing", "quota", "limit-invalid", "package-missing",
        # quotas and policies
        "quota-never-fits", "quota-exceeded", "duration-needed", "duration-over-limit", "priority-over-limit",
        "profile-not-allowed", "image-not-allowed", "quota-invalid", "quota-contradictory", "policy-invalid",
        "policy-contradictory", "user-needed", "version-missing",
        # going on from a checkpoint
        "checkpoint-missing", "checkpoint-incomplete", "export-impossible",
        # sweeps
        "sweep-invalid", "sweep-too-large",
        # evaluations
        "evaluation-unreadable",
        # accounts and requests
        "not-signed-in", "forbidden", "not-found", "conflict", "idempotency-conflict", "too-many-requests", "setup-needed",
        "token-invalid", "password-weak", "not-yet", "request-invalid",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Refusal:
    """What is wrong (`message`), where (`field`, a JSON path; `file` and 1-based `line` when it is in a file), what to do (`hint`).

    `code` is stable and language-free; `message` and `hint` are already in the reader's language.
    """

    code: str
    message: str
    hint: str = ""
    field: str = ""
    file: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        if self.code not in REFUSAL_CODES:
            raise ValueError(f"unknown refusal code {self.code!r}")

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value or key in ("code", "message")}

    def where(self) -> str:
        """`file:line` or the field, empty when neither is known."""
        if self.file:
            return f"{self.file}:{self.line}" if self.line else self.file
        return self.field


class RefusedError(Exception):
    """Raised at an edge with every refusal found, never only the first."""

    def __init__(self, refusals: list[Refusal]) -> None:
        if not refusals:
            raise ValueError("a refusal needs at least one reason")
        self.refusals = refusals
        super().__init__("; ".join(refusal.message for refusal in refusals))
