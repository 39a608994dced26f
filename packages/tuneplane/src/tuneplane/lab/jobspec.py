"""Assemble the JobSpec of an experiment: from its config and lock, the options of the submission, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuneplane import __version__
from tuneplane.contract.digests import digest_json
from tuneplane.contract.words import JOB_API_VERSION, JOB_KIND
from tuneplane.lab.config import ResolvedConfig
from tuneplane.lab.find import Lab
from tuneplane.lab.pools import Pools
from tuneplane.lab.provenance import GitState
from tuneplane.recipes.index import Entry

# Stands for the digest of a package that was not made, in a JobSpec that is only shown.
NO_PACKAGE = "0" * 64


@dataclass(frozen=True)
class SubmitOptions:
    """What the command line adds to an experiment. Durations in seconds; `train_data` and `validation_data` as in the JobSpec."""

    display_name: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    init_from: str | None = None
    train_data: dict[str, Any] | None = None
    validation_data: dict[str, Any] | None = None
    volumes: tuple[str, ...] = ()
    image: str | None = None
    observability: str | None = None
    observability_url: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    priority: int | None = None
    max_duration: int | None = None
    grace: int | None = None
    retries: dict[str, int] = field(default_factory=dict)
    on_success: tuple[dict[str, Any], ...] = ()  # as `spec.lifecycle.on_success`


@dataclass(frozen=True)
class Origin:
    """Where the job comes from."""

    package_digest: str = NO_PACKAGE
    git: GitState = field(default_factory=GitState)


def assemble(
    lab: Lab,
    experiment: str,
    config: ResolvedConfig,
    lock: dict[str, Any],
    entry: Entry,
    hyperparams: dict[str, Any],
    pools: Pools,
    options: SubmitOptions,
    origin: Origin,
) -> dict[str, Any]:
    """The JobSpec as plain JSON, keys without a value left out. Its form is checked by admission, all at once."""
    spec = {
        "recipe": {key: lock["recipe"][key] for key in ("name", "version", "digest")},
        "framework": _framework(lock, entry, options),
        "model": _present({"base": options.model, "init_from": options.init_from}),
        "data": spec_data(config, options),
        "resources": _present({"pools": pools.pools, "roles": pools.roles}),
        "config": config.values,
        "hyperparams": hyperparams,
        "evaluation": config.shared.evaluation,
        "lifecycle": _present({"on_success": list(options.on_success)}),
        "limits": _present({"max_duration": options.max_duration, "grace": options.grace, "retries": options.retries}),
        "priority": options.priority,
        "env": options.env,
        "secrets": list(options.secrets),
    }
    metadata = {
        "name": experiment,
        "project": lab.name,
        "display_name": options.display_name,
        "labels": options.labels,
    }
    provenance = {
        "client_version": __version__,
        "git_commit": origin.git.commit,
        "git_dirty": origin.git.dirty,
        "config_digest": digest_json(config.values),
        "package_digest": origin.package_digest,
    }
    return {
        "apiVersion": JOB_API_VERSION,
        "kind": JOB_KIND,
        "metadata": _present(metadata),
        # An empty configuration is a value: its digest is in the provenance.
        "spec": {**_present(spec), "config": config.values},
        "provenance": _present(provenance),
    }


def _framework(lock: dict[str, Any], entry: Entry, options: SubmitOptions) -> dict[str, Any]:
    observability = options.observability or entry["manifest"]["adapter_options"]["observability"]
    return _present(
        {
            **lock["framework"],
            "image": options.image,
            "observability": observability,
            "observability_url": options.observability_url,
        }
    )


def spec_data(config: ResolvedConfig, options: SubmitOptions) -> dict[str, Any]:
    """`spec.data` of the JobSpec: the config's data, less what the options replace."""
    data = dict(config.shared.data)
    if options.train_data:
        data["train"] = options.train_data
    if options.validation_data:
        data["validation"] = options.validation_data
    if options.volumes:
        data["volumes"] = [*data.get("volumes", []), *options.volumes]
    return data


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value not in ({}, [])}
