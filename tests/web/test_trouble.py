"""What goes wrong around the page, in a real browser: a reload at the wrong moment, keys held down, a server that is gone or hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from visitor import Held, Visitor, visit

pytestmark = pytest.mark.slow

TOWER = "task=silhouette&level=1&seed=2"
FOUR = "task=silhouette&level=3&seed=1"
QUICK = {"reduced_motion": "reduce"}  # blocks are at rest at once


@pytest.fixture
def quick(browser: Any, site: str) -> Iterator[Visitor]:
    with visit(browser, site, **QUICK) as someone:
        yield someone


@pytest.fixture
def unlucky(browser: Any, site: str) -> Iterator[Visitor]:
    """A visitor whose console may tell of connections that are cut."""
    context = browser.new_context(**QUICK)
    context.set_default_timeout(45000)
    yield Visitor(context.new_page(), site)
    context.close()


def reload(visitor: Visitor) -> None:
    visitor.page.reload()
    visitor.page.wait_for_selector("body[data-ready]")


def test_a_first_visit_survives_a_reload(quick: Visitor) -> None:
    quick.open()
    quick.page.wait_for_function("() => trilith.episode.cursor > 0")
    reload(quick)
    assert quick.page.is_visible("#welcome")
    assert quick.wait_for_end() == "complete", "the network goes on"
    reload(quick)
    assert quick.page.is_visible("#welcome")
    assert quick.state()["ended"] == "complete"
    quick.page.click("#welcome-end")
    reload(quick)
    assert not quick.page.is_visible("#welcome")


def test_an_opened_file_survives_a_reload_until_another_scene_is_shown(quick: Visitor, tmp_path: Path) -> None:
    quick.open(f"{TOWER}&build=6,4.59,0.39")
    text = quick.page.evaluate("() => trilith.episode.recording(trilith.about.physics)")
    (tmp_path / "two.json").write_text(json.dumps({"worst": [json.loads(text)] * 2}))
    quick.page.set_input_files("#file", tmp_path / "two.json")
    quick.page.wait_for_selector("#opened-row:not([hidden])")
    reload(quick)
    assert quick.page.eval_on_selector_all("#opened option", "all => all.length") == 2
    assert quick.page.input_value("#agent") == "recorded"
    assert quick.page.evaluate("() => trilith.episode.moments.length") == 2
    quick.page.click("#next")
    quick.page.wait_for_function("() => trilith.episode.origin")
    reload(quick)
    assert quick.page.evaluate("() => trilith.episode.moments.length") == 1
    assert quick.page.input_value("#agent") != "recorded"


def test_a_key_that_is_held_down_is_pressed_once(quick: Visitor) -> None:
    quick.open(FOUR)
    for key, checked in (("s", "#sticky"), ("i", "#ideas"), ("c", "#contacts")):
        for _ in range(4):
            quick.page.keyboard.down(key)
        quick.page.keyboard.up(key)
        assert quick.page.is_checked(checked)
    for _ in range(4):
        quick.page.keyboard.down("n")
    quick.page.keyboard.up("n")
    quick.page.wait_for_function("() => trilith.episode.origin.seed === 2")
    quick.page.keyboard.press("1")
    before = quick.page.evaluate("() => trilith.build.ghost.rawY")
    for _ in range(3):
        quick.page.keyboard.down("ArrowUp")
    quick.page.keyboard.up("ArrowUp")
    assert quick.page.evaluate("() => trilith.build.ghost.rawY") == pytest.approx(before + 3 * 0.35), "this one goes on"


def test_caps_lock_takes_no_key_away(quick: Visitor) -> None:
    quick.open(FOUR)
    quick.page.evaluate("() => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'S', bubbles: true }))")
    assert quick.page.is_checked("#sticky")
    for shift, row in ((False, 0), (False, 1), (True, 0)):
        options = json.dumps({"key": "O", "shiftKey": shift, "bubbles": True})
        quick.page.evaluate(f"() => document.body.dispatchEvent(new KeyboardEvent('keydown', {options}))")
        assert quick.page.evaluate("() => trilith.build.hover") == row


def test_while_agents_are_compared_ideas_and_values_say_why_there_are_none(quick: Visitor) -> None:
    quick.open(f"{TOWER}&agent=objects&show=ideas,values")
    quick.page.wait_for_selector("#ideas-list li")
    quick.page.wait_for_function("() => trilith.values.shown")
    quick.page.click("#compare")
    for name in ("ideas", "values"):
        quick.page.wait_for_function(
            f"() => document.getElementById('{name}-note').textContent === 'Two agents are compared: close that to see this of one.'"
        )
    assert quick.page.query_selector("#ideas-list li") is None
    quick.page.click("#compare")
    quick.page.wait_for_selector("#ideas-list li")
    quick.page.wait_for_function("() => trilith.values.shown")


@pytest.mark.parametrize(("name", "there"), [("ideas", "trilith.think.ideas.length"), ("values", "trilith.values.shown")])
def test_ideas_and_values_that_a_lost_connection_stopped_can_be_asked_for_again(unlucky: Visitor, name: str, there: str) -> None:
    unlucky.open(f"{TOWER}&agent=objects")
    unlucky.page.route(f"**/api/{name}", lambda route: route.abort())
    unlucky.page.check(f"#{name}")
    unlucky.page.wait_for_selector("#retry:not([hidden])")
    assert "does not answer" in unlucky.text(f"#{name}-note")
    unlucky.page.unroute(f"**/api/{name}")
    unlucky.page.click("#retry")
    unlucky.page.wait_for_function(f"() => {there}")
    assert unlucky.page.is_hidden("#retry")


@pytest.mark.parametrize("button", ["#play", "#step", "#compare"])
def test_an_agent_whose_server_hangs_is_spoken_of_and_can_be_asked_again(quick: Visitor, button: str) -> None:
    quick.open(f"{FOUR}&agent=scripted")
    quick.page.evaluate("() => { trilith.patience = 300; }")
    acts = Held(quick, "act")
    quick.page.click(button)
    quick.page.wait_for_selector("#retry:not([hidden])")
    assert quick.text("#status") == "No answer yet: the agent thinks long, or the server hangs. Waiting …"
    acts.held = False
    quick.page.click("#retry")
    quick.page.wait_for_function("() => (trilith.compare.panels?.[0].episode ?? trilith.episode).state.steps > 0")
    quick.page.wait_for_function("() => !trilith.watch.playing && !trilith.compare.playing")
    assert quick.page.is_hidden("#retry")
    if button == "#step":
        assert quick.state()["steps"] == 1


def test_a_file_is_spoken_of_while_it_is_opened(unlucky: Visitor) -> None:
    unlucky.open(TOWER)
    Held(unlucky, "open")
    unlucky.page.set_input_files("#file", {"name": "cat.json", "mimeType": "application/json", "buffer": b"{}"})
    unlucky.page.wait_for_function("() => document.getElementById('status').textContent === 'Opening cat.json …'")
    unlucky.page.wait_for_selector("#retry:not([hidden])")
    assert "Waiting" in unlucky.text("#status")


def test_a_link_holds_what_is_hidden_and_the_block_of_the_value_map(quick: Visitor) -> None:
    quick.open(f"{TOWER}&agent=objects")
    quick.page.uncheck("#glue")
    quick.page.uncheck("#done")
    quick.page.check("#values")
    quick.page.select_option("#values-slot", label="large")
    quick.page.wait_for_function("() => trilith.values.shown")
    seen = """() => [document.getElementById("glue").checked, document.getElementById("done").checked,
        document.getElementById("values-slot").selectedOptions[0].text, trilith.values.shown]"""
    before = quick.page.evaluate(seen)
    assert before[:3] == [False, False, "large"]
    reload(quick)
    quick.page.wait_for_function("() => trilith.values.shown")
    assert quick.page.evaluate(seen) == before
    quick.page.keyboard.press("4")  # a medium block is in the hand
    assert "&block=medium" in quick.page.evaluate("() => location.hash")
    quick.open(TOWER)
    assert quick.page.is_checked("#glue"), "a link that does not say hides nothing"


def test_a_block_that_is_led_out_of_sight_stays_at_the_edge(quick: Visitor) -> None:
    quick.open(FOUR)
    quick.page.click("#snap")
    quick.lift(0, 0.0, 5.0)
    box = quick.page.locator("#board").bounding_box()
    quick.page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 60)
    high, top = "trilith.build.ghost.y", "trilith.stage.layout()[0].world(0, 0)[1]"
    assert quick.page.evaluate(f"() => {top} - {high}") == pytest.approx(0.35, abs=0.01), "as high as can be seen"
    quick.page.mouse.up()
    quick.rest()
    quick.page.keyboard.press("1")
    for _ in range(20):
        quick.page.keyboard.press("ArrowUp")
    assert quick.page.evaluate(f"() => {top} - {high}") == pytest.approx(0.35, abs=0.01)
    quick.page.keyboard.press("ArrowDown")
    assert quick.page.evaluate(f"() => {top} - {high}") == pytest.approx(0.7, abs=0.01), "and not later than that"


def test_a_tap_tells_of_an_object_and_of_a_value_until_the_next(browser: Any, site: str) -> None:
    with visit(browser, site, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, **QUICK) as visitor:
        visitor.open(f"{TOWER}&build=6,4.59,0.39&agent=objects&show=values")
        visitor.page.wait_for_function("() => trilith.values.shown")
        visitor.page.touchscreen.tap(*visitor.point(4.59, 0.35))
        assert visitor.page.is_visible("#tip")
        assert visitor.text("#tip").startswith("block 1\n")
        visitor.page.touchscreen.tap(*visitor.point(-5.0, 5.0))
        assert not visitor.page.is_visible("#tip")
        free = """() => {
            const { pose } = trilith.episode.state.scene;
            return trilith.values.shown.find(([x, y]) => pose.every(([a, b]) => Math.hypot(a - x, b - y) > 2.5));
        }"""
        x, y, value = visitor.page.evaluate(free)
        visitor.page.touchscreen.tap(*visitor.point(x, y))
        assert visitor.page.is_visible("#tip")
        assert float(visitor.text("#tip").split("\n")[0].replace("−", "-")) == pytest.approx(value, abs=0.006)


@pytest.mark.parametrize("size", [(390, 844), (844, 390)], ids=["upright", "on its side"])
def test_a_finger_finds_every_switch(browser: Any, site: str, size: tuple[int, int]) -> None:
    with visit(browser, site, viewport={"width": size[0], "height": size[1]}, has_touch=True, is_mobile=True, **QUICK) as visitor:
        visitor.open(f"{FOUR}&agent=planner&show=ideas")
        visitor.page.wait_for_selector("#ideas-list li")
        small = """() => [...document.querySelectorAll("button, select, summary, label.switch")]
            .filter((each) => each.offsetParent && each.getBoundingClientRect().height < 24)
            .map((each) => each.id || each.textContent.trim())"""
        assert visitor.page.evaluate(small) == []
