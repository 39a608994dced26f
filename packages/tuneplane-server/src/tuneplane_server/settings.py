"""Every TUNEPLANE_* variable of the console: one typed class, each value with its origin.

Nothing else in this package reads the environment. `docs/<language>/reference/settings.md` is the page for people.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from tuneplane.i18n import _
from tuneplane_server.domain.slurm_choices import is_name, parse_partitions, parse_qos
from tuneplane_server.domain.webhooks import parse_hosts

PREFIX = "TUNEPLANE_"
IMAGE_PREFIX = "TUNEPLANE_IMAGE_"
# Variables of the client and of jobs share the prefix; they are no mistake when the console's environment has them.
_FOREIGN = frozenset(
    PREFIX + name for name in ("HOME", "LAB", "LANG", "SERVER", "TOKEN", "HTTP_TIMEOUT", "MAX_PACKAGE_MB", "DEBUG")
)
# Nor are images by framework, and what those set who develop and test this.
_ANY_NAME = (IMAGE_PREFIX, f"{PREFIX}DEV_", f"{PREFIX}TEST_")
_IMAGE_NAME = re.compile(r"[A-Z0-9][A-Z0-9_]*\Z", re.ASCII)

Origin = Literal["environment", "argument", "default"]


class SettingsError(Exception):
    """A setting has no usable value; the message names the variable, the value's fault and what to write."""


def _http_url(value: str | None) -> str | None:
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an http or https URL without query, for example https://tuneplane.example.org")
    return value.rstrip("/")


def _redis_url(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        parts = urlsplit(value.get_secret_value())
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.path.strip("/").strip("0123456789"):
            raise ValueError("must be redis://[user:password@]host[:port][/number], or rediss:// for TLS")
    return value


def _absolute(value: Any) -> Any:
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) else value


HttpUrl = Annotated[str | None, AfterValidator(_http_url)]


def _hosts(value: str) -> str:
    parse_hosts(value)
    return value


def _slurm_user(value: str) -> str:
    if not is_name(value):
        raise ValueError(
            "must be the name of a user of the Slurm cluster: letters, digits and . _ @ + - without spaces"
        )
    return value


def _slurm_name(value: str) -> str:
    if not is_name(value):
        raise ValueError("must be one name as Slurm knows it: letters, digits and . _ @ + - without spaces")
    return value


def _slurm_partition(value: str) -> str:
    try:
        parse_partitions(value)
    except ValueError as error:
        fault = "names a profile twice; " if str(error) == "twice" else ""
        raise ValueError(f"{fault}must be a partition (main) or one for each profile (cpu=main,h200=gpu)") from None
    return value


def _slurm_qos(value: str) -> str:
    try:
        parse_qos(value)
    except ValueError as error:
        fault = {"twice": "names a priority twice; ", "priority": "has a priority beyond -100 to 100; "}.get(
            str(error), ""
        )
        raise ValueError(f"{fault}must be a QOS (normal) or one from each priority on (0=normal,50=high)") from None
    return value


def _plain_secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not all("!" <= letter <= "~" for letter in text):
        raise ValueError("must be one line without spaces")
    return value


SlurmName = Annotated[str, AfterValidator(_slurm_name)]
Hosts = Annotated[str, AfterValidator(_hosts)]
RedisUrl = Annotated[SecretStr | None, AfterValidator(_redis_url)]
AbsolutePath = Annotated[Path, BeforeValidator(_absolute)]


def _default_root() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "tuneplane"


