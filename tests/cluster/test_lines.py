"""A stream cut anywhere gives the same lines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.cluster.lines import Lines
from resettle.errors import ClusterError


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_lines_do_not_depend_on_where_the_stream_is_cut(whole: bytes, cuts: list[int]) -> None:
    lines = Lines()
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[start:end] for start, end in pairwise(edges)]

    found = [line for chunk in chunks for line in lines.of(chunk)]

    assert found == [line for line in whole.split(b"\n")[:-1] if line]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"x" * 11], id="at once"),
        pytest.param([b"x" * 6, b"x" * 5], id="in pieces"),
        pytest.param([b"short\n" + b"x" * 6, b"x" * 5], id="after a shorter one"),
    ],
)
def test_a_line_without_end_is_an_error(chunks: list[bytes]) -> None:
    lines = Lines(longest=10)

    with pytest.raises(ClusterError, match="more than 10 bytes"):
        [list(lines.of(chunk)) for chunk in chunks]
