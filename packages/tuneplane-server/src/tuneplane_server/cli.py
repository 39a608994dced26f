"""`tuneplane-server`: serve the console, and the commands of whoever runs it. They work on the database directly."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, language_from_environment, set_language
from tuneplane_server import __version__

if TYPE_CHECKING:
    from tuneplane_server.executors.port import Finding
    from tuneplane_server.settings import Settings

FAILED = 1
TERMINATED = 128 + signal.SIGTERM


def main() -> None:
    """Entry point. Every foreseen problem is one message on standard error, never a traceback."""
    set_language(language_from_environment())
    import tuneplane_server.console.i18n  # noqa: F401 - registers the console's translations

    try:
        code = cli(standalone_mode=False)  # click hands back what `Exit` carries
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RefusedError as error:
        for refusal in error.refusals:
            _complain(f"{refusal.where()}: {refusal.message}" if refusal.file else refusal.message, refusal.hint)
        sys.exit(FAILED)
    except Exception as error:
        if (said := _foreseen(error)) is None:
            raise
        _complain(*said)
        sys.exit(FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _foreseen(error: Exception) -> tuple[str, str] | None:
    """(message, hint) of an error that has its own words; None for a fault of ours."""
    from sqlalchemy.exc import DBAPIError

    from tuneplane_node.engine import NodeError
    from tuneplane_server.db.filesystems import NetworkFilesystemError
    from tuneplane_server.db.migrations import SchemaError
    from tuneplane_server.instance import AlreadyRunningError
    from tuneplane_server.settings import SettingsError
    from tuneplane_server.web.problems import ProblemError

    if isinstance(error, SettingsError | NetworkFilesystemError | SchemaError | AlreadyRunningError):
        return str(error), ""
    if isinstance(error, ProblemError):
        return str(error.detail), error.hint
    if isinstance(error, NodeError):
        return f"{error.text()} {error.detail}".strip(), error.hint()
    if isinstance(error, DBAPIError):
        hint = _("check TUNEPLANE_DATABASE_URL and that the database answers")
        return _("the database failed: {error}").format(error=str(error.orig).strip()), hint
    if isinstance(error, OSError):
        return str(error), ""
    return None


def _complain(message: str, hint: str) -> None:
    click.echo(f"{_('error')}: {message}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)


def _settings() -> Settings:
    """Imported by the commands that read them: the help needs no pydantic, and `serve` switches the collector off before that."""
    from tuneplane_server.settings import load_settings

    return load_settings()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tuneplane-server")
def cli() -> None:
    """The TunePlane console: API, web pages and background roles."""


@cli.command()
@click.option("--host", help="Address to listen on (TUNEPLANE_HOST).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one (TUNEPLANE_PORT).")
def serve(host: str | None, port: int | None) -> None:
    """Serve until SIGTERM or Ctrl-C. Running jobs go on and are adopted by the next start."""
    import gc

    gc.disable()  # looking for garbage while everything is imported finds none; `serve_console` switches it on again
    from tuneplane_server.serving import serve_console

    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    serve_console(_settings().with_values(**changes) if changes else _settings(), click.echo)


@cli.command()
def config() -> None:
    """Print every setting with its value and where it comes from; secrets are masked."""
    rows = _settings().listing()
    width = max(len(name) for name, _value, _origin in rows)
    for name, value, origin in rows:
        click.echo(f"{name:<{width}}  {origin:<11}  {value or '-'}")


@cli.command()
def migrate() -> None:
    """Bring the database to this version's schema; `serve` does the same at start."""
    from tuneplane_server.db.engine import Database
    from tuneplane_server.db.migrations import upgrade

    async def run() -> None:
        database = Database(_settings().database)
        try:
            before, after = await upgrade(database)
        finally:
            await database.close()
        said = _("nothing to do") if before == after else _("done")
        click.echo(_("schema {before} → {after}: {said}").format(before=before or "-", after=after, said=said))

    asyncio.run(run())


@cli.command("setup-link")
def setup_link() -> None:
    """Print a new one-time link that makes the first administrator."""

    async def run(services: Any) -> None:
        token = await services.accounts.issue_setup_token()
        if token is None:
            raise click.ClickException(
                _("this console is already set up; add people with: tuneplane-server user add NAME")
            )
        click.echo(f"{services.public_address}/setup?token={token}")

    _with_services(run)


