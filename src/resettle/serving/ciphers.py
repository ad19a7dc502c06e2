"""Cipher suites by the names that Kubernetes' flags have for them, and OpenSSL's for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from resettle.errors import InputError
from resettle.policy.problem import did_you_mean

ALWAYS_ON = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Suites of TLS 1.3: there is no choosing among them, here or in Go."""


def _with_exchange(exchange: str, openssl: str) -> Iterator[tuple[str, str]]:
    before, ours = f"TLS_{exchange}_WITH", f"{openssl}-" if openssl else ""
    yield f"{before}_AES_128_GCM_SHA256", f"{ours}AES128-GCM-SHA256"
    yield f"{before}_AES_256_GCM_SHA384", f"{ours}AES256-GCM-SHA384"
    yield f"{before}_AES_128_CBC_SHA", f"{ours}AES128-SHA"
    yield f"{before}_AES_256_CBC_SHA", f"{ours}AES256-SHA"
    yield f"{before}_AES_128_CBC_SHA256", f"{ours}AES128-SHA256"
    if openssl:
        yield f"{before}_CHACHA20_POLY1305", f"{ours}CHACHA20-POLY1305"
        yield f"{before}_CHACHA20_POLY1305_SHA256", f"{ours}CHACHA20-POLY1305"


SUITES: dict[str, str] = dict(
    [
        *_with_exchange("ECDHE_ECDSA", "ECDHE-ECDSA"),
        *_with_exchange("ECDHE_RSA", "ECDHE-RSA"),
        *_with_exchange("RSA", ""),
    ]
)


def openssl_names(names: Iterable[str]) -> list[str]:
    """OpenSSL's names for suites up to TLS 1.2; raises if one is unknown."""
    found = []
    for name in names:
        if name in SUITES:
            found.append(SUITES[name])
        elif name not in ALWAYS_ON:
            known = (*SUITES, *ALWAYS_ON)
            raise InputError(
                f"--tls-cipher-suites: there is no suite `{name}` here; {did_you_mean(name, known)}"
            )
    return list(dict.fromkeys(found))
