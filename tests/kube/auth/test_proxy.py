"""Proxies: which one leads to a server, and that requests of both kinds go through it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from resettle.errors import ClusterUnreachable, InputError
from resettle.kube.auth.access import Access
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.auth.proxy import proxy_for
from resettle.testing import ApiServer
from tests.kube.auth.builders import document, written
from tests.kube.auth.fakes import Authority, Pair
from tests.kube.auth.test_tls_failures import Listing, both_ways
from tests.kube.fakes import Listener, Proxy, at_work

PROXY = "http://proxy.example:3128"


# -- which one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        pytest.param("https://a.example", {}, "", id="none is named"),
        pytest.param("https://a.example", {"HTTPS_PROXY": PROXY}, PROXY, id="for https"),
        pytest.param("https://a.example", {"https_proxy": PROXY}, PROXY, id="in lower case"),
        pytest.param("https://a.example", {"HTTP_PROXY": PROXY}, "", id="not that for http"),
        pytest.param("http://a.example", {"HTTP_PROXY": PROXY}, PROXY, id="for http"),
        pytest.param("http://a.example", {"HTTPS_PROXY": PROXY}, "", id="not that for https"),
        pytest.param(
            "https://a.example", {"HTTPS_PROXY": "p.example:1"}, "http://p.example:1", id="bare"
        ),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, "", id="not for loopback"),
        pytest.param("https://localhost", {"HTTPS_PROXY": PROXY}, "", id="nor for localhost"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="nor in IPv6"),
    ],
)
def test_the_environment_names_a_proxy(
    server: str, environment: dict[str, str], proxy: str
) -> None:
    assert proxy_for(server, environment) == proxy


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        pytest.param("https://a.example", "*", True, id="everything"),
        pytest.param("https://a.example", "a.example", True, id="the name"),
        pytest.param("https://a.example", "b.example, A.Example", True, id="among others"),
        pytest.param("https://x.a.example", "a.example", True, id="a name below it"),
        pytest.param("https://x.a.example", ".a.example", True, id="a name below the dot"),
        pytest.param("https://a.example", ".a.example", False, id="not the domain itself"),
        pytest.param("https://aa.example", "a.example", False, id="not a longer name"),
        pytest.param("https://a.example:6443", "a.example:6443", True, id="with the port"),
        pytest.param("https://a.example:6443", "a.example:443", False, id="with another port"),
        pytest.param("https://a.example", "a.example:443", True, id="with the port of https"),
        pytest.param("https://10.1.2.3", "10.0.0.0/8", True, id="a network"),
        pytest.param("https://11.1.2.3", "10.0.0.0/8", False, id="another network"),
        pytest.param("https://10.1.2.3", "10.1.2.3", True, id="an address"),
        pytest.param("https://[fd00::1]", "fd00::/8", True, id="a network of IPv6"),
        pytest.param("https://a.example", "10.0.0.0/8", False, id="a network and a name"),
        pytest.param("https://a.example", ",", False, id="nothing"),
    ],
)
def test_no_proxy_spares_what_it_names(server: str, exceptions: str, direct: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}

    assert proxy_for(server, environment) == ("" if direct else PROXY)


@pytest.mark.parametrize(
    "proxy", ["socks5://p.example", "https://p.example", "http://", "http://p:x"]
)
def test_a_proxy_of_another_kind_is_an_error_that_names_the_place(
    proxy: str, tmp_path: Path
) -> None:
    file = written(tmp_path, document({"server": "https://a.example", "proxy-url": proxy}))
    says = "only http proxies are supported, written as http://proxy:3128"

    with pytest.raises(InputError) as caught:
        read_kubeconfig(file)
    assert str(caught.value) == f"{file}: `proxy-url`: {says}"
    with pytest.raises(InputError) as caught:
        proxy_for("https://a.example", {"HTTPS_PROXY": proxy})
    assert str(caught.value) == f"$HTTPS_PROXY: {says}"


# -- through it ----------------------------------------------------------------------------------


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@both_ways
@pytest.mark.parametrize(
    "by",
    [pytest.param("proxy-url", id="the kubeconfig"), pytest.param("HTTPS_PROXY", id="a variable")],
)
def test_https_is_tunnelled_and_the_server_still_verified(
    lists: Listing,
    by: str,
    authority: Authority,
    server_pair: Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is looked up by the proxy: here it exists nowhere else."""
    cluster = {
        "server": "https://api.example:6443",
        "certificate-authority": str(authority.certificate),
    }
    with (
        ApiServer(tls=authority.guarding(server_pair), token="t") as server,
        at_work(Proxy(port_of(server.url))) as proxy,
    ):
        if by == "HTTPS_PROXY":
            monkeypatch.setenv(by, proxy.url)
        else:
            cluster[by] = proxy.url
        lists(read_kubeconfig(written(tmp_path, document(cluster, {"token": "t"}))))

    assert set(proxy.asked) == {"CONNECT api.example:6443"}
    assert {asked.token for asked in server.requests} == {"t"}


@both_ways
def test_plain_http_is_asked_for_by_its_whole_address(lists: Listing) -> None:
    with ApiServer() as server, at_work(Proxy(port_of(server.url))) as proxy:
        lists(Access(server="http://api.example:8080", proxy=proxy.url))

    assert proxy.asked[0].startswith("GET http://api.example:8080/api/v1/nodes")


@both_ways
@pytest.mark.parametrize("server", ["http://api.example", "https://127.0.0.2:1"])
def test_a_proxy_gets_the_credentials_in_its_address(
    lists: Listing,
    server: str,
    authority: Authority,
    server_pair: Pair,
    tmp_path: Path,
) -> None:
    secure = server.startswith("https")
    tls = authority.guarding(server_pair) if secure else None
    with ApiServer(tls=tls) as api_server, at_work(Proxy(port_of(api_server.url))) as proxy:
        cluster = {
            "server": server,
            "certificate-authority": str(authority.certificate),
            "tls-server-name": "api.example",
            "proxy-url": proxy.url.replace("://", "://ann:p%40ss@"),
        }
        lists(read_kubeconfig(written(tmp_path, document(cluster))))

    assert set(proxy.credentials) == {f"Basic {base64.b64encode(b'ann:p@ss').decode()}"}


@both_ways
def test_a_proxy_that_refuses_leaves_the_server_unreachable(
    lists: Listing, authority: Authority, tmp_path: Path
) -> None:
    with at_work(Proxy(1, refuses=403)) as proxy:
        cluster = {"server": "https://api.example", "proxy-url": proxy.url}
        access = read_kubeconfig(written(tmp_path, document(cluster)))
        with pytest.raises(
            ClusterUnreachable, match=r"https://api\.example cannot be reached: .*403"
        ):
            lists(access)


# -- headers -------------------------------------------------------------------------------------


@both_ways
def test_each_request_names_the_impersonated_user(lists: Listing, tmp_path: Path) -> None:
    user = {"token": "t", "as": "ann", "as-groups": ["a", "b"]}
    with at_work(Listener()) as listener:
        lists(read_kubeconfig(written(tmp_path, document({"server": listener.url}, user))))

    assert listener.request_headers
    for headers in listener.request_headers:
        named = [pair for pair in headers if pair[0].startswith("Impersonate-")]
        assert named == [
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
        ]
        assert ("Authorization", "Bearer t") in headers
