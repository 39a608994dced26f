"""Jobs report to an address that their machine can reach: loopback only when they run on the console's machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if not context.capabilities.on_this_machine and is_loopback(context.ingest_address):
        yield Refusal(
            "ingest-url",
            _("jobs would report to {address}, which on their own machine is themselves").format(
                address=context.ingest_address
            ),
            _("the console's administrator sets TUNEPLANE_INGEST_URL to an address that every node reaches"),
        )


def is_loopback(address: str) -> bool:
    """Whether the host of a URL is the machine it is used on."""
    host = urlsplit(address).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified
