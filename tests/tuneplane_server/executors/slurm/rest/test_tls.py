"""slurmrestd behind TLS, with an authority of the cluster's own."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from tests.certificates import self_signed
from tests.tuneplane_server.executors.slurm.rest.servers import answers, server
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, signed by itself, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"), x509.IPAddress(ip_address("127.0.0.1")))


@pytest.fixture
def context(certificate: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    return made


async def test_the_authority_of_the_setting_is_believed_and_no_other(
    certificate: Path, context: ssl.SSLContext
) -> None:
    async with server(answers({}), context) as there:
        client = SlurmClient(there.url, "tester", "token", ca_file=certificate, connect_seconds=1)
        assert await client.discover() == "v0.0.42"
        await client.close()
        stranger = SlurmClient(there.url, "tester", "secret-token")
        with pytest.raises(SlurmError, match="certificate is not trusted") as problem:
            await stranger.jobs()
        await stranger.close()
    assert problem.value.kind == "unreachable"
    assert [asked.headers["x-slurm-user-token"] for asked in there.asked] == ["token"]


async def test_the_wrong_scheme_is_told(certificate: Path, context: ssl.SSLContext) -> None:
    async with server(answers({}), context) as there:
        plain = SlurmClient(there.url.replace("https", "http"), "tester", "token", connect_seconds=1)
        with pytest.raises(SlurmError, match="use https://"):
            await plain.jobs()
        await plain.close()
    async with server(answers({})) as there:
        secure = SlurmClient(
            there.url.replace("http", "https"), "tester", "token", ca_file=certificate, connect_seconds=1
        )
        with pytest.raises(SlurmError, match="use http://"):
            await secure.jobs()
        await secure.close()
