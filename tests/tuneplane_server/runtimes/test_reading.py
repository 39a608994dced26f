"""The registry file: what is read from it, and that every mistake is told with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuneplane.contract.refusals import RefusedError
from tuneplane_server.features.runtimes.entries import architecture_of, form_of
from tuneplane_server.features.runtimes.reading import MAX_BYTES, MAX_SHOWN, parse_registry, read_bytes

FILE = Path("/etc/tuneplane/runtimes.yaml")
DIGEST = "ab" * 32
WHOLE = f"""\
runtimes:
  trl-1.16:
    oci: registry.example.org/trl:1.16
    sif:
      path: /shared/images/trl-1.16.sif
      digest: sha256:{DIGEST}
      architecture: x86_64
      capabilities: [fp8, flash-attention]
    sqsh: {{path: /shared/images/trl-1.16.sqsh, digest: {DIGEST}}}
    bundle: /shared/bundles/trl-1.16
    environment: /opt/runtimes/trl-1.16
  verl-0.9: registry.example.org/verl:0.9
  swift-4.6: /shared/images/swift.sif
  plain-1: /opt/runtimes/plain-1
"""


def refusals(text: str) -> list[tuple[int, str, str]]:
    """(line, field, message and hint) of everything that is wrong."""
    with pytest.raises(RefusedError) as caught:
        parse_registry(text.encode(), FILE)
    found = caught.value.refusals
    assert all((refusal.code, refusal.file) == ("runtime-registry", str(FILE)) for refusal in found)
    return [(refusal.line, refusal.field, f"{refusal.message} | {refusal.hint}") for refusal in found]


def test_every_form_is_read_with_what_is_said_of_it() -> None:
    registry = parse_registry(WHOLE.encode(), FILE)
    trl = registry.runtimes["trl-1.16"]
    assert set(trl.images) == {"oci", "sif", "sqsh", "bundle", "environment"}
    sif = trl.images["sif"]
    assert (sif.image, sif.digest, sif.architecture) == ("/shared/images/trl-1.16.sif", DIGEST, "amd64")
    assert (sif.capabilities, sif.line, trl.line, trl.plain) == (("fp8", "flash-attention"), 4, 2, False)
    assert trl.images["sqsh"].digest == DIGEST
    assert len(list(registry.images())) == 8


def test_a_plain_text_is_of_the_form_that_it_looks_like() -> None:
    runtimes = parse_registry(WHOLE.encode(), FILE).runtimes
    forms = {name: tuple(runtime.images) for name, runtime in runtimes.items() if runtime.plain}
    assert forms == {"verl-0.9": ("oci",), "swift-4.6": ("sif",), "plain-1": ("environment",)}
    assert form_of("/x.squashfs") == "sqsh"


def test_json_is_read_as_well() -> None:
    text = json.dumps({"runtimes": {"trl-1.16": {"sif": {"path": "/x/trl.sif"}}}}, indent=1)
    assert parse_registry(text.encode(), FILE).runtimes["trl-1.16"].images["sif"].line == 4
    assert refusals(text.replace("path", "paht"))[0][0] == 5


def test_an_image_with_a_digest_beside_it_is_pulled_by_that_digest() -> None:
    text = f"runtimes: {{a-1: {{oci: {{image: 'reg.example.org:5000/a/b:1', digest: 'sha256:{DIGEST}'}}}}}}"
    image = parse_registry(text.encode(), FILE).runtimes["a-1"].images["oci"]
    assert (image.image, image.digest) == (f"reg.example.org:5000/a/b@sha256:{DIGEST}", DIGEST)
    own = f"runtimes: {{a-1: 'reg.example.org/a@sha256:{DIGEST}'}}"
    assert parse_registry(own.encode(), FILE).runtimes["a-1"].images["oci"].digest == DIGEST


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        ("runtimes: @x", 1, "", "YAML"),
        ("runtime: 1", 0, "runtimes", "{trl-1.16:"),
        ("runtimes: []", 1, "runtimes", "mapping"),
        ("runtimes: {}\nruntime: {}", 2, "runtime", "did you mean “runtimes”?"),
        ("runtimes:\n  a-1: x:1\n  a-1: y:1", 3, "runtimes.a-1", "line 2"),
        ("runtimes:\n  a-1: x:1\n  A-1: y:1", 3, "runtimes.A-1", "line 2"),
        ("runtimes:\n  a b: x:1", 2, "runtimes.a b", "runtime id"),
        ("runtimes:\n  a-1: 5", 2, "runtimes.a-1", "forms: oci"),
        ("runtimes:\n  a-1: {}", 2, "runtimes.a-1", "forms: oci"),
        ("runtimes:\n  a-1:\n    siff: /x.sif", 3, "runtimes.a-1.siff", "did you mean “sif”?"),
        ("runtimes:\n  a-1:\n    wheel: /x", 3, "runtimes.a-1.wheel", "known are: oci"),
        ("runtimes:\n  a-1:\n    sif: x.sif", 3, "runtimes.a-1.sif", "absolute"),
        ("runtimes:\n  a-1:\n    sif: /x.img", 3, "runtimes.a-1.sif", ".sif"),
        ("runtimes:\n  a-1:\n    sqsh: /x.sif", 3, "runtimes.a-1.sqsh", ".sqsh"),
        ("runtimes:\n  a-1:\n    sif: /a/../x.sif", 3, "runtimes.a-1.sif", "plain path"),
        ("runtimes:\n  a-1:\n    bundle: /a b", 3, "runtimes.a-1.bundle", "plain path"),
        ("runtimes:\n  a-1:\n    sif: 7", 3, "runtimes.a-1.sif", "path"),
        ("runtimes:\n  a-1:\n    sif: {architecture: arm64}", 3, "runtimes.a-1.sif", "path"),
        ("runtimes:\n  a-1:\n    sif: {image: /x.sif, path: /x.sif}", 3, "runtimes.a-1.sif", "keep one"),
        ("runtimes:\n  a-1:\n    sif:\n      path: /x.sif\n      archtecture: amd64", 5, "runtimes.a-1.sif.archtecture", "“architecture”"),
        ("runtimes:\n  a-1:\n    oci: /x.sif", 3, "runtimes.a-1.oci", "under sif or sqsh"),
        ("runtimes:\n  a-1: untagged", 2, "runtimes.a-1", "untagged:1.0"),
        ("runtimes:\n  a-1: x@sha256:12", 2, "runtimes.a-1", "no SHA-256"),
        ("runtimes:\n  a-1: '--x:1'", 2, "runtimes.a-1", "no image reference"),
        ("runtimes:\n  a-1:\n    sif:\n      path: /x.sif\n      digest: 12", 5, "runtimes.a-1.sif.digest", "64"),
        ("runtimes:\n  a-1:\n    sif:\n      path: /x.sif\n      architecture: i386", 5, "runtimes.a-1.sif.architecture", "amd64"),
        ("runtimes:\n  a-1:\n    sif:\n      path: /x.sif\n      capabilities: fp8", 5, "runtimes.a-1.sif.capabilities", "list"),
        ("runtimes:\n  a-1:\n    sif:\n      path: /x.sif\n      capabilities: [fp8, FP8!]", 5, "runtimes.a-1.sif.capabilities[1]", "plain word"),
        ("runtimes:\n  a-1:\n    sif:\n      path: /x.sif\n      capabilities: [fp8, fp8]", 5, "runtimes.a-1.sif.capabilities[1]", "twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_what_to_write(text: str, line: int, field: str, said: str) -> None:
    found = refusals(text)
    assert [(at, where) for at, where, _words in found] == [(line, field)]
    assert said in found[0][2]


def test_two_digests_of_one_image_are_one_too_many() -> None:
    text = f"runtimes:\n  a-1:\n    oci: {{image: 'x@sha256:{DIGEST}', digest: 'sha256:{'0' * 64}'}}"
    assert "different images" in refusals(text)[0][2]


def test_all_mistakes_are_told_at_once_and_no_more_than_can_be_read() -> None:
    assert [line for line, _field, _words in refusals("runtimes:\n  a-1: x\n  b-1: /y z\n  c-1: {sif: z}")] == [2, 3, 4]
    assert len(refusals("runtimes:\n" + "".join(f"  a-{n}: x\n" for n in range(100)))) == MAX_SHOWN


def test_a_file_that_is_none_is_refused_with_its_name(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RefusedError) as caught:
            read_bytes(place)
        assert "TUNEPLANE_RUNTIME_REGISTRY_FILE" in caught.value.refusals[0].hint
        assert caught.value.refusals[0].file == str(place)
    large = tmp_path / "large"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(RefusedError, match="larger"):
        read_bytes(large)


def test_architectures_have_two_names() -> None:
    assert [architecture_of(name) for name in ("x86_64", "AMD64", "aarch64", "i386", "")] == [
        "amd64", "amd64", "arm64", None, None,
    ]  # fmt: skip
