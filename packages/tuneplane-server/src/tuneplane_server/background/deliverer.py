"""The deliverer: sends what waits for webhooks, and notes how each try went. One delivery is one row: a slow receiver holds up nobody."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.clock import Clock
from tuneplane_server.domain import webhooks as rules
from tuneplane_server.features.alerts.firing import TEST_EVENT
from tuneplane_server.features.alerts.sending import Sender
from tuneplane_server.features.alerts.webhooks import WebhookService
from tuneplane_server.sealing import SealError

log = structlog.get_logger(__name__)

AT_ONCE = 100
PRUNE_EVERY = timedelta(hours=1)


class Deliverer:
    name = "deliverer"
    topics = ("deliverer",)
    interval = 5.0

    def __init__(self, clock: Clock, webhooks: WebhookService, sender: Sender) -> None:
        self._clock, self._webhooks, self._sender = clock, webhooks, sender
        self._pruned: datetime | None = None
        self.sent: dict[str, int] = {"delivered": 0, "failed": 0}  # tries of this process

    async def due(self) -> Sequence[Work]:
        now = self._clock.now()
        if self._pruned is None or now - self._pruned >= PRUNE_EVERY:
            await self._webhooks.prune()
            self._pruned = now
        return [Work(delivery_id, delivery_id) for delivery_id in await self._webhooks.due(AT_ONCE)]

    async def handle(self, work: Work, lease: Lease) -> None:
        """Sent at least once: a crash between the answer and its note sends it again, under the same id."""
        try:
            outgoing = await self._webhooks.outgoing(work.item)
        except SealError as error:
            log.error("a webhook's secret does not open", delivery=work.item, why=str(error))
            await self._webhooks.give_up(work.item, str(error))
            return
        if outgoing is None:
            return
        if not outgoing.webhook.enabled and outgoing.row.event != TEST_EVENT:
            await self._webhooks.give_up(work.item, "the webhook is off")
            return
        body = outgoing.row.body.encode()
        timestamp = int(self._clock.now().timestamp())
        headers = rules.headers(outgoing.secret, outgoing.row.message_id, timestamp, body)
        sent = await self._sender.send(outgoing.webhook.url, headers, body)
        self.sent["delivered" if sent.delivered else "failed"] += 1
        await self._webhooks.note(outgoing.row, sent)

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it and lets the row rest."""
