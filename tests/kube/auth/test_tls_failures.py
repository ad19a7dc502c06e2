"""Certificates that have ended, or are not trusted: which one it is, and since when."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resettle.dumps.collection import list_cluster
from resettle.errors import ClusterError, ClusterUnreachable, Unauthorized
from resettle.kube.auth.access import Access
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.auth.tls import certificate_expiry, der_expiry
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Client
from resettle.testing import ApiServer, Fault
from tests.kube.auth.builders import document, written
from tests.kube.auth.fakes import Authority, Pair
from tests.kube.fakes import Listener, at_work

LONG_AGO = datetime(2021, 3, 4, 5, 6, 7, tzinfo=UTC)
FAR_OFF = datetime(2061, 3, 4, 5, 6, 7, tzinfo=UTC)


def list_by_api(access: Access) -> None:
    list_cluster(access, frozenset())


def list_by_client(access: Access) -> None:
    async def run_scenario() -> None:
        async with Client(access) as client:
            answer = await client.send("GET", "/api/v1/nodes", patience=0)
        if not answer.is_success:
            raise refusal_error(answer, "list", "nodes", access=access)

    asyncio.run(run_scenario())


Listing = Callable[[Access], None]
both_ways = pytest.mark.parametrize("lists", [list_by_api, list_by_client])


def access_to(url: str, authority: Authority, client: Pair, folder: Path) -> Access:
    user = {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    cluster = {"server": url, "certificate-authority": str(authority.certificate)}
    return read_kubeconfig(written(folder, document(cluster, user)))


# -- reading the end of a certificate ------------------------------------------------------------


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(LONG_AGO, id="of this half of the century"),
        pytest.param(FAR_OFF, id="of the other, which is written differently"),
    ],
)
def test_the_end_of_a_certificate_is_read(ends: datetime, authority: Authority) -> None:
    pem = authority.issued("any", ends=ends).certificate.read_bytes()

    assert certificate_expiry(b"a remark above it\n" + pem + pem) == ends


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no certificate", id="words"),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", id="an empty frame"
        ),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", id="no base64"
        ),
    ],
)
def test_what_is_no_certificate_has_no_end(pem: bytes) -> None:
    assert certificate_expiry(pem) is None


def test_no_part_of_a_certificate_is_mistaken_for_the_whole(client_pair: Pair) -> None:
    whole = ssl.PEM_cert_to_DER_cert(client_pair.certificate.read_text())

    assert der_expiry(whole) is not None
    assert {der_expiry(whole[:size]) for size in range(len(whole))} == {None}


# -- the server's --------------------------------------------------------------------------------


@both_ways
def test_an_expired_server_certificate_is_reported_with_the_time(
    lists: Listing, authority: Authority, client_pair: Pair, tmp_path: Path
) -> None:
    old = authority.issued("old-server", "127.0.0.1", ends=LONG_AGO)
    with ApiServer(tls=authority.guarding(old)) as server:
        access = access_to(server.url, authority, client_pair, tmp_path)
        with pytest.raises(ClusterUnreachable) as caught:
            lists(access)

    assert str(caught.value) == (
        f"{server.url} cannot be reached: its certificate expired at 2021-03-04T05:06:07Z; "
        "renew the certificate of the server"
    )


@both_ways
def test_a_server_of_another_authority_is_not_trusted(
    lists: Listing, authority: Authority, server_pair: Pair, client_pair: Pair, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "a stranger")
    with ApiServer(tls=authority.guarding(server_pair)) as server:
        access = access_to(server.url, stranger, client_pair, tmp_path)
        with pytest.raises(ClusterUnreachable) as caught:
            lists(access)

    before, _, after = str(caught.value).partition("(")
    assert before == f"{server.url} cannot be reached: its certificate is not trusted "
    assert after.partition("); ")[2] == (
        f"check `certificate-authority` and `tls-server-name` in {tmp_path}/config"
    )
    assert server.requests == []


# -- ours ----------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize(
    ("ends", "says"),
    [
        pytest.param(
            LONG_AGO,
            ": the client certificate in FILE expired at 2021-03-04T05:06:07Z; renew it",
            id="an old one",
        ),
        pytest.param(FAR_OFF, "; renew them", id="one that is still good"),
    ],
)
def test_an_expired_client_certificate_is_reported_when_a_server_rejects_it(
    lists: Listing,
    ends: datetime,
    says: str,
    authority: Authority,
    server_pair: Pair,
    tmp_path: Path,
) -> None:
    """As kube-apiserver does: it takes note of a certificate, and says 401 afterwards."""
    ours = authority.issued("ours", ends=ends)
    tls = authority.guarding(server_pair)
    with ApiServer(tls=tls, faults=[Fault(status=401, times=9)]) as server:
        access = access_to(server.url, authority, ours, tmp_path)
        with pytest.raises(Unauthorized) as caught:
            lists(access)

    message = f"{server.url} does not accept the credentials{says}"
    assert str(caught.value) == message.replace("FILE", f"{tmp_path}/config")


@both_ways
@pytest.mark.parametrize(
    ("ends", "says"),
    [
        pytest.param(
            LONG_AGO,
            "the client certificate in FILE expired at 2021-03-04T05:06:07Z; renew it",
            id="an old one",
        ),
        pytest.param(
            FAR_OFF,
            "it does not accept the client certificate (unknown ca); "
            "check `client-certificate` in FILE",
            id="one of another authority",
        ),
    ],
)
def test_a_server_that_hangs_up_on_our_certificate_has_done_nothing(
    lists: Listing,
    ends: datetime,
    says: str,
    authority: Authority,
    server_pair: Pair,
    tmp_path: Path,
) -> None:
    """As proxies in front of an API server do."""
    issuer = Authority(tmp_path, "a stranger") if ends == FAR_OFF else authority
    ours = issuer.issued("ours", ends=ends)
    tls = authority.guarding(server_pair, clients=True)
    # Before TLS 1.3 a server refuses a client within the handshake, where nothing can overtake it.
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with at_work(Listener(tls=tls)) as front:
        access = access_to(front.url, authority, ours, tmp_path)
        with pytest.raises(ClusterError) as caught:
            lists(access)

    assert (type(caught.value), front.request_headers) == (ClusterUnreachable, [])
    message = f"{front.url} cannot be reached: {says}"
    assert str(caught.value) == message.replace("FILE", f"{tmp_path}/config")


@both_ways
def test_a_closed_connection_is_also_reported_as_an_expired_certificate(
    lists: Listing, authority: Authority, server_pair: Pair, tmp_path: Path
) -> None:
    ours = authority.issued("ours", ends=LONG_AGO)
    with ApiServer(tls=authority.guarding(server_pair, clients=True)) as server:
        access = access_to(server.url, authority, ours, tmp_path)
        with pytest.raises(ClusterUnreachable) as caught:
            lists(access)

    message = f"the client certificate in {tmp_path}/config expired at 2021-03-04T05:06:07Z"
    assert message in str(caught.value)
