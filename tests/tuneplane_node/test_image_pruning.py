"""Images that jobs brought go when they take too much room: never one that something needs, never one that others brought."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.tuneplane_node.bench import IMAGE, Bench
from tests.tuneplane_node.podmans import podman_home, serving_podman
from tests.tuneplane_node.registry import Registry, serving
from tuneplane_node.engine import NodeError
from tuneplane_node.engine.runtimes import image_pruning, image_uses
from tuneplane_node.engine.runtimes.image_names import plain_reference
from tuneplane_node.engine.runtimes.image_uses import ImageUses

MIB = 1024 * 1024


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(image_pruning, "REST_SECONDS", 0.0)
    monkeypatch.setattr(image_uses, "FRESH_SECONDS", 0.0)
    with serving() as made:
        yield made


@pytest.fixture
def trusting_podman(monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerEngine]:
    with podman_home() as home:
        settings = home / "registries.conf"
        settings.write_text('[[registry]]\nprefix = "127.0.0.1"\nlocation = "127.0.0.1"\ninsecure = true\n')
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(settings))
        with serving_podman(home) as engine:
            yield engine


@pytest.fixture(
    params=[pytest.param("docker", marks=pytest.mark.services), pytest.param("podman", marks=pytest.mark.services)]
)
async def pulling(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    engine: ContainerEngine = request.getfixturevalue(
        "docker_engine" if request.param == "docker" else "trusting_podman"
    )
    import_image(engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    made = Bench(request.param, engine.url, IMAGE, tmp_path)
    yield made
    await made.clean()


def present(bench: Bench, image: str) -> bool:
    with bench.api() as api:
        return api.get(f"/images/{image}/json").is_success


async def test_an_image_goes_only_when_nothing_needs_it(pulling: Bench, registry: Registry) -> None:
    image, engine = registry.reference("good"), pulling.engine
    handle = await pulling.launch(pulling.waiting_job(), image=image)
    await pulling.exists("ready")
    assert await engine.prune_images(0) == [], "a job runs from it"
    pulling.let_go()
    await pulling.ended(handle)
    assert await engine.prune_images(0) == [], "what ended can still be asked for its logs"
    assert await engine.cleanup(handle)
    assert await engine.prune_images(0, [image]) == [], "it is pinned"
    assert await engine.prune_images(1 << 50) == [], "there is room"
    assert present(pulling, image)
    assert await pulling.new_engine().prune_images(0) == [image], (
        "a daemon that was started again knows what it brought"
    )
    assert not present(pulling, image)
    assert await engine.prune_images(0) == []
    handle = await pulling.launch("exit 7", "again", image=image)
    assert (await pulling.ended(handle)).exit_code == 7, "the next job brings it again"


async def test_what_was_here_before_is_nobody_s_to_remove(pulling: Bench, registry: Registry) -> None:
    handle = await pulling.launch("exit 0", image=IMAGE)
    await pulling.ended(handle)
    assert await pulling.engine.cleanup(handle)
    with pytest.raises(NodeError):
        await pulling.launch("exit 0", "missing", image=registry.reference("missing"))
    assert await pulling.engine.prune_images(0) == []
    assert present(pulling, IMAGE)


async def test_the_least_recently_used_goes_first(pulling: Bench, registry: Registry) -> None:
    small, large = registry.reference("good"), registry.reference("large")
    for number, image in enumerate([small, large, small]):
        with suppress(NodeError):  # the large one holds nothing but data: there is no shell in it
            await pulling.ended(await pulling.launch("exit 0", f"job-{number}", image=image))
        assert await pulling.engine.cleanup(pulling.handle(f"job-{number}"))
    assert await pulling.engine.prune_images(24 * MIB) == [large]
    assert present(pulling, small)
    assert await pulling.engine.prune_images(0) == [small]


def test_uses_are_kept_over_a_restart_and_a_pull_is_never_forgotten_by_a_use(tmp_path: Path) -> None:
    now = 1000.0
    record = tmp_path / "images" / "docker.json"
    uses = ImageUses(record, lambda: now)
    uses.note("a:1", pulled=True)
    uses.note("b:1", pulled=False)
    now = 1010.0
    uses.note("a:1", pulled=False)
    assert [(use.reference, use.pulled, use.used) for use in ImageUses(record).all()] == [
        ("a:1", True, 1000.0), ("b:1", False, 1000.0),
    ]  # fmt: skip
    now = 2000.0
    uses.note("a:1", pulled=False)
    assert [(use.reference, use.pulled, use.used) for use in uses.all()] == [
        ("b:1", False, 1000.0),
        ("a:1", True, 2000.0),
    ]
    uses.forget("a:1")
    uses.forget("a:1")
    assert [use.reference for use in uses.all()] == ["b:1"]
    record.write_text('{"images": 7}')
    assert uses.all() == [], "of what cannot be read nothing is ours to remove"


@pytest.mark.parametrize(("spelling", "plain"), [
    ("busybox", "busybox:latest"), ("docker.io/library/busybox", "busybox:latest"), ("docker.io/lab/trl:1", "lab/trl:1"),
    ("127.0.0.1:5000/lab/trl", "127.0.0.1:5000/lab/trl:latest"), ("r.example/trl:1@sha256:ab", "r.example/trl@sha256:ab"),
])  # fmt: skip
def test_the_spellings_of_one_image_are_one(spelling: str, plain: str) -> None:
    assert plain_reference(spelling) == plain
