from __future__ import annotations

import pytest

from tuneplane_server.settings import SettingsError, load_settings, unknown_variables


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
