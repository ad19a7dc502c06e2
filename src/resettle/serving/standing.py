"""Where nodes stood in one cycle, by the surveys of its plugins, as lines of Prometheus' text.

At 5,000 nodes there are 50,000 lines, each as it was until the next cycle. So they are written by
hand, ten times as fast as prometheus_client would, once a cycle, and only if somebody asks. A node
that is gone is not in the next survey and so told of no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from resettle.framework.plan import PluginRun
from resettle.framework.survey import Survey
from resettle.load.bands import BANDS, OVER, UNDER, WITHIN
from resettle.serving.catalogue import LINES_MODE, NODE_BAND, NODE_LINE, NODE_SHARE, NODES, Meter

PEERS = "LowNodeUtilization"
"""The plugin of which OpenShift's descheduler tells every node."""
_CLASSES = {UNDER: 0, WITHIN: 1, OVER: 2}
_NOTHING = Survey(bands={}, shares={})
_SPELLED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Line = tuple[str, float]
"""Labels, as they are written between the braces, and a value."""


class Standing:
    """How many nodes are in which band, and of one plugin the figures of each node."""

    def __init__(self, runs: Iterable[PluginRun] = ()) -> None:
        self._runs = tuple(run for run in runs if run.surveys)

    @cached_property
    def text(self) -> bytes:
        """All of it."""
        # Their labels name no profile: where several have the plugin, the last one is told.
        mine = (run.surveys[0] for run in reversed(self._runs) if run.plugin == PEERS)
        last = next(mine, _NOTHING)
        told = (
            *_metric(NODES, _counts(self._runs)),
            *_metric(NODE_SHARE, _shares(last)),
            *_metric(NODE_LINE, _lines(last)),
            *_metric(NODE_BAND, _classes(last)),
            *_metric(LINES_MODE, [("", last.from_mean)] if last.bands else []),
        )
        return "".join(told).encode()


def _metric(meter: Meter, lines: Iterable[Line]) -> Iterator[str]:
    name = meter.name
    yield f"# HELP {name} {meter.says}\n# TYPE {name} {meter.kind}\n"
    for labels, value in lines:
        yield f"{name}{{{labels}}} {value:.9g}\n" if labels else f"{name} {value:.9g}\n"


def _counts(runs: Iterable[PluginRun]) -> Iterator[Line]:
    for run in runs:
        profile, plugin = run.profile.translate(_SPELLED), run.plugin.translate(_SPELLED)
        for band in BANDS:
            count = sum(len(survey.bands.get(band, ())) for survey in run.surveys)
            yield f'profile="{profile}",plugin="{plugin}",band="{band}"', count


def _shares(survey: Survey) -> Iterator[Line]:
    for node, row in survey.shares.items():
        for resource, share in row.items():
            yield f'node="{node}",resource="{resource.translate(_SPELLED)}"', share / 100


def _lines(survey: Survey) -> Iterator[Line]:
    drawn = [
        (f'resource="{resource.translate(_SPELLED)}",threshold_type="{kind}"', line / 100)
        for kind, lines in (("low", survey.low), ("high", survey.high))
        for resource, line in lines.items()
    ]
    for node in survey.shares:
        for labels, line in drawn:
            yield f'node="{node}",{labels}', line


def _classes(survey: Survey) -> Iterator[Line]:
    for band, number in _CLASSES.items():
        for node in survey.bands.get(band, ()):
            yield f'node="{node}"', number
