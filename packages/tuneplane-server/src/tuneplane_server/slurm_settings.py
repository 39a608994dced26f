"""The settings of the executor `slurm` as a whole: what it needs is there, and what is there fits together."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from tuneplane.i18n import _
from tuneplane_server.domain.slurm_choices import Partitions, QosLevels, parse_partitions, parse_qos
from tuneplane_server.settings import Settings, SettingsError, variable

type SlurmContainer = Literal["apptainer", "enroot-pyxis", "oci"]
# Where the images of a container runtime come from: the form in the runtime registry file.
IMAGE_FORMS: dict[SlurmContainer, Literal["sif", "sqsh", "bundle"]] = {
    "apptainer": "sif",
    "enroot-pyxis": "sqsh",
    "oci": "bundle",
}


@dataclass(frozen=True)
class SlurmSettings:
    """`url`: of slurmrestd, without a slash at its end. Exactly one of `token` and `token_file`; the file is read at each request."""

    url: str
    user: str
    token: SecretStr | None = field(repr=False)
    token_file: Path | None
    ca_file: Path | None
    container: SlurmContainer
    partitions: Partitions
    account: str | None
    qos: QosLevels
    reservation: str | None
    time_limit_minutes: int | None
    lost_after: timedelta

    @property
    def image_form(self) -> Literal["sif", "sqsh", "bundle"]:
        return IMAGE_FORMS[self.container]


def slurm_settings(settings: Settings) -> SlurmSettings | None:
    """None for another executor. Raises `SettingsError` with one message: every variable that is missing, and what to write."""
    if settings.executor != "slurm":
        return None
    lines = [f"{name}: {what}" for name, what in _missing(settings)]
    if lines:
        head = _("the executor slurm needs settings that are not there; the console does not start without them:")
        raise SettingsError("\n  ".join([head, *lines]))
    if settings.slurm_token is not None and settings.slurm_token_file is not None:
        raise SettingsError(
            _("{token} and {file} are both set; keep one of them, rather the file").format(
                token=variable("slurm_token"), file=variable("slurm_token_file")
            )
        )
    assert settings.slurm_url is not None
    assert settings.slurm_user is not None
    assert settings.slurm_container is not None
    return SlurmSettings(
        url=settings.slurm_url,
        user=settings.slurm_user,
        token=settings.slurm_token,
        token_file=settings.slurm_token_file,
        ca_file=settings.slurm_ca_file,
        container=settings.slurm_container,
        partitions=parse_partitions(settings.slurm_partition) if settings.slurm_partition else Partitions(),
        account=settings.slurm_account,
        qos=parse_qos(settings.slurm_qos) if settings.slurm_qos else QosLevels(),
        reservation=settings.slurm_reservation,
        time_limit_minutes=settings.slurm_time_limit,
        lost_after=timedelta(seconds=settings.slurm_lost_seconds),
    )


def _missing(settings: Settings) -> list[tuple[str, str]]:
    needed = {
        "slurm_url": _("the address of slurmrestd, for example http://slurm.example.org:6820"),
        "slurm_user": _("the Slurm user whose jobs they are: the one that the token was made for"),
        "slurm_container": _("what starts images on the compute nodes: apptainer, enroot-pyxis or oci"),
    }
    found = [(variable(name), what) for name, what in needed.items() if getattr(settings, name) is None]
    if settings.slurm_token is None and settings.slurm_token_file is None:
        what = _("a file with the JWT of that user, kept fresh by whatever makes it (scontrol token on the Slurm side)")
        found.append((variable("slurm_token_file"), what))
    return found
