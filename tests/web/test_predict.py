"""What a learned model of the world predicts, on the page: beside what physics does, and where agents search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page's tests were left out: starlette is not installed")

from visitor import Visitor, visit
from web_client import Client

from trilith.agents.dynamics.registry import make_world
from trilith.cli.main import main
from trilith.web import jobs as work
from trilith.web import server
from trilith.web.catalog import Spec
from trilith.web.server import background, create_app
from trilith.world.episode import State, start, step
from trilith.world.physics import PHYSICS
from trilith.world.scene import Placement, Role

pytestmark = pytest.mark.slow

SHELTER = "task=covering_hard&level=1&seed=5"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


class Ends:
    """A world of one's own, in which every placement is the last and nothing moves."""

    def __init__(self, zero_on_hit: bool) -> None:
        self.zero_on_hit = zero_on_hit

    def steps(self, states: Any, placements: Any) -> list[tuple[State, float, float]]:
        return [(step(state, placement).state, 7.0 + self.zero_on_hit, 1.0) for state, placement in zip(states, placements, strict=True)]


@pytest.fixture(scope="module")
def client(model: str) -> Iterator[Client]:
    running = Client(create_app(workers=1, world=model))
    yield running
    running.close()


@pytest.fixture(scope="module")
def predicted_site(model: str) -> Iterator[str]:
    with background(workers=1, world=model) as url:
        yield url


def test_the_page_is_told_what_a_search_in_the_model_sees(client: Client, model: str) -> None:
    assert client.get("/api/about").json()["world"] == {"name": "small", "tasks": ["covering_hard"]}
    state, placement = start("covering_hard", 1, np.random.default_rng(5)), Placement(4, -1.0, 6.0, True)
    request = {"state": json.dumps(state.to_json()), "placement": list(placement)}
    world: Any = make_world(model, False)
    [(after, reward, end)] = world.steps([state], [placement])
    answer = client.post("predict", request).json()
    assert [row for row, *_ in answer["poses"]] == [4]
    assert answer["poses"][0][1:] == pytest.approx(after.scene.pose[4].tolist(), abs=1e-4)
    expected = (world.predict([(state, placement)])[0].hit, end, reward)
    assert tuple(answer[name] for name in ("hit", "end", "reward")) == pytest.approx(expected, abs=1e-4)


def test_by_the_rule_zero_on_hit_what_was_earned_is_expected_to_be_lost_where_an_obstacle_may_be_hit(client: Client) -> None:
    state = json.dumps({**start("covering_hard", 1, np.random.default_rng(5)).to_json(), "total": 3.0})
    request = {"state": state, "placement": [4, -1.0, 6.0, False]}
    keeps, loses = (client.post("predict", {**request, "zero_on_hit": zero_on_hit}).json() for zero_on_hit in (False, True))
    assert 0 < keeps["hit"] < 1
    assert loses["reward"] == pytest.approx(keeps["reward"] - 3 * keeps["hit"], abs=1e-3)


def test_what_the_rules_decide_alone_is_not_predicted(client: Client) -> None:
    state = start("covering_hard", 1, np.random.default_rng(5))
    x, y, _ = state.scene.pose[state.scene.rows(Role.OBSTACLE)[0]].tolist()
    for placed in (None, [0, x, y, False]):
        answer = client.post("predict", {"state": json.dumps(state.to_json()), "placement": placed}).json()
        assert answer == {"poses": [], "hit": None, "end": 1.0, "reward": 0.0}


def test_agents_that_search_do_so_in_the_model(client: Client, model: str) -> None:
    catalog = client.app.state.site.catalog
    assert catalog.specs["objects + search"] == Spec("objects", 50, model)
    assert catalog.about["covering_hard"]["objects + search"].endswith("tries 50 placements in the world that small predicts.")
    state = start("covering_hard", 1, np.random.default_rng(5))
    work._agents.clear()
    agent: Any = work._agent(catalog.specs["objects + search"])
    assert agent.world.net is not None
    request = {"state": json.dumps(state.to_json()), "agent": "objects + search", "seed": 3}
    [chosen] = agent.act([state], [np.random.default_rng([3, 0])])
    assert client.post("act", request).json()["placement"] == [chosen.slot, chosen.x, chosen.y, chosen.sticky]


