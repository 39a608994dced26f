"""Everything an endpoint may use, built on first use and reached through `request.app.state.services`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tuneplane.recipes.index import parse_recipe_path
from tuneplane_node.agent_token import AgentToken
from tuneplane_server.executors.port import Executor
from tuneplane_server.features.accounts.limits import RateLimits
from tuneplane_server.features.accounts.service import AccountService
from tuneplane_server.features.accounts.sessions import SessionSigner, load_key
from tuneplane_server.features.alerts.firing import AlertWriter
from tuneplane_server.features.alerts.service import AlertService
from tuneplane_server.features.alerts.webhooks import WebhookService
from tuneplane_server.features.artifacts.service import ArtifactService
from tuneplane_server.features.audit.service import AuditService
from tuneplane_server.features.catalog.published import PublishedRecipes
from tuneplane_server.features.catalog.service import CatalogService
from tuneplane_server.features.evaluation.service import EvaluationService
from tuneplane_server.features.governance.service import GovernanceService
from tuneplane_server.features.governance.usage import UsageService
from tuneplane_server.features.hardware.figures import HardwareFigures
from tuneplane_server.features.hardware.service import HardwareService
from tuneplane_server.features.ingest.gate import Gate
from tuneplane_server.features.ingest.service import IngestService
from tuneplane_server.features.jobs.exporting import JobExports
from tuneplane_server.features.jobs.follow_ups import FollowUps
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.planning import Planner
from tuneplane_server.features.jobs.resume_points import ResumePoints
from tuneplane_server.features.jobs.run_outputs import RunOutputsOfJobs
from tuneplane_server.features.jobs.service import JobService
from tuneplane_server.features.jobs.signals import LedgerSignals
from tuneplane_server.features.jobs.steering import JobSteering
from tuneplane_server.features.jobs.submission import Submissions
from tuneplane_server.features.nodes.pinned import PinnedImages
from tuneplane_server.features.nodes.service import NodeRules, NodesService
from tuneplane_server.features.packages.service import PackageService
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.features.queue.service import QueueService
from tuneplane_server.features.retention.service import RetentionService
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.features.runtimes.service import RuntimesService
from tuneplane_server.features.sweeps.progress import SweepProgress
from tuneplane_server.features.sweeps.service import SweepService
from tuneplane_server.features.sweeps.values import Values
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.footing import Footing
from tuneplane_server.sealing import Sealer, load_sealer
from tuneplane_server.slurm_settings import SlurmSettings, slurm_settings

if TYPE_CHECKING:
    from tuneplane_server.background.duty import Duty
    from tuneplane_server.background.roles import BackgroundRoles

MIB = 1024 * 1024


@dataclass
class Services(Footing):
    """The features' services."""

    @cached_property
    def executor(self) -> Executor:
        if self.given_executor is not None:
            return self.given_executor
        if self.slurm is not None:
            from tuneplane_server.executors.slurm.building import build_slurm

            return build_slurm(self.settings, self.slurm, self.clock, self.instance)
        from tuneplane_server.executors.local import LocalExecutor

        if self.agent_token is None:
            return LocalExecutor(self.settings, self.instance)
        from tuneplane_server.executors.agent.building import build_agent

        return build_agent(
            self.settings, self.nodes, self.agent_token, self.clock, self.instance, lambda *run: self.ingest.heard(*run)
        )

    # --- features -------------------------------------------------------------------------------------------------

    @cached_property
    def audit(self) -> AuditService:
        return AuditService(self.database, self.clock)

    @cached_property
    def accounts(self) -> AccountService:
        secret = self.settings.web_jwt_secret
        key = load_key(secret.get_secret_value() if secret else None, self.settings.state_dir / "session.key")
        lifetime = timedelta(hours=self.settings.session_hours)
        limits = RateLimits(self.redis_url)
        return AccountService(self.database, self.clock, SessionSigner(key, lifetime), self.audit, limits)

    @cached_property
    def projects(self) -> ProjectService:
        return ProjectService(self.database, self.clock)

    @cached_property
    def catalog(self) -> CatalogService:
        recipes = PublishedRecipes(self.storage.recipes)
        return CatalogService(parse_recipe_path(self.settings.recipe_path), recipes, self.audit)

    @cached_property
    def registry(self) -> RuntimeRegistry:
        return RuntimeRegistry(self.settings.runtime_registry_file, self.findings)

    @cached_property
    def runtimes(self) -> RuntimesService:
        return RuntimesService(self.settings, self.catalog, self.executor, self.registry)

    @cached_property
    def hardware(self) -> HardwareService:
        return HardwareService(self.database, self.clock, self.executor)

    @cached_property
    def agent_token(self) -> AgentToken | None:
        """The secret that console and nodes share; None where no node is used. Raises `NodeError` when it is missing or unusable."""
        if self.settings.executor != "agent":
            return None
        text = self.settings.agent_token
        return AgentToken("" if text is None else text.get_secret_value(), self.settings.agent_token_file)

    @cached_property
    def slurm(self) -> SlurmSettings | None:
        """None where jobs do not go to Slurm. Raises `SettingsError` that names everything that is missing."""
        return slurm_settings(self.settings)

    @cached_property
    def nodes(self) -> NodesService:
        lost = self.settings.node_lost_seconds
        rules = NodeRules(
            used=self.settings.executor == "agent",
            lost_after=timedelta(seconds=lost) if lost else None,
            pinned_images=PinnedImages(self.settings, self.registry).images,
        )
        return NodesService(self.database, self.clock, self.audit, lambda: self.hardware, self.wakeups, rules)

    @cached_property
    def figures(self) -> HardwareFigures:
        fresh = timedelta(seconds=max(60.0, 3 * self.settings.hardware_seconds))
        return HardwareFigures(self.database, self.clock, fresh)

    @cached_property
    def governance(self) -> GovernanceService:
        return GovernanceService(
            self.database, self.clock, self.audit, self.accounts, self.projects, self.hardware, self.wakeups
        )

    @cached_property
    def usage(self) -> UsageService:
        return UsageService(
            self.database,
            self.clock,
            self.governance,
            self.accounts,
            self.projects,
            self.artifacts,
            self.telemetry,
            lambda: self.jobs,
        )

    # --- alerts ---------------------------------------------------------------------------------------------------

    @cached_property
    def sealer(self) -> Sealer:
        key = self.settings.secrets_key
        return load_sealer(None if key is None else key.get_secret_value(), self.settings.state_dir / "secrets.key")

    @cached_property
    def alerts(self) -> AlertService:
        return AlertService(self.database, self.clock, self.projects, self.audit)

    @cached_property
    def alert_writer(self) -> AlertWriter:
        return AlertWriter(self.clock, lambda: self.public_address)

    @cached_property
    def webhooks(self) -> WebhookService:
        return WebhookService(
            self.database,
            self.clock,
            self.projects,
            self.audit,
            self.sealer,
            self.alert_writer,
            self.wakeups,
            self.settings.webhook_hosts,
        )

    @cached_property
    def packages(self) -> PackageService:
        return PackageService(self.database, self.clock, self.store, self.settings.package_max_mb * MIB)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.database, self.clock, self.wakeups)

    @cached_property
    def run_outputs(self) -> RunOutputsOfJobs:
        return RunOutputsOfJobs(lambda: self.jobs, self.storage, lambda job_id: self.artifacts.checkpoints(job_id))

    @cached_property
    def planner(self) -> Planner:
        return Planner(
            self.settings,
            self.storage,
            self.executor,
            self.catalog,
            self.hardware,
            self.packages,
            self.run_outputs,
            self.usage,
            self.registry,
            self.slurm,
        )

    @cached_property
    def submissions(self) -> Submissions:
        return Submissions(self.database, self.clock, self.planner, self.projects, self.audit, self.queue, self.wakeups)

    @cached_property
    def jobs(self) -> JobService:
        return JobService(self.database, self.submissions, self.ledger, self.audit)

    @cached_property
    def resume_points(self) -> ResumePoints:
        return ResumePoints(self.database, self.storage, lambda job_id: self.artifacts.checkpoints(job_id))

    @cached_property
    def steering(self) -> JobSteering:
        return JobSteering(self.jobs, self.ledger, self.submissions, self.resume_points, self.audit)

    @cached_property
    def exports(self) -> JobExports:
        checkpoints = self.artifacts.checkpoints
        return JobExports(self.jobs, self.submissions, self.catalog, self.hardware, self.run_outputs, checkpoints)

    @cached_property
    def follow_ups(self) -> FollowUps:
        return FollowUps(self.database, self.exports, self.ledger, self.accounts, lambda: self.ingest_address)

    @cached_property
    def queue(self) -> QueueService:
        return QueueService(self.database, self.clock, self.hardware, self.governance, self.callers)

    # --- sweeps ---------------------------------------------------------------------------------------------------

    @cached_property
    def sweeps(self) -> SweepService:
        return SweepService(
            self.database, self.clock, self.catalog, self.submissions, self.projects, self.audit, self.wakeups
        )

    @cached_property
    def sweep_progress(self) -> SweepProgress:
        return SweepProgress(
            self.database,
            self.clock,
            self.submissions,
            self.ledger,
            Values(self.telemetry),
            self.accounts,
            self.wakeups,
            lambda: self.ingest_address,
        )

    # --- telemetry and artifacts of runs --------------------------------------------------------------------------

    @cached_property
    def telemetry(self) -> TelemetryService:
        limits = TelemetryLimits(log_bytes=self.settings.log_quota_mb * MIB)
        return TelemetryService(self.database, self.clock, self.wakeups, limits)

    @cached_property
    def retention(self) -> RetentionService:
        return RetentionService(
            self.database,
            self.clock,
            self.audit,
            self.projects,
            lambda: self.jobs,
            self.ledger,
            self.telemetry,
            self.figures,
        )

    @cached_property
    def ingest(self) -> IngestService:
        signals = LedgerSignals(self.jobs, self.wakeups)
        return IngestService(self.database, self.clock, self.telemetry, self.audit, signals)

    @cached_property
    def ingest_gate(self) -> Gate:
        return Gate()

    @cached_property
    def artifacts(self) -> ArtifactService:
        return ArtifactService(self.database, self.clock, self.storage)

    @cached_property
    def evaluations(self) -> EvaluationService:
        return EvaluationService(self.database, self.clock)

    async def latest_metrics(self, job_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Run -> metric -> {step, value, time} of the main rank."""
        return await self.telemetry.latest_of(job_ids)

    # --- background -----------------------------------------------------------------------------------------------

    @cached_property
    def roles(self) -> BackgroundRoles:
        from tuneplane_server.background.wiring import build_roles

        return build_roles(self)

    @cached_property
    def duty(self) -> Duty:
        from tuneplane_server.background.wiring import build_duty

        return build_duty(self)
