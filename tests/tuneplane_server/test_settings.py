from __future__ import annotations

import pytest

from tuneplane_server.settings import SettingsError, load_settings, unknown_variables
from tuneplane_server.slurm_settings import slurm_settings


def test_defaults_need_no_variable(tmp_path: object) -> None:
    settings = load_settings({})
    assert settings.state_dir == settings.storage_root / "console"
    assert settings.database.startswith("sqlite+aiosqlite:///")
    assert settings.public_address == "http://127.0.0.1:8642"
    assert settings.ingest_address == settings.public_address
    assert not settings.secure_cookies


def test_every_value_tells_where_it_comes_from() -> None:
    settings = load_settings({"TUNEPLANE_PORT": "9000", "TUNEPLANE_IMAGE_NEMO_RL": "x:1"}).with_values(host="0.0.0.0")
    origins = {name: (value, origin) for name, value, origin in settings.listing()}
    assert origins["TUNEPLANE_PORT"] == ("9000", "environment")
    assert origins["TUNEPLANE_HOST"] == ("0.0.0.0", "argument")
    assert origins["TUNEPLANE_LOG_LEVEL"] == ("info", "default")
    assert origins["TUNEPLANE_IMAGE_NEMO_RL"] == ("x:1", "environment")
    assert settings.public_address == "http://127.0.0.1:9000"


def test_secrets_are_never_shown() -> None:
    env = {"TUNEPLANE_WEB_JWT_SECRET": "s" * 40, "TUNEPLANE_DATABASE_URL": "postgresql://u:hunter2@db/x"}
    settings = load_settings(env)
    shown = repr(settings) + str(settings.listing())
    assert "hunter2" not in shown
    assert "s" * 40 not in shown
    assert settings.database == "postgresql+psycopg://u:hunter2@db/x"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"TUNEPLANE_PORT": "many"}, "TUNEPLANE_PORT"),
        ({"TUNEPLANE_PUBLIC_URL": "console.example.org"}, "https://tuneplane.example.org"),
        ({"TUNEPLANE_WEB_JWT_SECRET": "short"}, "TUNEPLANE_WEB_JWT_SECRET"),
        ({"TUNEPLANE_DATABASE_URL": "mysql://x"}, "postgresql://"),
        ({"TUNEPLANE_DATABASE_URL": "sqlite://"}, "sqlite:///"),
        ({"TUNEPLANE_EXECUTOR": "ssh"}, "TUNEPLANE_EXECUTOR"),
    ],
)
def test_a_bad_value_is_refused_with_the_variable_and_without_its_secret(env: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(env)
    assert said in str(caught.value)
    assert "short" not in str(caught.value) or "TUNEPLANE_WEB_JWT_SECRET" not in env


def test_every_bad_value_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"TUNEPLANE_PORT": "x", "TUNEPLANE_SESSION_HOURS": "0"})
    assert "TUNEPLANE_PORT" in str(caught.value)
    assert "TUNEPLANE_SESSION_HOURS" in str(caught.value)


def test_an_empty_variable_is_no_value() -> None:
    assert load_settings({"TUNEPLANE_PORT": ""}).port == 8642


def test_a_setting_that_looks_like_an_image_is_none() -> None:
    assert load_settings({"TUNEPLANE_IMAGE_PULL_TIMEOUT": "60"}).images == {}
    assert load_settings({"TUNEPLANE_IMAGE_PULL_TIMEOUT": "60"}).image_pull_timeout == 60


def test_misspelt_variables_are_found() -> None:
    env = {
        "TUNEPLANE_PROT": "1",
        "TUNEPLANE_PORT": "1",
        "TUNEPLANE_HOME": "/x",
        "TUNEPLANE_IMAGE_TRL": "x",
        "HOME": "/",
    }
    assert unknown_variables(env) == ["TUNEPLANE_PROT"]


def test_a_moved_storage_root_moves_what_hangs_on_it() -> None:
    settings = load_settings({}).with_values(storage_root="/srv/tp")
    assert str(settings.state_dir) == "/srv/tp/console"
    assert str(settings.runtimes) == "/srv/tp/runtimes"
    kept = load_settings({"TUNEPLANE_DATA_DIR": "/var/tp"}).with_values(storage_root="/srv/tp")
    assert str(kept.state_dir) == "/var/tp"


