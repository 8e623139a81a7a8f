"""The server without a browser: the rules are those of `episode.step`, byte for byte, and nobody else may ask."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("starlette", reason="the page's tests were left out: starlette is not installed")

from web_client import HOST, JSON, Client

from trilith.agents.random_agents import LegalAgent
from trilith.agents.registry import ZOO, load
from trilith.utils.files import write_json
from trilith.web import jobs as work
from trilith.web.access import AccessControl
from trilith.web.catalog import Spec
from trilith.web.ideas import Idea
from trilith.web.pool import Pool
from trilith.web.request_schema import pack_frames
from trilith.web.server import create_app
from trilith.world.episode import Recording, State, start, step
from trilith.world.scene import Placement, clipped
from trilith.world.tasks import TASKS


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    running = Client(create_app(workers=1))
    yield running
    running.close()


def begin(client: Client, task: str = "silhouette", level: Any = 3, seed: int = 1, placements: Any = ()) -> list[dict[str, Any]]:
    return client.post("start", {"task": task, "level": level, "seed": seed, "placements": list(placements)}).json()["moments"]


def episode(task: str, seed: int, level: Any = "hardest") -> tuple[State, list[Placement], list[State]]:
    """An episode of legal placements, straight through the rules."""
    rng = np.random.default_rng(seed)
    first = state = start(task, level, rng)
    placements, states = [], [state]
    while not state.ended:
        [placed] = LegalAgent().act([state], [rng])
        if placed is None:
            break
        state = step(state, placed).state
        placements.append(placed)
        states.append(state)
    return first, placements, states


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_through_the_api_is_the_same_bytes_as_through_the_rules(client: Client, task: str) -> None:
    for seed in range(4):
        first, placements, states = episode(task, seed)
        text = json.dumps(first.to_json())
        for placed, expected in zip(placements, states[1:], strict=True):
            answer = client.post("step", {"state": text, "placement": list(placed)}).json()
            text = answer["state"]
            got = State.from_json(json.loads(text))
            assert got.scene.tobytes() == expected.scene.tobytes()
            assert (got.steps, got.total, got.ended) == (expected.steps, expected.total, expected.ended)
        recording = Recording(first, tuple(placements)).to_json()
        moments = client.post("replay", {"recording": json.dumps(recording)}).json()["moments"]
        assert [State.from_json(json.loads(each["state"])).scene for each in moments] == [each.scene for each in states]


def test_a_link_gives_the_scene_of_its_seed_and_the_placements_made_in_it(client: Client) -> None:
    expected = start("connecting", "additional_layer", np.random.default_rng(5))
    after = step(expected, Placement(6, 0.25, 9.0, True)).state
    moments = begin(client, "connecting", "additional_layer", 5, [[6, 0.25, 9.0, True]])
    assert State.from_json(json.loads(moments[0]["state"])) == expected
    assert State.from_json(json.loads(moments[1]["state"])) == after


def test_frames_show_the_fall_of_what_moves_and_end_where_it_rests(client: Client) -> None:
    [first] = begin(client, "connecting", 0)
    answer = client.post("step", {"state": first["state"], "placement": [3, 0, 3, False]}).json()
    frames, pose = answer["frames"], json.loads(answer["state"])["scene"]["pose"]
    assert frames["dt"] == 0.04
    assert frames["rows"] == [len(pose) - 1]
    assert frames["poses"][0] == [0, 3, 0]
    assert frames["poses"][-1] == pytest.approx(pose[-1], abs=0.01)
    heights = [frame[1] for frame in frames["poses"]]
    assert heights[:10] == sorted(heights[:10], reverse=True)


@pytest.mark.parametrize("task", TASKS)
def test_a_block_put_down_exactly_at_rest_has_no_film_and_is_no_error(client: Client, task: str) -> None:
    [first] = begin(client, task, 0)
    [slot, y] = [0, 0.35]
    for x in (-7.4, -6.5, 6.5, 7.4):
        state, height = first["state"], y
        for _ in range(6):  # the block at rest, then let go just where it rests
            answer = client.post("step", {"state": state, "placement": [slot, x, height, False]})
            assert answer.status == 200, answer.body
            after = json.loads(answer.json()["state"])
            height = after["scene"]["pose"][-1 if len(after["scene"]["pose"]) > len(json.loads(state)["scene"]["pose"]) else slot][1]
    settled = type("Settled", (), {"frames": np.zeros((2, 9, 3))})
    assert pack_frames(settled) is None  # type: ignore[arg-type]


def test_where_an_obstacle_was_hit_score_and_total_agree(client: Client) -> None:
    hits = 0
    for seed in range(30):
        state, rng, total = start("silhouette", 7, np.random.default_rng(seed)), np.random.default_rng(seed), 0.0
        while not state.ended:
            [placed] = LegalAgent().act([state], [rng])
            assert placed is not None
            answer = json.loads(work.place(state, placed, False))
            state = step(state, placed).state
            total = state.total
        if state.ended == "obstacle_hit":
            hits += 1
            assert answer["view"]["score"] - answer["view"]["cost"] == pytest.approx(total)
    assert hits >= 5


@pytest.mark.longest
def test_ideas_are_where_a_block_can_be_and_none_is_another_s_twin(client: Client) -> None:
    for task in ("silhouette", "covering_hard"):
        for seed in range(2):
            [first] = begin(client, task, "hardest", seed)
            for agent in ("objects", "legal", "planner"):
                found = client.post("ideas", {"state": first["state"], "agent": agent, "count": 12}).json()["ideas"]
                places = [tuple(idea["placement"]) for idea in found]
                assert places
                assert all(abs(x) <= 7.5 and 0 <= y <= 15 for _, x, y, _ in places)
                assert agent == "planner" or len(set(places)) == len(places)


def test_a_very_long_fall_is_sent_in_fewer_frames() -> None:
    frames = np.zeros((1001, 9, 3))
    frames[:, 8, 0] = np.arange(1001) * 0.01

    class Long:
        pass

    long = Long()
    long.frames = frames  # type: ignore[attr-defined]
    packed = pack_frames(long)  # type: ignore[arg-type]
    assert packed is not None
    assert len(packed["poses"]) <= 240
    assert packed["dt"] * (len(packed["poses"]) - 1) == pytest.approx(20, abs=0.2)


def test_an_agent_acts_by_the_rules_and_the_same_way_again(client: Client) -> None:
    [first] = begin(client)
    request = {"state": first["state"], "agent": "legal", "seed": 3}
    answer = client.post("act", request).json()
    assert client.post("act", request).json() == answer
    expected = step(State.from_json(json.loads(first["state"])), Placement(*answer["placement"])).state
    assert State.from_json(json.loads(answer["state"])) == expected


def test_ideas_of_an_agent_without_values_are_rewards_of_physics(client: Client) -> None:
    [first] = begin(client, "silhouette", 0)
    answer = client.post("ideas", {"state": first["state"], "agent": "legal", "count": 4}).json()
    assert answer["source"] == "lookahead"
    assert answer["ideas"][0]["chosen"]
    state = State.from_json(json.loads(first["state"]))
    for idea in answer["ideas"]:
        assert step(state, Placement(*idea["placement"])).reward == pytest.approx(idea["value"], abs=1e-4)
    assert max(idea["value"] for idea in answer["ideas"][1:]) == 1


def test_an_agent_that_has_ideas_is_asked_for_its_own() -> None:
    class Searcher:
        def act(self, states: Any, rngs: Any) -> Any:
            raise AssertionError

        def ideas(self, state: State, rng: np.random.Generator, k: int) -> Any:
            line = (Placement(1, 0.0, 2.0),)
            return [Idea(Placement(0, 0.0, 1.0), 2.5, 40, line), (Placement(3, 1.0, 1.0, True), 1.25), (Placement(4, 1.0, 1.0), 1.0)]

    spec = Spec("searcher")
    work._agents[spec, False] = Searcher()
    answer = json.loads(work.ideas(start("covering", 0, np.random.default_rng(0)), spec, 0, 2))
    del work._agents[spec, False]
    assert answer["source"] == "agent"
    first, second = answer["ideas"]
    assert (first["placement"], first["value"], first["visits"], first["line"]) == ([0, 0, 1, False], 2.5, 40, [[1, 0, 2, False]])
    assert (second["placement"], second["value"], second["visits"], second["line"]) == ([3, 1, 1, True], 1.25, None, [])


def test_runs_are_called_by_their_last_part_unless_two_are_alike(tmp_path: Path) -> None:
    runs = [tmp_path / "a" / "best", tmp_path / "b" / "best"]
    for run in runs:
        run.mkdir(parents=True)
        for suffix in (".json", ".safetensors"):
            shutil.copy(ZOO / "objects" / f"silhouette{suffix}", run / f"last{suffix}")
    one, two = map(str, runs)
    assert create_app(agents=["planner", one]).state.site.catalog.specs["best"] == Spec(one)
    assert list(create_app(agents=[one, two], budget=0).state.site.catalog.specs)[-2:] == [one, two]
    catalog = create_app(agents=[one], budget=7).state.site.catalog
    assert catalog.specs["best + search"] == Spec(one, 7)
    assert "best" in catalog.about["silhouette"]
    assert "best" not in catalog.about["covering"]
    with pytest.raises(ValueError, match="was not trained for covering"):
        catalog.find("best", "covering")
    (runs[0] / "last.json").unlink()
    with pytest.raises(ValueError, match=r"last\.json"):
        create_app(agents=[one])
    with pytest.raises(ValueError, match="no agent 'nobody'"):
        create_app(agents=["nobody"])


def test_who_taught_an_agent_is_told(tmp_path: Path) -> None:
    """By its card: nobody, or the planner where that corrected it."""
    pytest.importorskip("torch")
    from training.tiny import AGENT, CORRECTED

    from trilith.agents.dqn.policy import DQNPolicy
    from trilith.agents.weights import save_weights

    for name, config in (("plain", AGENT), ("corrected", CORRECTED)):
        path = tmp_path / f"{name}.safetensors"
        cost = {"minutes": 7.2, "kept": 6.0, "processes": 1}
        save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {"cost": cost})
        catalog = create_app(agents=[str(path)]).state.site.catalog
        told = catalog.about["silhouette"][f"{name}.safetensors"]
        planner = "and from what the planner showed it" if name == "corrected" else "alone"
        assert told == f"A neural network that learned this task by Q-learning from its own play {planner}, in 7 minutes of one core."


def test_an_agent_with_continuous_actions_tells_its_values_and_is_not_offered_to_search(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trilith.agents.rs0.config import RS0Config
    from trilith.agents.rs0.policy import RS0Policy
    from trilith.agents.weights import save_weights
    from trilith.networks.config import EncoderConfig

    config, path = RS0Config(net=EncoderConfig("attention"), components=8), tmp_path / "pointing.safetensors"
    save_weights(path, "rs0", config, "covering_hard", RS0Policy(config, "covering_hard").weights(), {})
    site = create_app(agents=[str(path)]).state.site
    specs = site.catalog.specs
    assert "pointing.safetensors" in specs
    assert (Spec(str(path)), "covering_hard") in site.thinking.given[1], "loaded, torch and all, before its time is limited"
    assert "pointing.safetensors + search" not in specs
    assert "objects + search" in specs
    state = start("covering_hard", 1, np.random.default_rng(0))
    answer = json.loads(work.ideas(state, specs["pointing.safetensors"], 0, 5))
    assert answer["source"] == "agent"
    [choice] = load(str(path)).act([state], [np.random.default_rng(0)])
    assert choice is not None
    assert answer["ideas"][0]["placement"] == pytest.approx([choice.slot, *clipped(choice.x, choice.y), choice.sticky])
    assert 1 <= len(answer["ideas"]) <= 5


def test_a_trained_agent_tells_its_values_and_its_search_what_it_tried(client: Client) -> None:
    [first] = begin(client, "covering_hard", 1)
    plain = client.post("ideas", {"state": first["state"], "agent": "objects", "count": 3}).json()
    assert plain["source"] == "agent"
    values = [idea["value"] for idea in plain["ideas"]]
    assert values == sorted(values, reverse=True)
    searched = client.post("ideas", {"state": first["state"], "agent": "objects + search", "count": 3}).json()
    assert searched["ideas"][0]["visits"] >= 5
    assert any(idea["line"] for idea in searched["ideas"])


def test_trained_agents_are_compiled_before_anybody_waits_for_them() -> None:
    given = create_app(workers=1).state.site.thinking.given
    assert (Spec("objects"), "silhouette") in given[1]
    assert any(spec.name == "objects" and spec.budget for spec, _ in given[1])
    work._agents.clear()
    work.prepare(("connecting",), given[1])
    assert {spec for spec, _ in work._agents} == {spec for spec, _ in given[1]}


def test_a_film_is_a_gif(client: Client) -> None:
    [first] = begin(client, "connecting", 0)
    recording = f'{{"start":{first["state"]},"placements":[[0,0,0.4,false]]}}'
    films = []
    for by in ("Script", "by hand"):
        answer = client.post("film", {"recording": recording, "by": by})
        assert (answer.status, answer.headers["content-type"], answer.body[:6]) == (200, "image/gif", b"GIF89a")
        films.append(np.asarray(Image.open(BytesIO(answer.body)).convert("L")))
    changed = np.flatnonzero((films[0] != films[1]).any(axis=1))
    assert 0 < len(changed) < 40, "the names of the builders, in one line"
    assert changed.max() < 40


def test_files_with_one_episode_and_with_worst_cases_are_opened(client: Client, tmp_path: Path) -> None:
    first, placements, _ = episode("silhouette", 0)
    one = Recording(first, tuple(placements)).to_json()
    for data, count in (
        (one, 1),
        ({"worst": [one, one]}, 2),
        ({"worst": [{"reward": 1.0, "most": 2.5, "reason": "obstacle_hit", **one}]}, 1),
    ):
        write_json(tmp_path / "x.json", data)
        app = create_app(path=tmp_path / "x.json")
        assert len(app.state.site.opened[1]) == count
        answer = client.post("open", {"text": json.dumps(data)}).json()["recordings"]
        assert [json.loads(each["text"]) for each in answer] == [one] * count
    assert answer[0]["note"] == "1.00 of 2.50, obstacle hit"
    assert client.post("open", {"text": json.dumps({**one, "seed": 7})}).json()["recordings"][0]["seed"] == 7
    for text, words in (
        ("{", "not JSON"),
        ('{"worst": []}', "neither a saved episode"),
        ('{"worst": [{}]}', "episode 1: an episode is an object"),
    ):
        Path(tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=words):
            create_app(path=tmp_path / "x.json")
        assert client.post("open", {"text": text}).status == 400
    with pytest.raises(ValueError, match="cannot read"):
        create_app(path=tmp_path / "missing.json")


def refused(client: Client, name: str, data: Any, words: str) -> None:
    answer = client.post(name, data)
    assert answer.status == 400
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_bad_requests_are_refused_with_one_line_that_says_why(client: Client) -> None:
    [first] = begin(client)
    state = first["state"]
    ended = begin(client, placements=[None])[1]["state"]
    refused(client, "step", {"state": state}, "no field 'placement'")
    refused(client, "step", {"state": state, "placement": None, "path": "/etc/passwd"}, "unknown field 'path'")
    refused(client, "step", {"state": json.loads(state), "placement": None}, "state must be text")
    refused(client, "step", {"state": ended, "placement": None}, "has ended")
    refused(client, "step", {"state": state, "placement": [7, 0, 0, False]}, "slot must be 0 to 6")
    refused(client, "act", {"state": state, "agent": "../../etc/passwd"}, "no agent of that name")
    refused(client, "ideas", {"state": state, "agent": "legal", "count": 1000}, "count must be a whole number from 1 to 12")
    refused(client, "start", {"task": "tower", "level": 0, "seed": 0}, "no task 'tower'")
    refused(client, "start", {"task": "silhouette", "level": 8, "seed": 0}, "no level 8")
    refused(client, "start", {"task": "silhouette", "level": 0, "seed": -1}, "seed must be")
    refused(client, "start", {"task": "silhouette", "level": 0, "seed": 0, "placements": [None, None]}, "after the end")
    refused(client, "step", b'{"state": NaN}', "not a finite number")
    refused(client, "step", b"[" * 100000, "nested too deeply")
    refused(client, "step", b"\xff", "not UTF-8")
    refused(client, "step", b"{", "not JSON")
    many = json.loads(state)
    many["scene"] = {name: value * 10 for name, value in many["scene"].items()}
    refused(client, "step", {"state": json.dumps(many), "placement": None}, "must be a list of at most")
    tiny = json.loads(state)
    tiny["scene"]["size"][9] = [1e-9, 1]
    refused(client, "step", {"state": json.dumps(tiny), "placement": None}, "length below")
    assert client.post("step", b" " * 300000).status == 413
    assert client.post("step", {}, HOST, ("content-type", "text/plain")).status == 415
    assert client.post("nothing", {}).status == 404
    assert client.get("/api/step").status == 405
    assert client.get("/static/../server.py").status == 404
    assert client.get("/static/%2e%2e/server.py").status == 404


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("host", "evil.example"),),
        (("host", "evil.example:8000"),),
        (("host", "127.0.0.1.evil.example"),),
        (("host", "192.168.0.7:8000"),),
        (("host", "[::1"),),
        (HOST, HOST),
        (HOST, ("origin", "http://evil.example")),
        (HOST, ("origin", "http://127.0.0.1:9999")),
        (HOST, ("origin", "null")),
        (HOST, ("sec-fetch-site", "cross-site")),
        (HOST, ("sec-fetch-site", "same-site")),
    ],
)
def test_foreign_hosts_and_other_sites_are_refused(client: Client, headers: tuple[tuple[str, str], ...]) -> None:
    async def ask(method: str, path: str) -> int:
        return (await client.call(method, path, b"{}", (*headers, JSON))).status

    for method, path in (("POST", "/api/start"), ("GET", "/api/about"), ("GET", "/"), ("GET", "/static/app.js")):
        assert client.run(ask(method, path)) == 403


def test_a_link_on_another_site_may_lead_to_the_page_and_to_nothing_else(client: Client) -> None:
    link = (HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"))
    assert client.get("/", *link).status == 200
    assert client.get("/api/about", *link).status == 403
    assert client.get("/", *link[:3], ("sec-fetch-dest", "iframe")).status == 403


def test_this_machine_is_answered_by_all_its_names(client: Client) -> None:
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/api/about", ("host", host)).status == 200
    elsewhere = AccessControl(client.app, "0.0.0.0")
    for host, fine in (("192.168.0.7:8000", True), ("[fe80::1]:8000", True), (socket.gethostname(), True), ("evil.example", False)):
        scope = {"method": "GET", "path": "/", "headers": [(b"host", host.encode())]}
        assert (elsewhere.problem(scope) is None) is fine


def test_every_answer_says_what_the_page_may_do(client: Client) -> None:
    for answer in (client.get("/"), client.get("/nothing"), client.post("step", {}), client.get("/", ("host", "evil.example"))):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_needs_nothing_from_elsewhere() -> None:
    static = Path(__file__).parents[2] / "trilith" / "web" / "static"
    for path in static.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text


def test_a_slow_search_blocks_nobody_who_builds() -> None:
    app = create_app(workers=1)
    app.state.site.thinking = Pool(1, 2, 1.0, "slow_jobs")
    client = Client(app)
    try:
        [first] = begin(client)

        async def visitors() -> tuple[list[int], float]:
            slow = [asyncio.ensure_future(client.ask("act", {"state": first["state"], "agent": "legal"})) for _ in range(5)]
            await asyncio.sleep(0.1)
            began = time.monotonic()
            for _ in range(10):
                assert (await client.ask("step", {"state": first["state"], "placement": [0, 0, 5, False]})).status == 200
            took = time.monotonic() - began
            return [(await each).status for each in slow], took

        statuses, took = client.run(visitors())
        assert took < 2
        assert set(statuses) == {503, 504}
    finally:
        client.close()


def test_a_task_of_ones_own_is_built_in_on_the_page_if_it_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not_offered.py").write_text("from own_task import Tower\n")
    monkeypatch.syspath_prepend(tmp_path)
    running = Client(create_app(workers=1, tasks=["own_task:Tower"]))
    try:
        [first] = begin(running, "own_task:Tower", 2)
        answer = running.post("step", {"state": first["state"], "placement": [0, -7.5, 0.36, False]}).json()
        assert json.loads(answer["state"])["task"] == "own_task:Tower"
        assert answer["view"]["score"] == pytest.approx(0.7, abs=0.01)
        assert (answer["view"]["done"], answer["view"]["covered"]) == ([], [])
        begun, placements, _ = episode("own_task:Tower", 0)
        text = json.dumps(Recording(begun, tuple(placements)).to_json())
        assert len(running.post("open", {"text": text}).json()["recordings"]) == 1
        refused(running, "act", {"state": first["state"], "agent": "planner"}, "no planner for own_task:Tower")
        refused(
            running, "start", {"task": "not_offered:Tower", "level": 0, "seed": 0}, "no task 'not_offered:Tower' here: choose silhouette"
        )
        assert "not_offered" not in sys.modules, "a request has nothing imported"
    finally:
        running.close()


def test_an_agent_of_ones_own_that_returns_no_list_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def act(self, states: list[State], rngs: list[np.random.Generator]) -> None:
            return None

    spec = Spec("silent", 0, None)
    monkeypatch.setitem(work._agents, (spec, False), Silent())
    work.prepare([], [(spec, "silhouette")])  # a server with such an agent starts
    with pytest.raises(ValueError, match="Silent returned None: must be a list of 1"):
        work.act(start("silhouette", 0, np.random.default_rng(0)), spec, 0, False)
