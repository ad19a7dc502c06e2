"""Certificates: given, renewed, broken, or made here."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from resettle.errors import InputError
from resettle.https import Tls
from resettle.https.certificates import context_factory
from resettle.kube.auth.tls import der_expiry
from resettle.testing import ManualClock
from tests.kube.auth.fakes import Authority

from .harness import HttpsClient, play, replace_file, serving, trust_all


def in_files(folder: Path, name: str = "first") -> tuple[Authority, Tls]:
    """An authority, and the certificate it gave out."""
    authority = Authority(folder, "authority")
    pair = authority.issued(name, "127.0.0.1", "localhost")
    replace_file(pair.certificate, folder / "tls.crt")
    replace_file(pair.key, folder / "tls.key")
    tls = Tls(certificate_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"))
    return authority, tls


async def shown(port: int, trust: ssl.SSLContext | None = None) -> bytes:
    client = HttpsClient(port, trust)
    try:
        return await client.certificate()
    finally:
        client.close()


def test_a_certificate_from_files_is_trusted_by_clients_of_its_authority(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        authority, tls = in_files(tmp_path)
        async with serving(tls=tls) as server:
            trust = ssl.create_default_context(cafile=str(authority.certificate))
            assert await shown(server.port, trust)

    play(run_scenario())


@pytest.mark.parametrize("by_folder", [False, True], ids=["files", "a folder"])
def test_a_certificate_that_is_renewed_is_shown_to_the_next_client(
    tmp_path: Path, by_folder: bool
) -> None:
    async def run_scenario() -> None:
        authority, tls = in_files(tmp_path)
        log: list[str] = []
        async with serving(tls=Tls(folder=str(tmp_path)) if by_folder else tls, log=log) as server:
            before = await shown(server.port)
            assert await shown(server.port) == before
            renewed = authority.issued("second", "127.0.0.1")
            replace_file(renewed.certificate, tmp_path / "tls.crt")
            replace_file(renewed.key, tmp_path / "tls.key")
            assert await shown(server.port) not in (b"", before)
            assert len([line for line in log if "certificate loaded" in line]) == 1

    play(run_scenario())


@pytest.mark.parametrize("harm", ["half", "gone", "another's key"])
def test_files_that_turn_bad_leave_the_last_good_certificate_in_force(
    tmp_path: Path, harm: str
) -> None:
    async def run_scenario() -> None:
        authority, tls = in_files(tmp_path)
        log: list[str] = []
        async with serving(tls=tls, log=log) as server:
            before = await shown(server.port)
            if harm == "half":
                (tmp_path / "tls.crt").write_bytes((tmp_path / "tls.crt").read_bytes()[:100])
            elif harm == "gone":
                (tmp_path / "tls.key").unlink()
            else:
                replace_file(authority.issued("other", "127.0.0.1").key, tmp_path / "tls.key")
            for _ in range(2):
                assert await shown(server.port) == before
            assert len([line for line in log if "certificate not loaded" in line]) == 1

    play(run_scenario())


def test_files_that_cannot_be_used_at_the_start_are_an_error(tmp_path: Path) -> None:
    async def run_scenario(tls: Tls, says: str) -> None:
        with pytest.raises(InputError, match=says):
            async with serving(tls=tls):
                pass

    none = str(tmp_path / "none")
    play(
        run_scenario(Tls(certificate_file=none, key_file=none), "No such file or directory: .*none")
    )
    _, tls = in_files(tmp_path)
    (tmp_path / "tls.key").write_text("nonsense")
    play(run_scenario(tls, r"tls\.crt and .*tls\.key are no certificate in PEM and its key"))


def test_without_any_a_certificate_is_made_once_and_renewed_before_it_ends() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with serving(clock=clock) as server:
            first = await shown(server.port)
            assert await shown(server.port) == first
            ends = der_expiry(first)
            assert ends is not None
            clock.advance(ends - clock.now() - timedelta(days=1))
            later = der_expiry(await shown(server.port))
            assert later is not None
            assert later > ends

    play(run_scenario())


def test_a_folder_may_be_filled_later(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        folder = tmp_path / "later"
        log: list[str] = []
        async with serving(tls=Tls(folder=str(folder)), log=log) as server:
            own = await shown(server.port)
            assert len([line for line in log if "certificate not loaded" in line]) == 1
            folder.mkdir()
            in_files(folder)
            assert await shown(server.port) not in (b"", own)

    play(run_scenario())


def test_a_client_too_old_gets_nowhere() -> None:
    async def run_scenario() -> None:
        old = trust_all()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        async with serving() as server:
            assert await shown(server.port, old)
        async with serving(tls=Tls(min_version="VersionTLS13")) as server:
            with pytest.raises(OSError, match=r".*"):
                await shown(server.port, old)

    play(run_scenario())


def test_the_cipher_that_is_named_is_the_one_that_is_used() -> None:
    async def run_scenario() -> None:
        old = trust_all()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)
        async with serving(tls=Tls(cipher_suites=suites)) as server:
            client = HttpsClient(server.port, old)
            await client.certificate()
            assert isinstance(client.connection.sock, ssl.SSLSocket)
            used = client.connection.sock.cipher()
            assert used is not None
            assert used[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
            client.close()

    play(run_scenario())


def test_suites_of_tls_1_3_alone_mean_tls_1_3_alone() -> None:
    context = context_factory(Tls(cipher_suites=("TLS_AES_128_GCM_SHA256",)))()

    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


def test_a_misspelt_suite_is_an_error_that_names_the_likely_one() -> None:
    with pytest.raises(InputError, match=r"did you mean `TLS_RSA_WITH_AES_128_GCM_SHA256`\?"):
        context_factory(Tls(cipher_suites=("TLS_RSA_WITH_AES_128_GCM_SHA25",)))
