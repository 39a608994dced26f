"""`tuneplane-server doctor`: everything that can stand in the way of jobs, each as one finding."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane_node.engine import NodeError
from tuneplane_server.db import migrations
from tuneplane_server.db.engine import Database
from tuneplane_server.db.filesystems import NetworkFilesystemError
from tuneplane_server.executors.port import Finding
from tuneplane_server.features.jobs.admission.ingest_url import is_loopback
from tuneplane_server.features.runtimes.checking import frameworks_of, registry_findings
from tuneplane_server.redis_wakeups import problem_of
from tuneplane_server.runtime_builds import listing
from tuneplane_server.services import Services
from tuneplane_server.settings import Settings, SettingsError, unknown_variables
from tuneplane_server.storage.objects import StoreUnavailableError

LEAST_FREE_GB = 5


async def examine(settings: Settings) -> list[Finding]:
    """All findings; one that fails does not hide the others. Changes nothing but a probe file that it removes."""
    services = Services(settings)
    jobs = (_executor, _runtimes, _addresses) if (missing := _not_startable(services)) is None else (_registry,)
    checks: tuple[Callable[[Services], Awaitable[list[Finding]]], ...] = (
        _variables,
        _catalog,
        _database,
        _storage,
        _object_store,
        _redis,
        *jobs,
    )
    found = [finding for check in checks for finding in await check(services)]
    return found if missing is None else [*found, missing]


async def look_from_nodes(
    settings: Settings, partitions: Sequence[str], wait: float, tell: Callable[[str], None]
) -> list[Finding]:
    """What only compute nodes can tell: a tiny job for each partition, `partitions` or those of the settings. `wait`: seconds.
    `tell` hears of the progress."""
    services = Services(settings)
    try:
        slurm = services.slurm
    except SettingsError:
        return []  # `examine` says what is missing
    if slurm is None:
        text = _("--probe asks Slurm for jobs, and this console starts them by {executor}").format(
            executor=settings.executor
        )
        return [Finding("probe", "error", text, _("it is for TUNEPLANE_EXECUTOR=slurm"))]
    from tuneplane_server.executors.slurm.building import build_client
    from tuneplane_server.executors.slurm.probe import ProbeRequest, probe

    client = build_client(slurm)
    request = ProbeRequest(
        slurm, settings.storage_root, services.ingest_address, tuple(partitions), wait, await _bundle(services), tell
    )
    try:
        return await probe(client, request)
    finally:
        await client.close()


async def _bundle(services: Services) -> Path | None:
    """One that a node can be asked to run, of those in the registry of runtimes."""
    try:
        registry = await services.registry.current()
    except RefusedError:  # `_runtimes` says what is wrong with it
        return None
    return next((Path(image.image) for image in registry.images() if image.form == "bundle"), None)


def _not_startable(services: Services) -> Finding | None:
    """Without the secret that it shares with its nodes, or without what it needs to speak with Slurm, a console does not start."""
    try:
        services.agent_token, services.slurm  # noqa: B018 - they are read and checked
    except NodeError as error:
        return Finding(error.code, "error", error.text(), error.hint(), error.detail)
    except SettingsError as error:
        return Finding("slurm-settings", "error", str(error))
    return None


async def _variables(_services: Services) -> list[Finding]:
    return [
        Finding(
            "variable-unknown",
            "warning",
            _("{variable} is no setting of the console").format(variable=name),
            _("tuneplane-server config lists them all"),
        )
        for name in unknown_variables()
    ]


async def _catalog(services: Services) -> list[Finding]:
    catalog = services.catalog
    try:
        await asyncio.to_thread(catalog.load)
    except RefusedError as error:
        return [
            Finding(refusal.code, "error", f"{refusal.where()}: {refusal.message}", refusal.hint)
            for refusal in error.refusals
        ]
    changed = [refusal for method in catalog.methods() for refusal in await asyncio.to_thread(catalog.changes, method)]
    if changed:
        return [Finding(refusal.code, "error", refusal.message, refusal.hint) for refusal in changed]
    count = len(catalog.methods())
    text = ngettext("catalog: {count} recipe", "catalog: {count} recipes", count).format(count=count)
    return [Finding("catalog", "info", text)]


async def _database(services: Services) -> list[Finding]:
    try:
        database = Database(services.settings.database)
    except NetworkFilesystemError as error:
        return [Finding("database-filesystem", "error", str(error))]
    try:
        found = await migrations.current(database)
    except (SQLAlchemyError, OSError) as error:
        said = str(getattr(error, "orig", None) or error).strip()
        hint = _("check TUNEPLANE_DATABASE_URL and that the database answers")
        return [Finding("database", "error", _("the database does not answer"), hint, said)]
    finally:
        await database.close()
    kind = "SQLite" if database.is_sqlite else "Postgres"
    if found not in (None, migrations.head()):
        hint = _("tuneplane-server migrate, or the next start, brings it up to date")
        return [Finding("database-schema", "warning", _("the database has schema {found}").format(found=found), hint)]
    return [Finding("database", "info", _("database: {kind}").format(kind=kind))]


async def _storage(services: Services) -> list[Finding]:
    root = services.settings.storage_root
    try:
        await asyncio.to_thread(_probe, root)
    except OSError as error:
        hint = _("set TUNEPLANE_STORAGE_ROOT to a directory the console may write")
        text = _("the storage root {path} cannot be written").format(path=root)
        return [Finding("storage-failed", "error", text, hint, str(error))]
    stat = await asyncio.to_thread(os.statvfs, root)
    free = stat.f_bavail * stat.f_frsize / 1024**3
    level = "info" if free >= LEAST_FREE_GB else "warning"
    text = _("storage root {path}: {free:.1f} GB free").format(path=root, free=free)
    return [Finding("storage", level, text)]


def _probe(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=root, prefix=".doctor-") as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


async def _object_store(services: Services) -> list[Finding]:
    if services.settings.s3_bucket is None:
        return []
    try:
        await services.store.size("packages/" + "0" * 64)
    except StoreUnavailableError as error:
        hint = _("check TUNEPLANE_S3_*")
        return [Finding("store", "error", _("the object store does not answer"), hint, str(error))]
    return [Finding("store", "info", _("object store: {bucket}").format(bucket=services.settings.s3_bucket))]


async def _redis(services: Services) -> list[Finding]:
    url = services.settings.redis_url
    if url is None:
        return []
    problem = await problem_of(url.get_secret_value())
    if problem is not None:
        text, hint = _("Redis does not answer"), _("check TUNEPLANE_REDIS_URL and that the server runs")
        return [Finding("redis", "error", text, hint, problem)]
    return [Finding("redis", "info", _("Redis answers"))]


async def _executor(services: Services) -> list[Finding]:
    executor = services.executor
    try:
        await executor.open()
        findings = await executor.check()
        able = executor.capabilities()
        text = _("executor {name}, runtime {runtime}").format(name=executor.name, runtime=able.runtime)
        if not able.runtime:  # before the first node has joined, nobody has said
            text = _("executor {name}").format(name=executor.name)
        return [Finding("executor", "info", text), *findings]
    except SQLAlchemyError:
        return []  # which nodes there are is in the database, and `_database` says what is wrong with that
    finally:
        await executor.close()


async def _registry(services: Services) -> list[Finding]:
    """The file alone, while nothing says which form of it counts."""
    return await registry_findings(services.registry, services.settings, "oci", {})


async def _runtimes(services: Services) -> list[Finding]:
    settings, form = services.settings, services.executor.capabilities().image_form
    try:
        entries = [services.catalog.entry(method) for method in services.catalog.methods()]
    except RefusedError:  # `_catalog` says what is wrong with the recipes
        entries = []
    frameworks = frameworks_of(entry["manifest"] for entry in entries if entry is not None)
    findings = await registry_findings(services.registry, settings, form, frameworks)
    if form != "environment":
        return findings
    try:
        runtimes = await asyncio.to_thread(listing, settings)
    except RefusedError:  # `_catalog` says what is wrong with the recipes
        return findings
    for item in runtimes:
        if item.requires and not item.built:
            text = _("the runtime {runtime_id} is not built").format(runtime_id=item.runtime_id)
            hint = _("tuneplane-server runtime build {runtime_id}").format(runtime_id=item.runtime_id)
            findings.append(Finding("runtime-missing", "warning", text, hint))
    return findings


async def _addresses(services: Services) -> list[Finding]:
    address = services.ingest_address
    if is_loopback(address) and not services.executor.capabilities().on_this_machine:
        text = _("jobs would report to {address}, which on their own machine is themselves").format(address=address)
        return [Finding("ingest-url", "error", text, _("set TUNEPLANE_INGEST_URL"))]
    return [Finding("ingest-url", "info", _("jobs report to {address}").format(address=address))]
