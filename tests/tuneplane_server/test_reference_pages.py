"""The reference pages name everything there is, in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuneplane.contract.words import PHASES
from tuneplane_server.app import create_app
from tuneplane_server.domain.conditions import CONDITIONS
from tuneplane_server.domain.reasons import REASONS
from tuneplane_server.settings import Settings, load_settings, variable

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(params=["en", "zh-Hans"])
def pages(request: pytest.FixtureRequest) -> Path:
    return DOCS / request.param / "reference"


def test_every_setting_is_on_the_page_and_no_other(pages: Path) -> None:
    named = set(re.findall(r"`(TUNEPLANE_[A-Z0-9_]+)`", (pages / "settings.md").read_text(encoding="utf-8")))
    named -= {"TUNEPLANE_IMAGE_TRL"}  # an example
    assert named == {variable(field) for field in Settings.model_fields} - {"TUNEPLANE_IMAGES", "TUNEPLANE_ORIGINS"}


def test_the_defaults_on_the_page_are_the_settings(pages: Path) -> None:
    text = (pages / "settings.md").read_text(encoding="utf-8")
    for field in ("port", "session_hours", "image_pull_timeout", "package_max_mb", "start_timeout_seconds"):
        row = next(line for line in text.splitlines() if f"`{variable(field)}`" in line and line.startswith("|"))
        assert f"`{Settings.model_fields[field].default}`" in row


def test_every_reason_has_its_heading_where_its_anchor_leads(pages: Path) -> None:
    headings = re.findall(r"^### (\S+)$", (pages / "reasons.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(REASONS)


def test_every_route_phase_and_condition_is_on_the_page(pages: Path) -> None:
    text = (pages / "api.md").read_text(encoding="utf-8")
    for path in create_app(load_settings({})).openapi()["paths"]:
        if path.startswith("/ingest/"):
            continue
        last = (
            path.removeprefix("/api/v1")
            .replace("{token_id}", "{id}")
            .replace("{job_id}", "{id}")
            .replace("{sweep_id}", "{id}")
            .replace("{digest}", "{sha256}")
        )
        telemetry = re.fullmatch(
            r"/jobs/\{id\}/((?:metrics|samples)(?:/export)?|curves|logs|logs/raw|stream|artifacts|artifacts/file)", last
        )
        assert (f"`{telemetry[1]}`" if telemetry and telemetry[1] != "metrics" else last) in text, path
    for word in (*PHASES, *CONDITIONS):
        assert word in text, word