class Settings(BaseModel):
    """The console's settings. Field `x_y` is the variable `TUNEPLANE_X_Y`; the description is what it decides."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    storage_root: AbsolutePath = Field(
        default_factory=_default_root, description="Directory of packages, runs, runtimes; same path on every node."
    )
    data_dir: AbsolutePath | None = Field(
        default=None, description="Directory of the SQLite database and key file; default `<storage_root>/console`."
    )
    database_url: SecretStr | None = Field(
        default=None, description="postgresql://… or sqlite:///path; default SQLite in the data directory."
    )

    redis_url: RedisUrl = Field(
        default=None, description="redis://… or rediss://…; needed as soon as several consoles share a database."
    )
    runtimes_dir: AbsolutePath | None = Field(
        default=None, description="Python environments of process mode; default `<storage_root>/runtimes`."
    )

    host: str = Field(default="127.0.0.1", description="Address the console listens on.")
    port: int = Field(default=8642, ge=0, le=65535, description="Port the console listens on; 0 picks a free one.")
    public_url: HttpUrl = Field(default=None, description="Address people use for the console; default host and port.")
    ingest_url: HttpUrl = Field(
        default=None, description="Address jobs use for the console, reachable from every node; default the public one."
    )
    trusted_proxies: str = Field(
        default="127.0.0.1", description="Addresses whose X-Forwarded-* headers are believed, comma separated."
    )

    web_jwt_secret: SecretStr | None = Field(
        default=None, min_length=32, description="Key that signs sessions; default a key file (0600)."
    )
    secrets_key: SecretStr | None = Field(
        default=None, description="Base64 of 32 bytes that seal secrets in the database; default a key file (0600)."
    )
    session_hours: int = Field(default=336, ge=1, le=24 * 366, description="How long a browser stays signed in.")

    executor: Literal["local", "agent", "slurm"] = Field(
        default="local",
        description="How jobs are started: on this machine, on every machine that runs tuneplane-node, or by Slurm.",
    )
    agent_token: SecretStr | None = Field(
        default=None, description="Secret that console and nodes share (executor agent); rather use the file."
    )
    agent_token_file: AbsolutePath | None = Field(
        default=None, description="File with that secret; read again when it changes."
    )
    agent_ca_file: AbsolutePath | None = Field(
        default=None, description="Authority (PEM) of the nodes' certificates; default those this machine trusts."
    )
    node_lost_seconds: int = Field(
        default=1800, ge=0, description="Silence of a node after which its runs are given up; 0 waits for ever."
    )
    slurm_url: HttpUrl = Field(default=None, description="Address of slurmrestd (executor slurm).")
    slurm_user: Annotated[str, AfterValidator(_slurm_user)] | None = Field(
        default=None, description="Slurm user whose jobs they are; the token is theirs."
    )
    slurm_token: Annotated[SecretStr, AfterValidator(_plain_secret)] | None = Field(
        default=None, description="JWT of that user; rather use the file."
    )
    slurm_token_file: AbsolutePath | None = Field(default=None, description="File with that JWT; read at each request.")
    slurm_ca_file: AbsolutePath | None = Field(
        default=None, description="Authority (PEM) of slurmrestd's certificate; default those this machine trusts."
    )
    slurm_container: Literal["apptainer", "enroot-pyxis", "oci"] | None = Field(
        default=None, description="What starts images on the compute nodes; there is no default."
    )
    slurm_partition: Annotated[str, AfterValidator(_slurm_partition)] | None = Field(
        default=None, description="Partition, or by profile cpu=main,h200=gpu; default Slurm's own."
    )
    slurm_account: SlurmName | None = Field(default=None, description="Account of the jobs; default the user's own.")
    slurm_qos: Annotated[str, AfterValidator(_slurm_qos)] | None = Field(
        default=None, description="QOS, or from a priority on 0=normal,50=high; default the account's own."
    )
    slurm_reservation: SlurmName | None = Field(default=None, description="Reservation that the jobs use.")
    slurm_time_limit: int | None = Field(
        default=None, ge=1, le=5 * 366 * 1440, description="Minutes of a job without a limit; default the partition's."
    )
    slurm_lost_seconds: int = Field(
        default=120, ge=0, le=86400, description="How long Slurm must not know a job before it counts as gone."
    )
    runtime: Literal["auto", "docker", "podman", "process"] = Field(
        default="auto", description="Container runtime of the local executor; process isolates nothing."
    )
    container_socket: str | None = Field(
        default=None, description="API socket of Docker or Podman, path or unix:// URL; default the usual places."
    )
    container_mounts: str | None = Field(
        default=None, description="Further host folders in every container: /a:/b:ro,/c:/c, comma separated."
    )
    container_user: str | None = Field(
        default=None, description="uid:gid of containers; default the image's user, or the console's own when not root."
    )
    image_pull_timeout: int = Field(default=1800, ge=10, description="Longest pull of a training image, seconds.")
    simulated_gpus: str | None = Field(default=None, description="Invented cards, for example h200:8.")
    gpu_profile: str | None = Field(
        default=None, description="Profile name of this machine's cards; default from the card's product name."
    )
    runtime_registry_file: AbsolutePath | None = Field(
        default=None, description="YAML or JSON file: runtime_id to image or environment path."
    )
    recipe_path: str = Field(
        default="", description="Directories with the organisation's own recipes, colon separated."
    )
    job_judge_endpoint: HttpUrl = Field(
        default=None, description="OpenAI-compatible base URL of the judge model that jobs may ask."
    )
    job_judge_token: SecretStr | None = Field(default=None, description="Token of the judge; every job gets it.")
    images: dict[str, str] = Field(
        default_factory=dict, description="TUNEPLANE_IMAGE_<FRAMEWORK>: image of a framework's runtime."
    )

    s3_endpoint: HttpUrl = Field(default=None, description="S3-compatible store; default AWS when a bucket is set.")
    s3_bucket: str | None = Field(default=None, description="Bucket of packages and archives; unset: storage root.")
    s3_region: str = Field(default="us-east-1", description="Region of the bucket.")
    s3_access_key_id: SecretStr | None = Field(default=None, description="Access key of the bucket.")
    s3_secret_access_key: SecretStr | None = Field(default=None, description="Secret key of the bucket.")

    package_max_mb: int = Field(default=512, ge=1, description="Largest package a submit may upload, MiB.")
    log_quota_mb: int = Field(default=256, ge=1, description="Log bytes kept for one run, MiB.")
    observe_seconds: float = Field(default=2.0, gt=0.05, le=300, description="How often live runs are observed.")
    hardware_seconds: float = Field(
        default=10.0, ge=1, le=3600, description="How often machines, cards and runs are measured."
    )
    hardware_days: int = Field(
        default=30, ge=1, le=3660, description="How long the figures of machines are kept; those of a run go with it."
    )
    lease_seconds: float = Field(default=60.0, ge=5, le=3600, description="How long a background claim lasts.")
    start_timeout_seconds: int = Field(default=900, ge=10, description="How long a run may stay in starting.")

    webhook_hosts: Hosts = Field(
        default="", description="Private hosts that webhooks may call, host or host:port, comma separated."
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")
    log_format: Literal["text", "json"] = Field(default="text", description="Form of the console's own log.")

    origins: dict[str, Origin] = Field(default_factory=dict, repr=False)

    def model_post_init(self, _context: Any, /) -> None:
        if self.data_dir is None:
            object.__setattr__(self, "data_dir", self.storage_root / "console")
        if self.runtimes_dir is None:
            object.__setattr__(self, "runtimes_dir", self.storage_root / "runtimes")

    @property
    def state_dir(self) -> Path:
        """The data directory, never None."""
        assert self.data_dir is not None
        return self.data_dir

    @property
    def runtimes(self) -> Path:
        """Where the environments of process mode lie, never None."""
        assert self.runtimes_dir is not None
        return self.runtimes_dir

    @property
    def database(self) -> str:
        """SQLAlchemy URL with the driver this package uses."""
        if self.database_url is None:
            return f"sqlite+aiosqlite:///{self.state_dir / 'tuneplane.db'}"
        return driver_url(self.database_url.get_secret_value())

    @property
    def public_address(self) -> str:
        return self.public_url or f"http://{_reachable_host(self.host)}:{self.port}"

    @property
    def ingest_address(self) -> str:
        return self.ingest_url or self.public_address

    @property
    def secure_cookies(self) -> bool:
        return self.public_address.startswith("https://")

    def with_values(self, **changes: Any) -> Self:
        """A copy with values given on the command line; their origin becomes `argument`."""
        values = {name: getattr(self, name) for name in type(self).model_fields} | changes
        values["origins"] = self.origins | dict.fromkeys(changes, "argument")
        if "storage_root" in changes and self.origins.get("data_dir", "default") == "default":
            values["data_dir"] = changes.get("data_dir")
        if "storage_root" in changes and self.origins.get("runtimes_dir", "default") == "default":
            values["runtimes_dir"] = changes.get("runtimes_dir")
        return type(self).model_validate(values)

    def listing(self) -> list[tuple[str, str, Origin]]:
        """(variable, value as text, origin) of every setting, secrets masked, for `tuneplane-server config`."""
        rows: list[tuple[str, str, Origin]] = []
        for name in type(self).model_fields:
            if name in ("origins", "images"):
                continue
            value = getattr(self, name)
            shown = "" if value is None else "********" if isinstance(value, SecretStr) else str(value)
            rows.append((variable(name), shown, self.origins.get(name, "default")))
        rows += [(IMAGE_PREFIX + name, image, "environment") for name, image in sorted(self.images.items())]
        return rows


def variable(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def driver_url(url: str) -> str:
    """A database URL as people write it, with the driver we use; raises `SettingsError` for another database."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        return f"postgresql+psycopg:{rest}"
    if colon and scheme in ("sqlite", "sqlite+aiosqlite") and rest.startswith("///") and len(rest) > len("///"):
        return f"sqlite+aiosqlite:{rest}"
    raise SettingsError(
        _(
            "{variable}: “{scheme}” is not a database this console knows; write postgresql://… or sqlite:///absolute/path"
        ).format(variable=variable("database_url"), scheme=scheme)
    )


