"""The proxy for a server, from the environment: HTTPS_PROXY, HTTP_PROXY, NO_PROXY.

Read as other Kubernetes clients read them: names in lower case count as well, and servers on this
machine are never reached through a proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from resettle.errors import InputError


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The proxy for a server, empty for none."""
    address = urlsplit(server)
    host = (address.hostname or "").lower()
    port = address.port or (443 if address.scheme == "https" else 80)
    name = f"{address.scheme}_proxy"
    proxy = _variable(environment, name)
    exceptions = _variable(environment, "no_proxy")
    if not proxy or _is_loopback(host) or _is_excluded(host, port, exceptions):
        return ""
    return check_proxy(proxy if "://" in proxy else f"http://{proxy}", f"${name.upper()}")


def check_proxy(proxy: str, where: str) -> str:
    """The address of the proxy; raises if it cannot be used, naming `where` it was read from."""
    try:
        address = urlsplit(proxy)
        usable = address.scheme == "http" and bool(address.hostname) and address.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{where}: only http proxies are supported, written as http://proxy:3128")
    return proxy


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name.upper()) or environment.get(name) or "").strip()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _is_excluded(host: str, port: int, exceptions: str) -> bool:
    return any(_covers(part.strip().lower(), host, port) for part in exceptions.split(","))


def _covers(exception: str, host: str, port: int) -> bool:
    """Whether `*`, a network, an address, or a domain with all below it covers the host."""
    if exception == "*":
        return True
    with suppress(ValueError):
        network = ipaddress.ip_network(exception.strip("[]"), strict=False)
        return ipaddress.ip_address(host) in network
    domain, _, wanted = exception.rpartition(":") if ":" in exception else (exception, "", "")
    if not domain or (wanted and wanted != str(port)):
        return False
    bare = domain.strip("[]").removeprefix("*").removeprefix(".")
    if domain.startswith((".", "*.")):
        return host.endswith(f".{bare}")
    return host == bare or host.endswith(f".{bare}")
