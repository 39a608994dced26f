"""The calls of a project's alerts and webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote

from tuneplane.client.http import Console


class Rule(TypedDict):
    """A field that the kind has no use for is None. `origin`: default, changed or own."""

    name: str
    kind: str
    enabled: bool
    text: NotRequired[str]
    metric: NotRequired[str | None]
    threshold: NotRequired[float | None]
    minutes: NotRequired[float | None]
    reports: NotRequired[int | None]
    origin: NotRequired[str]


class Firing(TypedDict):
    rule: str
    job_id: str
    since: str
    text: NotRequired[str]


class Alerts(TypedDict):
    rules: list[Rule]
    firing: list[Firing]


class Webhook(TypedDict):
    id: str
    url: str
    enabled: bool
    description: NotRequired[str]
    events: NotRequired[list[str]]
    disabled_why: NotRequired[str]


class WebhookList(TypedDict):
    items: list[Webhook]


class NewWebhook(TypedDict):
    """`secret` is told this one time."""

    webhook: Webhook
    secret: str


class Try(TypedDict):
    at: str
    status: NotRequired[int | None]
    error: NotRequired[str]
    milliseconds: NotRequired[int]


class Delivery(TypedDict):
    id: str
    event: str
    state: str
    created_at: str
    tries: list[Try]
    next_at: NotRequired[str | None]


class DeliveryPage(TypedDict):
    items: list[Delivery]
    next_cursor: NotRequired[str | None]


class AlertConsole(Console):
    """`project` is `<owner>/<name>` everywhere."""

    def alerts(self, project: str) -> Alerts:
        return self._get(f"{_place(project)}/alerts", Alerts)

    def set_alert(self, project: str, name: str, given: dict[str, Any]) -> Rule:
        """Make a rule or change one; what is not given stays as it is."""
        return self._call("PUT", f"{_place(project)}/alerts/{_part(name)}", Rule, json=given, repeat=True)

    def remove_alert(self, project: str, name: str) -> None:
        self._call("DELETE", f"{_place(project)}/alerts/{_part(name)}", None)

    def webhooks(self, project: str) -> list[Webhook]:
        answer: WebhookList = self._get(f"{_place(project)}/webhooks", WebhookList)
        return answer["items"]

    def add_webhook(self, project: str, url: str, description: str, events: Sequence[str]) -> NewWebhook:
        body = {"url": url, "description": description, "events": list(events)}
        return self._post(f"{_place(project)}/webhooks", body, NewWebhook)

    def remove_webhook(self, project: str, webhook: str) -> None:
        self._call("DELETE", f"{_place(project)}/webhooks/{_part(webhook)}", None)

    def test_webhook(self, project: str, webhook: str) -> Delivery:
        """How it went is in `deliveries` a moment later."""
        return self._post(f"{_place(project)}/webhooks/{_part(webhook)}/test", {}, Delivery)

    def iterate_deliveries(self, project: str, webhook: str) -> Iterator[Delivery]:
        """The newest first."""
        path = f"{_place(project)}/webhooks/{_part(webhook)}/deliveries"
        return self._pages(lambda cursor: self._get(path, DeliveryPage, {"cursor": cursor}))


def _place(project: str) -> str:
    owner, _slash, name = project.partition("/")
    return f"/projects/{_part(owner)}/{_part(name)}"


def _part(name: str) -> str:
    return quote(name, safe="")
