"""MovingHours: pods move only within the hours of the day that their label names.

`move-hours: 22-05` is from ten in the evening until five in the morning, UTC. A label that cannot
be read keeps its pod where it is: no pod should be moved at noon because of a typing error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from typing import NamedTuple

from resettle.framework import Args as PluginArgs
from resettle.framework import Plugin, Problem, Refusal, View
from resettle.model import Pod

_HOURS = re.compile(r"([01]\d|2[0-3])-([01]\d|2[0-4])")


class Hours(NamedTuple):
    """Whole hours of a day, from the first up to, not including, the second."""

    start: int
    end: int

    def include(self, hour: int) -> bool:
        """Whether the hour is one of them; a night may pass midnight."""
        if self.start < self.end:
            return self.start <= hour < self.end
        return hour >= self.start or hour < self.end


def parse_hours(text: str) -> Hours | None:
    """The hours that `22-05` names, or None when it names none."""
    found = _HOURS.fullmatch(text)
    hours = Hours(int(found[1]), int(found[2])) if found else None
    return hours if hours and hours.start != hours.end else None


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of MovingHours."""

    label: str = "move-hours"
    default: str = ""
    """Hours for pods without the label; empty lets them move at any time."""

    def problems(self) -> Iterator[Problem]:
        if not self.label:
            yield Problem(
                what="without a label no pod can name its hours",
                fix="name the pod label, or leave `label` out for `move-hours`",
                at=("label",),
            )
        if self.default and parse_hours(self.default) is None:
            yield Problem(
                what=f"`{self.default}` are no hours of a day",
                fix="write two different hours of two digits, such as `22-05`",
                at=("default",),
            )


def closed(args: Args, view: View, pod: Pod) -> Refusal | None:
    """Why the pod may not move at this hour, or None."""
    text = pod.labels.get(args.label, args.default)
    if not text:
        return None
    hours = parse_hours(text)
    if hours is None:
        return Refusal(
            "hours-unreadable",
            "names no hours of a day",
            facts={"label": args.label, "text": text},
            subject="its label {label}={text}",
        )
    now = view.taken_at.astimezone(UTC)
    if hours.include(now.hour):
        return None
    return Refusal(
        "outside-hours",
        "may move from {start:02}:00 to {end:02}:00 UTC only, and it is {now}",
        facts={"start": hours.start, "end": hours.end, "now": f"{now:%H:%M}"},
    )


# The same question at both points: under `filter` a strategy does not even count on the pod, under
# `preevictionfilter` it does and is refused when it proposes it.
PLUGIN = Plugin(name="MovingHours", args=Args, filter=closed, preevictionfilter=closed)
