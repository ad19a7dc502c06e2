"""The bench of simulations says what each policy came to."""

from __future__ import annotations

from bench.simulate import measured


def test_each_policy_has_its_row() -> None:
    text = measured(nodes=6, pods=10, cycles=3)

    assert text.startswith("6 nodes, ")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    assert [cells[1].strip() for cells in rows] == [
        "`descheduler/v1alpha2`",
        "`resettle/v1`, its own limits",
        "`resettle/v1`, no limits",
    ]
    assert all(int(cells[2].replace(",", "")) >= int(cells[3]) for cells in rows)
