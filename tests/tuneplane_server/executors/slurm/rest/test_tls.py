"""slurmrestd behind TLS, with an authority of the cluster's own."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.tuneplane_server.executors.slurm.rest.servers import answers, server
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


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