def test_a_world_of_ones_own_predicts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    name = "test_predict:Ends"
    about = create_app(workers=1, world=name).state.site.about()
    assert about["world"] == {"name": name, "tasks": None}
    state = start("covering_hard", 1, np.random.default_rng(5))
    answer = json.loads(work.predict(name, state, Placement(0, -7.0, 3.0), True))
    assert (answer["hit"], answer["end"], answer["reward"]) == (None, 1.0, 8.0)
    assert [row for row, *_ in answer["poses"]] == [0]


def test_without_a_world_the_page_has_nothing_of_it() -> None:
    app = create_app(workers=1)
    assert app.state.site.about()["world"] is None
    running = Client(app)
    state = json.dumps(start("covering_hard", 1, np.random.default_rng(5)).to_json())
    answer = running.post("predict", {"state": state, "placement": [0, 0.0, 9.0, False]})
    running.close()
    assert answer.status == 400
    assert "--world" in answer.json()["error"]


def _damage(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])


def _of_other_physics(folder: Path) -> None:
    card = folder / "model.json"
    card.write_text(card.read_text().replace(f'"physics": {PHYSICS}', f'"physics": {PHYSICS + 1}'))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: folder.rename(folder.with_name("gone")), "there is no world"),
        (_damage, "model.safetensors"),
        (_of_other_physics, f"is of physics {PHYSICS + 1}, this version of trilith knows {PHYSICS}"),
    ],
    ids=["nowhere", "damaged", "physics"],
)
def test_a_world_that_cannot_be_used_is_refused_in_one_line_before_the_page_is_served(
    spoil: Any, words: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in Path(model).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    spoil(folder)
    _refused(folder, words, monkeypatch, capsys)


def test_without_torch_the_page_says_what_a_model_needs(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trilith.agents.weights.find_spec", lambda name: None if name == "torch" else name)
    _refused(Path(model), "torch missing", monkeypatch, capsys)


def _refused(folder: Path, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("the page is about to be served")

    monkeypatch.setattr(server, "_bind", never)
    with pytest.raises(SystemExit) as end:
        main(["web", "--no-browser", "--world", str(folder)])
    assert end.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    [line] = told.err.strip().splitlines()
    assert words in line


OUTLINED = """() => {
    const { stage } = trilith, { width, height } = stage.canvas, copy = new OffscreenCanvas(width, height);
    stage.draw(performance.now());
    const [r, g, b] = stage.theme.predicted.match(/[0-9a-f]{2}/g).map((each) => parseInt(each, 16));
    const context = copy.getContext("2d");
    context.drawImage(stage.canvas, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
    return count;
}"""
"""Pixels of the canvas that have the colour of predictions, which is that of nothing else."""


def figures(visitor: Visitor, kind: str) -> list[str]:
    return [visitor.text(f"#{kind}-{each}") for each in ("hit", "end", "reward")]


def test_predictions_are_outlines_and_words_beside_what_came(browser: Any, predicted_site: str, model: str) -> None:
    with visit(browser, predicted_site) as visitor:
        page = visitor.page
        visitor.open(SHELTER)
        page.uncheck("#snap")
        assert figures(visitor, "predicted") == figures(visitor, "came") == ["–", "–", "–"]
        assert page.evaluate(OUTLINED) == 0

        state = start("covering_hard", 1, np.random.default_rng(5))
        visitor.lift(4, -3.0, 6.0)  # held still, before it is let go
        page.wait_for_function("() => trilith.predictions.shown")
        ghost = page.evaluate("() => trilith.build.ghost")
        placement = Placement(4, ghost["x"], ghost["y"])
        world: Any = make_world(model, False)
        [(after, reward, end)] = world.steps([state], [placement])
        [outcome] = world.predict([(state, placement)])
        [shown] = page.evaluate("() => trilith.predictions.shown")
        assert shown["pose"] == pytest.approx(after.scene.pose[4].tolist(), abs=1e-3)
        assert shown["size"] == state.scene.size[4].tolist()
        said = figures(visitor, "predicted")
        assert said[:2] == [f"{round(100 * share)} %" for share in (outcome.hit, end)]
        assert float(said[2].replace("−", "-")) == pytest.approx(reward, abs=0.006)
        assert figures(visitor, "came") == ["–", "–", "–"]
        assert page.evaluate(OUTLINED) > 50

        page.mouse.up()
        visitor.rest()
        page.wait_for_function("() => document.getElementById('came-reward').textContent !== '…'")
        came = step(state, placement)
        assert figures(visitor, "predicted") == said
        hit, ended, earned = figures(visitor, "came")
        assert hit == ("yes" if came.state.ended == "obstacle_hit" else "no")
        assert ended == ("yes" if came.state.ended else "no")
        assert float(earned.replace("−", "-")) == pytest.approx(came.reward, abs=0.006)
        if hit == "no":
            off = np.hypot(*(after.scene.pose[4] - came.state.scene.pose[4])[:2])
            assert float(visitor.text("#came-off").removesuffix(" m")) == pytest.approx(off, abs=0.006)
        assert page.evaluate(OUTLINED) > 50

        page.uncheck("#predictions")
        assert page.is_hidden("#predicted")
        assert page.evaluate(OUTLINED) == 0
        page.check("#predictions")

        page.click("#undo")  # an agent's placement is predicted too, and that of a link
        page.select_option("#agent", "scripted")
        page.click("#step")
        page.wait_for_function("() => !trilith.watch.playing && trilith.episode.now.predicted")
        assert page.evaluate(OUTLINED) > 50
        address = page.evaluate("() => location.hash.slice(1)")
        visitor.open(address)
        page.wait_for_function("() => trilith.predictions.shown")


def test_a_model_says_of_which_tasks_it_has_not_learned(browser: Any, predicted_site: str) -> None:
    with visit(browser, predicted_site) as visitor:
        visitor.open(SHELTER)
        assert visitor.page.is_hidden("#predicted-note")
        visitor.page.select_option("#task", "silhouette")
        visitor.page.wait_for_function("() => trilith.episode.state.task === 'silhouette'")
        assert visitor.text("#predicted-note") == "small has not learned Silhouette."


def test_without_a_world_nothing_of_predictions_is_seen(visitor: Visitor) -> None:
    visitor.open(SHELTER)
    assert visitor.page.is_hidden("#predicted")
    assert visitor.page.is_hidden("#predictions-switch")
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.drag(0, -7.0, 3.0)
    assert [url.rsplit("/", 1)[-1] for url in asked if "/api/" in url] == ["step"]


def test_on_a_phone_predictions_fit_and_no_keys_are_spoken_of(browser: Any, predicted_site: str) -> None:
    with visit(browser, predicted_site, **PHONE) as visitor:
        visitor.open("task=silhouette&level=double_the_targets&seed=1")
        assert visitor.text("#status") == "Drag a block from below the floor into the scene."
        assert visitor.page.is_hidden("#help")
        cut = """() => ["task", "level"].filter((id) => {
            const shown = document.getElementById(id), whole = shown.cloneNode(true);
            whole.style.cssText = "position: absolute; width: max-content; max-width: none; flex: none";
            whole.value = shown.value;
            document.body.append(whole);
            const short = whole.getBoundingClientRect().width > shown.getBoundingClientRect().width + 0.5;
            whole.remove();
            return short;
        })"""
        assert visitor.page.evaluate(cut) == [], "names that are cut"
        visitor.page.evaluate("() => trilith.place([0, -7, 9, false])")
        visitor.rest()
        visitor.page.wait_for_function("() => trilith.episode.now.predicted")
        assert visitor.page.evaluate("() => document.documentElement.scrollWidth") == 360
