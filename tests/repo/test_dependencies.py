"""Dependencies: few, explained, pinned with hashes, and the pins fit what the packages ask for."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.services.session import ROOT

OURS = {"tuneplane", "tuneplane-node", "tuneplane-server"}
LOCKS = {
    "dev-3.14": ["tuneplane", "tuneplane-node", "tuneplane-server"],
    "client-3.12": ["tuneplane", "tuneplane-node"],
    "runner-3.9": [],
    "uv": [],
}
# Found by name by uvicorn, FastAPI and SQLAlchemy, or run as a program: no import of ours says that they are used.
NEVER_IMPORTED = {"aiosqlite", "httptools", "pex", "psycopg", "python-multipart", "uvloop"}
# The retries of what is asked over a network.
NOT_YET_IMPORTED = {
    "tuneplane-server": {"stamina"},
}


@cache
def asked_by(package: str) -> tuple[Requirement, ...]:
    project = tomllib.loads((ROOT / f"packages/{package}/pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    return tuple(Requirement(line) for line in lines)


def initial(package: str) -> str:
    """The top module of a distribution: the version stands there too, because reading package metadata is slow."""
    return (ROOT / f"packages/{package}/src/{package.replace('-', '_')}/__init__.py").read_text()


def listed_in(name: str) -> list[Requirement]:
    lines = (ROOT / f"requirements/{name}.in").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


def pins(name: str) -> dict[str, Version]:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    return {
        canonicalize_name(package): Version(version)
        for package, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.MULTILINE)
    }


def locks() -> list[str]:
    """All but the training runtime, in which a machine may use its own build of torch."""
    return sorted(path.stem for path in (ROOT / "requirements").glob("*.txt") if not path.stem.startswith("runtime-"))


@pytest.mark.parametrize("name", locks())
def test_every_pin_carries_hashes(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    entries = re.findall(r"^[A-Za-z0-9].*?(?=^[A-Za-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(entries) >= 1
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_has_what_is_asked_for(name: str) -> None:
    locked = pins(name)
    asked = [*listed_in(name), *(need for package in LOCKS[name] for need in asked_by(package))]
    unmet = [
        str(need)
        for need in asked
        if need.name not in OURS
        and not (
            (version := locked.get(canonicalize_name(need.name))) and need.specifier.contains(version, prereleases=True)
        )
    ]
    assert unmet == [], "run make lock"


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs/development/dependencies.md").read_text(encoding="utf-8")
    explained = {canonicalize_name(name) for name in re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)}
    used = {canonicalize_name(need.name) for package in OURS for need in asked_by(package)}
    used |= {canonicalize_name(need.name) for name in LOCKS for need in listed_in(name)}
    assert sorted(used - explained - OURS) == [], "add a line with the reason"
    assert sorted(explained - used) == [], "explained, but no longer used"


@pytest.mark.parametrize("package", sorted(OURS))
def test_every_dependency_is_used(package: str) -> None:
    modules: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(canonicalize_name(distribution), set()).add(module)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / f"packages/{package}").rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", sources, re.MULTILINE))
    asked = {canonicalize_name(need.name) for need in asked_by(package)} - OURS - NEVER_IMPORTED
    unused = {name for name in asked if not modules.get(name, set()) & imported}
    assert unused == NOT_YET_IMPORTED.get(package, set())


def test_the_three_distributions_have_one_version() -> None:
    projects = [tomllib.loads((ROOT / f"packages/{name}/pyproject.toml").read_text())["project"] for name in OURS]
    versions = {project["version"] for project in projects}
    versions |= {found for name in OURS for found in re.findall(r'^__version__ = "(.+)"$', initial(name), re.MULTILINE)}
    assert len(versions) == 1
    between = {str(need.specifier) for name in OURS for need in asked_by(name) if need.name in OURS}
    assert between == {f"=={versions.pop()}"}