def load_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Settings from the environment (or `env`). Raises `SettingsError` that lists every bad value; secrets stay unsaid."""
    source = os.environ if env is None else env
    fields = set(Settings.model_fields) - {"origins", "images"}
    values: dict[str, Any] = {
        name: source[variable(name)] for name in sorted(fields) if source.get(variable(name), "") != ""
    }
    images = {
        name.removeprefix(IMAGE_PREFIX): value
        for name, value in sorted(source.items())
        if name.startswith(IMAGE_PREFIX)
        and name not in map(variable, fields)
        and _IMAGE_NAME.match(name.removeprefix(IMAGE_PREFIX))
        and value
    }
    try:
        settings = Settings(**values, images=images, origins=dict.fromkeys(values, "environment"))
    except ValidationError as error:
        lines = [f"{variable(str(item['loc'][0]))}: {item['msg']}" for item in error.errors(include_input=False)]
        raise SettingsError("\n".join(lines)) from None
    driver = settings.database  # a wrong scheme is refused here, not at the first query
    assert driver
    return settings


def unknown_variables(env: Mapping[str, str] | None = None) -> list[str]:
    """TUNEPLANE_* variables that no setting reads: probably misspelt; `doctor` warns about them."""
    source = os.environ if env is None else env
    known = {variable(name) for name in Settings.model_fields} | _FOREIGN
    return sorted(
        name for name in source if name.startswith(PREFIX) and name not in known and not name.startswith(_ANY_NAME)
    )


def wants_opentelemetry(env: Mapping[str, str] | None = None) -> bool:
    """Whether a collector is named; the SDK reads the other OTEL_* variables itself."""
    source = os.environ if env is None else env
    if source.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(source.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in ("", "TRACES_", "METRICS_"))


def _reachable_host(host: str) -> str:
    """An address to print for a listening address: the wildcard is no address to visit."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