SLURM = {
    "TUNEPLANE_EXECUTOR": "slurm",
    "TUNEPLANE_SLURM_URL": "http://slurm.example.org:6820/",
    "TUNEPLANE_SLURM_USER": "tuneplane",
    "TUNEPLANE_SLURM_TOKEN_FILE": "/etc/tuneplane/slurm.jwt",
    "TUNEPLANE_SLURM_CONTAINER": "apptainer",
}


def test_slurm_needs_its_settings_and_everything_missing_is_told_at_once() -> None:
    assert slurm_settings(load_settings({})) is None
    with pytest.raises(SettingsError) as caught:
        slurm_settings(load_settings({"TUNEPLANE_EXECUTOR": "slurm", "TUNEPLANE_SLURM_USER": "tuneplane"}))
    said = str(caught.value)
    for name in ("URL", "TOKEN_FILE", "CONTAINER"):
        assert f"TUNEPLANE_SLURM_{name}: " in said
    assert "TUNEPLANE_SLURM_USER" not in said
    assert "http://slurm.example.org:6820" in said, "what to write"


def test_what_slurm_needs_is_enough() -> None:
    whole = slurm_settings(load_settings(SLURM))
    assert whole is not None
    assert (whole.url, whole.user, whole.image_form) == ("http://slurm.example.org:6820", "tuneplane", "sif")
    assert (whole.partitions.of("h200"), whole.qos.of(0), whole.time_limit_minutes) == (None, None, None)
    assert whole.lost_after.total_seconds() == 120


def test_partition_by_profile_and_qos_by_priority() -> None:
    mapped = SLURM | {
        "TUNEPLANE_SLURM_PARTITION": "main, H200=gpu,cpu=small",
        "TUNEPLANE_SLURM_QOS": "50=high,0=normal",
    }
    whole = slurm_settings(load_settings(mapped))
    assert whole is not None
    assert [whole.partitions.of(profile) for profile in ("h200", "cpu", "l40s")] == ["gpu", "small", "main"]
    assert whole.partitions.names == ("gpu", "small", "main")
    assert [whole.qos.of(priority) for priority in (-1, 0, 49, 50, 100)] == [None, "normal", "normal", "high", "high"]
    every = slurm_settings(load_settings(SLURM | {"TUNEPLANE_SLURM_QOS": "batch"}))
    assert every is not None
    assert [every.qos.of(-100), every.qos.names] == ["batch", ("batch",)]


def test_a_token_and_a_token_file_are_one_too_many_and_no_token_is_shown() -> None:
    both = load_settings(SLURM | {"TUNEPLANE_SLURM_TOKEN": "eyJhbGciOi.secret"})
    with pytest.raises(SettingsError, match="keep one of them"):
        slurm_settings(both)
    assert "eyJhbGciOi" not in repr(both) + str(both.listing())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PARTITION", "a=b,a=c", "twice"),
        ("PARTITION", "main,other", "twice"),
        ("PARTITION", "two words", "cpu=main,h200=gpu"),
        ("PARTITION", "=gpu", "cpu=main,h200=gpu"),
        ("QOS", "101=high", "-100 to 100"),
        ("QOS", "high=0", "-100 to 100"),
        ("QOS", "0=a,0=b", "twice"),
        ("QOS", "0=", "0=normal,50=high"),
        ("CONTAINER", "docker", "'apptainer'"),
        ("ACCOUNT", "a b", "one name"),
        ("USER", "a\nb", "user"),
        ("TOKEN", "eyJ\nhbGci", "one line"),
        ("URL", "slurm:6820", "http or https"),
        ("TIME_LIMIT", "0", "greater"),
    ],
)
def test_a_slurm_setting_of_the_wrong_kind_is_refused_with_what_to_write(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(SLURM | {f"TUNEPLANE_SLURM_{name}": value})
    assert str(caught.value).startswith(f"TUNEPLANE_SLURM_{name}: ")
    assert said in str(caught.value)
    assert "hbGci" not in str(caught.value)
