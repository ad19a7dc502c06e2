"""Prints how far plans agree with the record, as the table of `docs/reference/parity.md`."""

from __future__ import annotations

from tests.parity.corpus import FILES, Case, cases


def evicted(case: Case) -> frozenset[str]:
    return frozenset(move.pod.key for move in case.descheduler.draw_plan(case.snapshot).moves)


def share(agreed: int, cases: int) -> str:
    return f"{agreed} of {cases}"


def main() -> None:
    columns = ("file", "agree", "agree, of those where upstream evicted", "one choice in all runs")
    print(f"| {' | '.join(columns)} | same set |")
    print("|---|---|---|---|---|")
    total = [0] * 7
    for file in FILES:
        row = [0] * 7
        for case in cases(file):
            pods = evicted(case)
            agrees, busy, settled = case.agrees(pods), any(case.runs), len(case.runs) == 1
            same = pods in case.choices
            facts = (agrees, True, agrees and busy, busy, agrees and settled, settled, same)
            row = [count + fact for count, fact in zip(row, facts, strict=True)]
        total = [a + b for a, b in zip(total, row, strict=True)]
        print(line(file, row))
    print(line("all", total))


def line(name: str, row: list[int]) -> str:
    pairs = (share(row[0], row[1]), share(row[2], row[3]), share(row[4], row[5]), str(row[6]))
    return f"| {name} | {' | '.join(pairs)} |"


if __name__ == "__main__":
    main()
