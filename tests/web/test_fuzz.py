"""Broken requests by the thousand: each gets a 4xx with one line, and the server goes on answering good ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the page's tests were left out: starlette is not installed")

from web_client import HOST, JSON, Answer, Client

from trilith.web.server import create_app
from trilith.world.episode import Recording, start, step
from trilith.world.scene import Placement

pytestmark = pytest.mark.slow

BATCH = 10
EXAMPLES = 560
"""So many requests at a time, and so many times, in each of two tests; that they send 10,000 bad requests is asserted."""

_first = start("silhouette", 4, np.random.default_rng(0))
_state = step(_first, Placement(0, -6.5, 0.5, True)).state
assert _state.ended is None
_text = json.dumps(_state.to_json())
_recording = json.dumps(Recording(_first, (Placement(0, -6.5, 0.5, True),)).to_json())
GOOD: dict[str, dict[str, Any]] = {
    "start": {"task": "connecting", "level": 2, "seed": 7, "placements": []},
    "step": {"state": _text, "placement": [1, -6.5, 3.0, False]},
    "act": {"state": _text, "agent": "legal", "seed": 0},
    "ideas": {"state": _text, "agent": "legal", "seed": 0, "count": 2},
    "values": {"state": _text, "agent": "legal", "seed": 0, "slot": 1},
    "predict": {"state": _text, "placement": [1, -6.5, 3.0, False]},
    "replay": {"recording": _recording},
    "film": {"recording": _recording, "by": "Script"},
    "open": {"text": _recording},
}
"""A good request to each endpoint, which the tests then break."""
_TEXTS = ("state", "recording", "text")
_CHEAP = ("start", "step", "predict", "replay", "open")
"""Endpoints whose work is quick: where breaking a request may happen to leave it whole, only these are asked."""

JUNK = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(["../../etc/passwd", "\x00", "1", "silhouette", "9" * 400, "all"]),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.lists(st.one_of(st.text(max_size=3), st.none(), st.lists(st.none(), max_size=2)), max_size=3),
    st.sampled_from([10**16, -(10**30), 2**63, 1e300, -1e300, 1e7]),
)
"""Values that no place in a request is for, except null for a placement and a few names; see `Report`."""
RAW = st.sampled_from([b"NaN", b"Infinity", b"-Infinity", b"1e999", b"0x10", b"'a'", b"undefined", b"01", b"1" * 5000, b"[" * 5000])
"""Text that is no JSON, or no finite number."""


class Report:
    """Counts answers, checks each, and after every hundred bad requests asks for something good."""

    def __init__(self, client: Client) -> None:
        self.client, self.bad, self.good_after = client, 0, 0

    def check(self, answer: Answer) -> None:
        assert answer.status < 500, answer.body
        if answer.status < 400:
            return
        assert len(answer.json()["error"].splitlines()) == 1
        self.bad += 1
        if self.bad % 100 == 0:
            good = self.client.post("step", GOOD["step"])
            assert good.status == 200
            assert json.loads(good.json()["state"])["steps"] == 2
            self.good_after += 1


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    try:
        world = request.getfixturevalue("model")
    except pytest.skip.Exception:  # without torch nothing can be predicted, and every such request is a bad one
        world = "simulator"
    running = Client(create_app(workers=1, world=world))
    yield running
    running.close()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested lists and objects."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(inner, (*path, key))


def _put(value: Any, path: tuple[Any, ...], new: Any, remove: bool) -> Any:
    """A copy with one place changed or taken away."""
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return result


_MARK = "@here@"
_TARGETS: list[tuple[str, str | None, Any]] = [(name, None, whole) for name, whole in GOOD.items()]
_TARGETS += [(name, each, json.loads(whole[each])) for name, whole in GOOD.items() for each in _TEXTS if each in whole]
"""What can be broken: a request as a whole, or the text within it."""
_PLACES = [st.tuples(st.just(target), st.sampled_from(list(_paths(target[2])))) for target in _TARGETS]
_CHEAP_PLACES = [places for places, target in zip(_PLACES, _TARGETS, strict=True) if target[0] in _CHEAP]


def _build(place: tuple[tuple[str, str | None, Any], tuple[Any, ...]], how: str, new: Any) -> tuple[str, bytes]:
    (name, field, target), path = place
    text = json.dumps(_put(target, path, _MARK if how == "raw" else new, how == "remove")).encode()
    if how == "raw":
        text = text.replace(b'"@here@"', new)
    return name, text if field is None else json.dumps({**GOOD[name], field: text.decode()}).encode()


BROKEN = st.one_of(
    st.builds(_build, st.one_of(_PLACES), st.just("raw"), RAW),
    st.builds(_build, st.one_of(_CHEAP_PLACES), st.just("junk"), JUNK),
    st.builds(_build, st.one_of(_CHEAP_PLACES), st.just("remove"), st.none()),
)
"""A request that was good, with one place of it, or of the text within it, replaced or removed."""


@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(requests=st.lists(BROKEN, min_size=BATCH, max_size=BATCH))
def _break(report: Report, requests: list[tuple[str, bytes]]) -> None:
    for name, body in requests:
        report.check(report.client.post(name, body))


@pytest.mark.longest
def test_five_thousand_requests_with_something_wrong_in_them(client: Client) -> None:
    report = Report(client)
    _break(report)
    assert report.bad >= 5000
    assert report.good_after >= 50


NONSENSE = st.tuples(
    st.sampled_from([*GOOD, "about", "opened", "..", "nothing"]),
    st.one_of(
        st.binary(max_size=60),
        JUNK.map(lambda value: json.dumps(value).encode()),
        st.tuples(st.sampled_from(list(GOOD)), st.integers(1, 200)).map(lambda cut: json.dumps(GOOD[cut[0]]).encode()[: -cut[1]]),
        st.dictionaries(st.sampled_from(["state", "placement", "agent", "seed", "recording", "task", "level", "text"]), JUNK).map(
            lambda value: json.dumps(value).encode()
        ),
    ),
    st.sampled_from(
        [(HOST, JSON)] * 8
        + [(HOST,), (JSON,), (("host", "evil.example"), JSON), (HOST, JSON, ("origin", "http://evil.example"))]
        + [(HOST, JSON, ("origin", "http://[")), (("host", "["), JSON), (HOST, JSON, ("cookie", "=;trilith-token=\x80;;"))]
        + [(HOST, JSON, ("origin", "http://127.0.0.1:8000"), ("origin", "http://evil.example")), (HOST, JSON, ("authorization", "Bearer"))]
    ),
)


@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(requests=st.lists(NONSENSE, min_size=BATCH, max_size=BATCH))
def _nonsense(report: Report, requests: list[tuple[str, bytes, tuple[tuple[str, str], ...]]]) -> None:
    for name, body, headers in requests:
        report.check(report.client.post(name, body, *headers))


@pytest.mark.longest
def test_five_thousand_requests_that_make_no_sense(client: Client) -> None:
    report = Report(client)
    _nonsense(report)
    assert report.bad >= 5000
    assert report.good_after >= 50


numbers = st.floats(-1e4, 1e4, allow_nan=False)


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    poses=st.lists(st.tuples(numbers, numbers, numbers), min_size=5, max_size=5),
    sizes=st.lists(st.tuples(st.floats(0.01, 28), st.floats(0.01, 28)), min_size=5, max_size=5),
    speeds=st.lists(st.tuples(numbers, numbers, numbers), min_size=5, max_size=5),
    crowd=st.booleans(),
)
def _strange(client: Client, poses: Any, sizes: Any, speeds: Any, crowd: bool) -> None:
    data = _state.to_json()
    scene = data["scene"]
    for row, pose, size, speed in zip(range(8, 13), poses, sizes, speeds, strict=True):
        scene["role"][row] = 1
        scene["pose"][row] = [0.1 * row, 0.5, pose[2]] if crowd else list(pose)
        scene["size"][row] = list(size)
        scene["velocity"][row] = list(speed)
    scene["contact"], scene["glue"], scene["glue_frame"] = [], [[8, 9], [8, 10]], [[*poses[0][:2], *poses[1][:2], 0.1], [0, 0, 0, 0, 1e4]]
    for name in ("step", "predict"):
        answer = client.post(name, {"state": json.dumps(data), "placement": [0, 7.0, 14.0, True]})
        assert answer.status in (200, 400), answer.body


def test_states_that_no_episode_leads_to_are_simulated_and_predicted_or_refused(client: Client) -> None:
    _strange(client)
    assert client.post("step", GOOD["step"]).status == 200
