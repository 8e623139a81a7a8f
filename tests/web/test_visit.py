"""What a visit must survive, in a real browser: clicks by mistake, a slow server, a reload, a first look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from visitor import Held, Visitor, visit

pytestmark = pytest.mark.slow

TOWER = "task=silhouette&level=1&seed=2"
FOUR = "task=silhouette&level=3&seed=1"
QUICK = {"reduced_motion": "reduce"}  # blocks are at rest at once
COPIED = "() => document.getElementById('status').textContent.startsWith('Copied')"


@pytest.fixture
def quick(browser: Any, site: str) -> Iterator[Visitor]:
    with visit(browser, site, **QUICK) as someone:
        yield someone


def ideas(visitor: Visitor, agent: str) -> None:
    visitor.page.select_option("#agent", agent)
    visitor.page.check("#ideas")
    visitor.page.wait_for_selector("#ideas-list li")


def test_a_second_click_on_an_idea_while_its_block_falls_places_nothing(visitor: Visitor) -> None:
    visitor.open(FOUR)
    ideas(visitor, "legal")
    visitor.page.evaluate("() => { trilith.think.ideas[0].placement = [0, -6.9, 9, false]; trilith.think.show(); }")  # a long way down
    visitor.page.select_option("#speed", "0.5")
    button = "#ideas-list li:first-child button"
    visitor.page.click(button)
    visitor.page.wait_for_function("() => trilith.panel.fall")
    with visitor.page.expect_event("requestfinished", lambda request: request.url.endswith("/api/ideas")):
        visitor.page.click(button, force=True)
        visitor.page.keyboard.press("k")
    assert visitor.state()["steps"] == 1
    visitor.page.wait_for_selector(f"{button}[aria-disabled=false]")


def test_the_second_of_two_quick_clicks_is_no_choice_among_the_next_ideas(quick: Visitor) -> None:
    quick.open(FOUR)
    ideas(quick, "objects")
    for time, steps in ((1000, 1), (1300, 1), (1600, 2)):
        quick.page.evaluate("(timeStamp) => trilith.think.follow(0, { timeStamp })", time)
        quick.page.wait_for_function("() => trilith.think.usable && trilith.think.ideas.length")
        assert quick.state()["steps"] == steps


def test_a_double_click_on_an_idea_places_one_block(quick: Visitor) -> None:
    quick.open(FOUR)
    ideas(quick, "legal")
    box = quick.page.locator("#ideas-list li:first-child button").bounding_box()
    quick.page.mouse.dblclick(box["x"] + 40, box["y"] + box["height"] / 2, delay=100)
    quick.page.wait_for_function("() => trilith.think.usable && trilith.think.ideas.length")
    assert quick.state()["steps"] == 1


@pytest.mark.parametrize(("source", "words"), [("plan", "nothing more to gain"), ("agent", "no place where a block could go")])
def test_an_agent_without_an_idea_says_so(quick: Visitor, source: str, words: str) -> None:
    quick.page.route("**/api/ideas", lambda route: route.fulfill(json={"source": source, "ideas": [], "seen": []}))
    quick.open(FOUR)
    quick.page.select_option("#agent", "planner")
    quick.page.check("#ideas")
    quick.page.wait_for_function("() => document.getElementById('ideas-note').textContent.includes('has no idea')")
    assert quick.text("#ideas-note") == f"Planner has no idea here: it sees {words}."
    assert quick.page.locator("#ideas-list li").count() == 0


def test_a_later_step_of_a_plan_comes_after_the_steps_before_it(quick: Visitor) -> None:
    quick.open(FOUR)
    ideas(quick, "planner")
    planned = quick.page.evaluate("() => trilith.think.ideas.slice(0, 3).map(({ placement }) => placement)")
    quick.page.click("#ideas-list li:nth-child(3) button")
    quick.page.wait_for_function("() => trilith.episode.state.steps === 3 || trilith.episode.ended")
    quick.rest()
    assert quick.page.evaluate("() => trilith.episode.placements") == planned
    assert quick.text("#total") == "+3"


def test_a_tap_lets_nothing_fall(browser: Any, site: str) -> None:
    with visit(browser, site, viewport={"width": 390, "height": 844}, has_touch=True) as visitor:
        visitor.open(TOWER)
        x, y, _ = visitor.state()["scene"]["pose"][0]
        visitor.page.touchscreen.tap(*visitor.point(x, y))
        assert visitor.page.evaluate("() => [trilith.busy, trilith.build.ghost, trilith.episode.cursor]") == [False, None, 0]


def test_a_slow_server_keeps_the_block_and_can_be_asked_again(quick: Visitor) -> None:
    quick.open(TOWER)
    steps = Held(quick, "step")
    quick.lift(0, -6.5, 3.0)
    quick.page.mouse.up()
    assert quick.page.evaluate("() => trilith.overlay(trilith.panel, false).ghost.slot") == 0
    quick.page.wait_for_selector("#retry:not([hidden])")
    assert "Waiting" in quick.text("#status")
    steps.held = False
    quick.page.click("#retry")
    quick.page.wait_for_function("() => trilith.episode.state.steps === 1")
    assert steps.asked == 2
    assert quick.page.is_hidden("#retry")


def test_a_block_that_a_lost_connection_stopped_stays_and_can_be_taken_back(browser: Any, site: str) -> None:
    context = browser.new_context()  # not `visit`: the console tells of the connection that is cut
    visitor = Visitor(context.new_page(), site)
    visitor.open(TOWER)
    visitor.page.route("**/api/step", lambda route: route.abort())
    visitor.lift(0, -6.5, 3.0)
    visitor.page.mouse.up()
    visitor.page.wait_for_selector("#retry:not([hidden])")
    assert visitor.page.evaluate("() => trilith.overlay(trilith.panel, false).ghost.slot") == 0
    visitor.page.select_option("#agent", "planner")
    assert "does not answer" in visitor.text("#status"), "it is not written over"
    visitor.page.unroute("**/api/step")
    visitor.page.click("#retry")
    visitor.page.wait_for_function("() => trilith.episode.state.steps === 1")
    visitor.page.route("**/api/step", lambda route: route.abort())
    visitor.lift(1, 6.5, 3.0)
    visitor.page.mouse.up()
    visitor.page.wait_for_selector("#retry:not([hidden])")
    visitor.page.keyboard.press("Escape")
    assert visitor.page.evaluate("() => [trilith.pending, trilith.episode.cursor]") == [None, 1]
    assert visitor.page.is_hidden("#retry")
    context.close()


def test_a_scene_that_does_not_come_leaves_the_one_that_is_shown_chosen(browser: Any, site: str) -> None:
    context = browser.new_context()
    visitor = Visitor(context.new_page(), site)
    visitor.open(TOWER)
    visitor.page.route("**/api/start", lambda route: route.abort())
    visitor.page.select_option("#task", "connecting")
    visitor.page.wait_for_selector("#retry:not([hidden])")
    chosen = [visitor.page.input_value(f"#{name}") for name in ("task", "level", "seed")]
    assert chosen == ["silhouette", "1", "2"]
    visitor.page.unroute("**/api/start")
    visitor.page.click("#retry")
    visitor.page.wait_for_function("() => trilith.episode.state.task === 'connecting'")
    assert visitor.page.input_value("#task") == "connecting"
    context.close()


def test_play_after_the_end_keeps_a_tower_built_by_hand(quick: Visitor) -> None:
    quick.open(TOWER)
    quick.page.select_option("#agent", "scripted")
    quick.page.evaluate("() => trilith.place([0, -6.5, 3, false]).then(() => trilith.place([0, -5.5, 3, false]))")
    quick.page.wait_for_function("() => document.body.dataset.ended")
    for press in (lambda: quick.page.click("#play"), lambda: quick.page.keyboard.press("p")):
        press()
        assert quick.text("#status").startswith("Your tower stays")
        assert quick.page.evaluate("() => trilith.episode.moments.length") == 3
    quick.page.click("#restart")
    quick.page.click("#play")
    assert quick.wait_for_end() == "complete"


@pytest.mark.parametrize("task", ["silhouette", "covering", "covering_hard", "connecting"])
def test_the_guide_of_every_task_leads_to_an_end_and_survives_a_reload(quick: Visitor, task: str) -> None:
    quick.open(f"task={task}&level=0&seed=0")
    quick.page.click("#guide-start")
    for _ in range(5):
        quick.page.wait_for_function(
            "() => trilith.guide.next || document.getElementById('guide-words').textContent.startsWith('It stands')"
        )
        if quick.text("#guide-words").startswith("It stands"):
            break
        slot, x, y, sticky = quick.page.evaluate("() => trilith.guide.next")
        assert ("Switch Sticky" in quick.text("#guide-words")) == (sticky != quick.page.is_checked("#sticky"))
        quick.page.set_checked("#sticky", sticky)
        quick.drag(slot, x + 0.2, y + 0.1)
        steps = quick.state()["steps"]
        quick.page.reload()
        quick.page.wait_for_selector("body[data-ready]")
        assert quick.page.is_visible("#guide")
        assert quick.state()["steps"] == steps
    else:
        pytest.fail("the guide does not come to an end")
    quick.open()
    assert not quick.page.is_visible("#guide"), "it does not start over"
    assert not quick.page.is_visible("#welcome")


def test_a_link_holds_what_is_seen_also_after_a_reload(browser: Any, site: str) -> None:
    with visit(browser, site, permissions=["clipboard-read", "clipboard-write"], **QUICK) as visitor:
        visitor.open(FOUR)
        visitor.drag(0, -6.5, 3.0)
        visitor.page.select_option("#agent", "objects + search")
        visitor.page.click("#step")
        visitor.page.wait_for_function("() => trilith.episode.state.steps === 2 && !trilith.watch.playing")
        visitor.page.select_option("#agent", "planner")
        visitor.page.select_option("#speed", "4")
        visitor.page.check("#ideas")
        visitor.page.check("#contacts")
        visitor.page.click("#link")
        visitor.page.wait_for_function(COPIED)
        assert visitor.text("#status") == "Copied the address of this scene, its 2 steps, the chosen agent and what is switched on."
        address = visitor.page.evaluate("() => navigator.clipboard.readText()").split("#")[1]
        seen = """() => ({ agent: trilith.agent, speed: trilith.speed, contacts: document.getElementById("contacts").checked,
            by: trilith.episode.moments.map(({ by }) => by ?? null), text: trilith.episode.now.text })"""
        before = visitor.page.evaluate(seen)
        assert before["by"] == [None, "you", "objects + search"]
        for again in (lambda: visitor.open(address), visitor.page.reload):
            again()
            visitor.page.wait_for_selector("body[data-ready]")
            visitor.page.wait_for_selector("#ideas-list li")
            assert visitor.page.evaluate(seen) == before
        visitor.page.select_option("#rival", "random")
        visitor.page.click("#compare")
        visitor.page.reload()
        visitor.page.wait_for_function("() => document.body.dataset.ready && trilith.compare.active")
        assert visitor.page.evaluate("() => trilith.compare.panels.map(({ agent }) => agent)") == ["planner", "random"]


def test_keys_go_to_the_scene_after_a_choice(quick: Visitor) -> None:
    quick.open(TOWER)
    quick.page.focus("#agent")
    quick.page.select_option("#agent", "scripted")
    quick.page.keyboard.press("p")
    quick.page.wait_for_function("() => trilith.episode.cursor > 0")
    assert quick.page.input_value("#agent") == "scripted"
    assert quick.wait_for_end() == "complete"
    quick.page.fill("#seed", "5")
    quick.page.press("#seed", "Enter")
    quick.page.wait_for_function("() => trilith.episode.origin.seed === 5")
    quick.page.keyboard.press("1")
    assert quick.page.input_value("#seed") == "5"
    assert quick.page.evaluate("() => trilith.build.ghost.slot") == 0


def test_keys_go_to_the_scene_after_the_arrows_of_the_seed(quick: Visitor) -> None:
    quick.open(TOWER)
    box = quick.page.locator("#seed").bounding_box()
    quick.page.mouse.click(box["x"] + 15, box["y"] + box["height"] / 2)
    assert quick.page.evaluate("() => document.activeElement.id") == "seed", "to type a number"
    asked: list[str] = []
    quick.page.on("request", lambda request: asked.append(request.url))
    quick.page.mouse.click(box["x"] + box["width"] - 18, box["y"] + box["height"] / 3)
    quick.page.wait_for_function("() => trilith.episode.origin.seed === 3")
    quick.page.keyboard.press("1")
    assert quick.page.input_value("#seed") == "3"
    assert sum(url.endswith("/api/start") for url in asked) == 1, "the scene is asked for once"
    assert quick.page.evaluate("() => trilith.build.ghost.slot") == 0


def test_a_first_visit_shows_a_network_at_work_and_then_offers_the_guide(quick: Visitor) -> None:
    quick.open()
    assert "Neural networks learned to build here. Watch them, build by hand, beat them." in quick.text("#welcome")
    assert quick.page.input_value("#agent") == "objects"
    assert quick.wait_for_end() == "complete"
    quick.page.click("#welcome-guide")
    quick.page.wait_for_selector("#guide:not([hidden])")
    assert not quick.page.is_visible("#welcome")
    quick.open()
    assert quick.page.is_visible("#welcome"), "until it is closed, or the guide is done"
    quick.page.click("#welcome-end")
    quick.open()
    assert not quick.page.is_visible("#welcome")


def test_an_end_that_is_no_mistake_is_not_red_and_steps_that_were_not_made_are_counted(quick: Visitor) -> None:
    quick.open(f"{FOUR}&build=x&show=ideas")
    assert quick.state()["ended"] == "stopped"
    assert quick.page.get_attribute("#status", "data-tone") == ""
    assert quick.text("#left") == "3", "of 4, one of which was to stop"
    assert quick.text("#ideas-note") == "The episode has ended: there is nothing left to place."
    quick.open(f"{FOUR}&build=0,-6.9,0.36;1,-6,0.36;2,-5.1,0.36;3,6.5,0.36")
    assert quick.state()["ended"] == "max_steps"
    assert quick.text("#status").startswith("The end: no steps or blocks are left.")
    assert quick.page.get_attribute("#status", "data-tone") == ""
    assert quick.text("#left") == "0"


def test_a_saved_episode_keeps_its_seed_and_a_wrong_file_is_refused_in_plain_words(browser: Any, site: str, tmp_path: Path) -> None:
    context = browser.new_context()  # not `visit`: the console tells of the answer 400
    visitor = Visitor(context.new_page(), site)
    visitor.open(f"{TOWER}&build=6,4.59,0.39")
    with visitor.page.expect_download() as download:
        visitor.page.click("#save")
    download.value.save_as(tmp_path / "saved.json")
    visitor.page.set_input_files("#file", tmp_path / "saved.json")
    visitor.page.wait_for_selector("#opened-row:not([hidden])")
    assert visitor.page.evaluate("() => [trilith.episode.seed, trilith.episode.origin]") == [2, None]
    (tmp_path / "cat.png").write_bytes(bytes(range(200)))
    visitor.page.set_input_files("#file", tmp_path / "cat.png")
    visitor.page.wait_for_selector("#status[data-tone=bad]")
    assert visitor.text("#status") == "cat.png cannot be shown: it is not JSON, the format of saved episodes and results"
    context.close()


def test_agents_have_plain_names(visitor: Visitor) -> None:
    visitor.open(TOWER)
    names = visitor.page.eval_on_selector_all("#agent option", "all => Object.fromEntries(all.map(({ value, text }) => [value, text]))")
    assert names == {
        "random": "Random",
        "legal": "Random, where it fits",
        "scripted": "Script",
        "planner": "Planner (no learning)",
        "objects": "Neural network (learned from its own play)",
        "pixels": "Neural network from pixels",
        "objects + search": "Neural network + search",
        "pixels + search": "Neural network from pixels + search",
    }
