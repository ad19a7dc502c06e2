"""Kubernetes quantities as exact whole numbers.

One unit for everything: the nano (10^-9), the finest Kubernetes itself keeps, so that `100m` of
cpu, `1536Mi` of memory and a metrics server's `1234n` add and compare without rounding. Rounding
happens where the field's own arithmetic rounds: `milli` and `units`, both upwards.
"""

from __future__ import annotations

import re
from fractions import Fraction

from resettle.errors import InputError

NANO = 10**9
_MILLI = 10**6

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_LARGEST_EXPONENT = 36
_WHOLE = re.compile(r"(\d+)([numkMGTPE]|[KMGTPE]i|)", re.ASCII)
_NANO_OF = {"": NANO} | {suffix: int(factor * NANO) for suffix, factor in _SUFFIX.items()}


def parse_quantity(text: str) -> int:
    """The quantity in nano units; finer fractions round up, as Kubernetes does."""
    if whole := _WHOLE.fullmatch(text):
        return int(whole[1]) * _NANO_OF[whole[2]]
    found = _FORM.fullmatch(text)
    if found is None or abs(int(found["exponent"] or 0)) > _LARGEST_EXPONENT:
        raise InputError(
            f"`{text}` is not a quantity", "write a number such as `250m`, `1.5` or `2Gi`"
        )
    value = Fraction(found["number"]) * _SUFFIX.get(found["suffix"], Fraction(1))
    value *= Fraction(10) ** int(found["exponent"] or 0)
    nano = -((-value * NANO).__floor__())
    if found["sign"] == "-" and nano:
        raise InputError(f"`{text}` is negative", "a resource is zero or more")
    return nano


def milli(nano: int) -> int:
    """In thousandths, rounded up."""
    return -(-nano // _MILLI)


def units(nano: int) -> int:
    """In whole units, rounded up."""
    return -(-nano // NANO)


def counted(resource: str, nano: int) -> int:
    """In the unit the field counts this resource in: milli for cpu, whole units for the rest."""
    return milli(nano) if resource == "cpu" else units(nano)


def written(resource: str, amount: int) -> str:
    """An amount in the resource's own unit, as people write it: `250m`, `3`, `1536Mi`."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Gi", "Mi", "Ki"):
            size = int(_SUFFIX[suffix])
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
