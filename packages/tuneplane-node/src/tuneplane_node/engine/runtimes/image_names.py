"""Names of images, in the spellings that engines take. Pure."""

from __future__ import annotations

_DOCKER_HUB = ("docker.io/library/", "docker.io/")


def split_reference(image: str) -> tuple[str, str]:
    """Name and tag or digest, as the engines want them; without either, `latest`, because none would mean all."""
    name, at, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    tagged = bool(colon) and "/" not in tag  # a colon before a slash belongs to the registry's port
    if at:
        return (head if tagged else name), digest
    return (head, tag) if tagged else (name, "latest")


def plain_reference(image: str) -> str:
    """One spelling for the spellings that an engine takes for the same image."""
    name, tag = split_reference(image)
    for prefix in _DOCKER_HUB:
        name = name.removeprefix(prefix)
    return f"{name}@{tag}" if ":" in tag else f"{name}:{tag}"