@cli.command()
@click.option(
    "--probe", is_flag=True, help="Also submit a tiny job to each Slurm partition, which looks from a compute node."
)
@click.option("--partition", multiple=True, help="With --probe: only this partition; may be given more than once.")
@click.option(
    "--wait", type=click.IntRange(5, 3600), default=120, show_default=True, help="With --probe: longest wait, seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(probe: bool, partition: tuple[str, ...], wait: int, as_json: bool) -> None:
    """Check settings, database, storage and executor; exit 1 when something stands in the way of jobs."""
    from tuneplane_server.doctor import examine, look_from_nodes

    settings = _settings()

    async def look() -> list[Finding]:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # the probe takes its jobs back
        found = await examine(settings)
        if not as_json:
            _print_findings(found)
        if not probe:
            return found
        more = await look_from_nodes(settings, partition, wait, lambda line: click.echo(line, err=True))
        if not as_json:
            _print_findings(more)
        return found + more

    try:
        findings = asyncio.run(look())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}, ensure_ascii=False, indent=2))
    if any(finding.level == "error" for finding in findings):
        raise click.exceptions.Exit(FAILED)


def _print_findings(findings: list[Finding]) -> None:
    marks = {"info": "ok ", "warning": "!  ", "error": "ERR"}
    for finding in findings:
        click.echo(f"{marks[finding.level]} {finding.text}")
        for line in (finding.detail, finding.hint):
            if line:
                click.echo(f"      {line}")


@cli.group()
def user() -> None:
    """People who may sign in."""


@user.command("add")
@click.argument("name")
@click.option("--admin", is_flag=True, help="Make them an administrator.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking.")
@click.option("--no-password", is_flag=True, help="Sign-in with tokens only.")
def user_add(name: str, admin: bool, password_stdin: bool, no_password: bool) -> None:
    """Add a user."""
    password = None
    if not no_password:
        password = (
            sys.stdin.readline().rstrip("\r\n")
            if password_stdin
            else click.prompt(_("Password"), hide_input=True, confirmation_prompt=True, err=True)
        )

    async def run(services: Any) -> None:
        added = await services.accounts.add_user(name, password, admin=admin, actor="system:cli")
        click.echo(_("added {name}").format(name=added.username))

    _with_services(run)


@user.command("ls")
def user_ls() -> None:
    """List users."""

    async def run(services: Any) -> None:
        for row in await services.accounts.users():
            marks = [_("administrator")] if row.admin else []
            marks += [_("disabled")] if row.disabled_at else []
            click.echo("  ".join([row.username, *marks]))

    _with_services(run)


@cli.group()
def token() -> None:
    """API tokens."""


@token.command("create")
@click.option("--user", "username", required=True, help="Whose token it is.")
@click.option("--name", default="cli", show_default=True, help="What it is for.")
@click.option(
    "--scope", "scopes", multiple=True, type=click.Choice(["read", "write", "admin"]), help="Default: read and write."
)
@click.option("--expires-in-days", type=click.IntRange(1, 3660), default=90, show_default=True)
def token_create(username: str, name: str, scopes: tuple[str, ...], expires_in_days: int) -> None:
    """Print a new token, once: only its digest is kept."""

    async def run(services: Any) -> None:
        owner = await services.accounts.user(username)
        wanted = list(scopes) or ["read", "write"]
        issued = await services.accounts.create_token(owner, name, wanted, expires_in_days, actor="system:cli")
        click.echo(issued.secret)

    _with_services(run)


@cli.group()
def runtime() -> None:
    """Python environments that play training images in process mode."""


@runtime.command("build")
@click.argument("runtime_id")
@click.option("--rebuild", is_flag=True, help="Replace one that has other packages; no job may be using it.")
def runtime_build(runtime_id: str, rebuild: bool) -> None:
    """Build the environment of a runtime from the catalog's pins."""
    from tuneplane_server.runtime_builds import build

    path = build(_settings(), runtime_id, lambda line: click.echo(line, err=True), rebuild=rebuild)
    click.echo(str(path))


@runtime.command("ls")
def runtime_ls() -> None:
    """List the catalog's runtimes and whether they are built."""
    from tuneplane_server.runtime_builds import listing

    for item in listing(_settings()):
        state = _("built") if item.built else _("nothing to build") if not item.requires else _("not built")
        click.echo(f"{item.runtime_id:<20} {state:<18} {', '.join(item.methods)}")


@runtime.command("verify")
@click.argument("runtime_id", required=False)
def runtime_verify(runtime_id: str | None) -> None:
    """Read the registry's SIF and SQSH files and compare them with their digests; exit 1 when one differs."""
    from tuneplane_server.runtime_checks import verify_files

    if not verify_files(_settings(), runtime_id, click.echo):
        raise click.exceptions.Exit(FAILED)


def _with_services(work: Callable[[Any], Awaitable[None]]) -> None:
    """Run a command on a migrated database; the console may be running beside it."""
    from tuneplane_server.db.migrations import upgrade
    from tuneplane_server.services import Services

    settings: Settings = _settings()

    async def run() -> None:
        services = Services(settings)
        try:
            await upgrade(services.database)
            await work(services)
        finally:
            await services.database.close()

    asyncio.run(run())


if __name__ == "__main__":
    main()
