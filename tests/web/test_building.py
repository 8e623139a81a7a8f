"""Building by hand in a real browser: what helps a hand that is not as steady as the rules are strict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from visitor import Visitor, visit

from trilith.world.episode import start
from trilith.world.scene import Role

pytestmark = pytest.mark.slow

TOWER = "task=silhouette&level=1&seed=2"
PLANS = [
    *("task=silhouette&level=4&seed=5", "task=silhouette&level=6&seed=2", "task=connecting&level=2&seed=1"),
    *("task=connecting&level=4&seed=3", "task=covering&level=0&seed=6", "task=covering_hard&level=0&seed=6"),
]
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "device_scale_factor": 2}


@pytest.mark.parametrize("y", [0.3, 0.0, -0.5])
def test_a_block_dragged_to_or_below_the_floor_rests_on_it(visitor: Visitor, y: float) -> None:
    visitor.open(TOWER)
    visitor.page.click("#snap")
    visitor.drag(0, 6.5, y)
    assert visitor.state()["steps"] == 1
    assert visitor.state()["scene"]["pose"][-1][:2] == pytest.approx([6.5, 0.35], abs=0.02)


def test_a_ghost_that_would_fall_onto_an_obstacle_is_amber_and_says_so(visitor: Visitor) -> None:
    scene = start("silhouette", 7, np.random.default_rng(3)).scene
    x, y = max(((x, y) for x, y, _ in scene.pose[scene.rows(Role.OBSTACLE)]), key=lambda at: at[1])
    visitor.open("task=silhouette&level=7&seed=3")
    visitor.page.click("#snap")
    visitor.lift(0, float(x), float(y) + 2.5)
    ghost = visitor.page.evaluate("() => trilith.build.ghost")
    assert (ghost["objection"], ghost["warning"]) == (None, "It would fall onto an obstacle.")
    r, g, b = visitor.page.evaluate(
        """([x, y]) => {
            const { stage } = trilith, view = stage.layout()[0], ratio = devicePixelRatio;
            stage.draw(performance.now());
            const [px, py] = [view.x(x - 0.35 + 0.035) * ratio, view.y(y) * ratio];
            return [...stage.context.getImageData(Math.round(px), Math.round(py), 1, 1).data].slice(0, 3);
        }""",
        [ghost["x"], ghost["y"]],
    )
    assert r > g > b, "amber"
    visitor.page.mouse.move(*visitor.point(7.4, 6.0))
    assert visitor.page.evaluate("() => trilith.build.ghost.warning") is None
    visitor.page.mouse.up()
    visitor.rest()


def test_a_block_let_go_a_little_inside_another_is_lifted_onto_it(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.page.click("#snap")
    visitor.drag(3, -6.0, 0.35)
    x, y, _ = visitor.state()["scene"]["pose"][-1]
    for into, objection in ((0.005, None), (0.12, None), (0.3, "It would overlap a block.")):
        visitor.lift(3, x, y + 0.7 - into)
        assert visitor.page.evaluate("() => trilith.build.ghost.objection") == objection
        visitor.page.keyboard.press("Escape")
        visitor.page.mouse.up()


@pytest.mark.parametrize("snap", [True, False], ids=["snap", "no snap"])
def test_no_block_of_a_plan_is_refused_to_a_hand_that_is_off_by_twelve_centimetres(browser: Any, site: str, snap: bool) -> None:
    rng = np.random.default_rng(1)
    with visit(browser, site, reduced_motion="reduce") as visitor:
        for address in PLANS:
            visitor.open(address)
            visitor.page.set_checked("#snap", snap)
            while not visitor.state()["ended"]:
                slot, x, y, sticky = visitor.page.evaluate(
                    "() => trilith.api.act(trilith.episode.now.text, 'planner', 1, false).then(({ placement }) => placement)"
                )
                steps = visitor.state()["steps"]
                visitor.page.set_checked("#sticky", sticky)
                visitor.drag(slot, x + rng.uniform(-0.12, 0.12), y + rng.uniform(-0.12, 0.12))
                assert visitor.state()["steps"] == steps + 1, visitor.text("#status")


def test_a_finger_takes_a_block_that_it_misses_by_little(browser: Any, site: str) -> None:
    with visit(browser, site, **PHONE) as visitor:
        visitor.open(TOWER)
        slot, (x, y, _) = 0, visitor.state()["scene"]["pose"][0]
        px, py = visitor.point(x - 0.35, y)
        session = visitor.page.context.new_cdp_session(visitor.page)
        for away, taken in ((20, slot), (60, None)):
            session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": px, "y": py + away}]})
            assert visitor.page.evaluate("() => trilith.build.ghost?.slot ?? null") == taken
            session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("size", [(390, 844), (844, 390)], ids=["upright", "on its side"])
@pytest.mark.parametrize("address", ["", TOWER], ids=["first visit", "link"])
def test_on_a_phone_scene_floor_and_play_are_seen_at_once(browser: Any, site: str, size: tuple[int, int], address: str) -> None:
    with visit(browser, site, viewport={"width": size[0], "height": size[1]}, has_touch=True, is_mobile=True) as visitor:
        visitor.open(address)
        assert visitor.page.is_visible("#welcome") == (not address)
        assert visitor.point(0.0, -1.5)[1] < size[1], "the floor, and the blocks below it"
        for name in ("play", "theme"):
            box = visitor.page.locator(f"#{name}").bounding_box()
            assert box["y"] + box["height"] <= size[1]
            assert box["x"] + box["width"] <= size[0]


def test_sticky_is_off_in_another_task(visitor: Visitor) -> None:
    visitor.open("task=connecting&level=0&seed=3")
    visitor.page.check("#sticky")
    visitor.page.click("#next")
    visitor.page.wait_for_function("() => trilith.episode.origin.seed === 4")
    assert visitor.page.is_checked("#sticky")
    visitor.page.select_option("#task", "covering")
    visitor.page.wait_for_function("() => trilith.episode.state.task === 'covering'")
    assert not visitor.page.is_checked("#sticky"), "where it costs something"


def test_snap_never_leads_onto_an_obstacle(visitor: Visitor) -> None:
    scene = start("silhouette", 7, np.random.default_rng(3)).scene
    visitor.open("task=silhouette&level=7&seed=3")
    for row in scene.rows(Role.OBSTACLE).tolist():
        x, y, _ = scene.pose[row].tolist()
        visitor.lift(0, x, y + 0.6)
        ghost = visitor.page.evaluate("() => trilith.build.ghost")
        where = (ghost["x"], ghost["y"])
        assert ghost["warning"] is None or where == pytest.approx((x, y + 0.6), abs=0.03), "it stays where the hand is, or is led off"
        visitor.page.keyboard.press("Escape")
        visitor.page.mouse.up()


@pytest.mark.parametrize("button", ["#play", "#step", "#compare"])
def test_on_a_phone_the_scene_comes_into_sight_when_an_agent_builds(browser: Any, site: str, button: str) -> None:
    with visit(browser, site, **PHONE) as visitor:
        visitor.open(TOWER)
        visitor.page.click(button)
        visitor.page.wait_for_function(
            "() => { const { top } = document.getElementById('board').getBoundingClientRect(); return top >= -1 && top < innerHeight / 2; }"
        )
        visitor.page.wait_for_function("() => !trilith.watch.playing && !trilith.compare.playing")


@pytest.mark.longest
@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
def test_aimed_with_a_hand_s_noise_of_three_pixels_a_placement_scores(browser: Any, site: str, options: dict[str, Any]) -> None:
    """Targets on the floor, of all sizes, each aimed at with seeded noise and nothing else changed on the page."""
    rng, scored = np.random.default_rng(0), 0
    with visit(browser, site, **options) as visitor:
        for seed in range(12):
            visitor.open(f"task=silhouette&level=0&seed={seed}")
            scene = visitor.state()["scene"]
            row = scene["role"].index(Role.TARGET)
            (x, y, _), (w, _) = scene["pose"][row], scene["size"][row]
            slot = [width for width, _ in scene["size"][:7]].index(w)
            visitor.lift(slot, x, y)
            px, py = visitor.point(x, y)
            dx, dy = rng.normal(0, 3, 2)
            visitor.page.mouse.move(px + dx, py + dy)
            visitor.page.mouse.up()
            visitor.rest()
            scored += visitor.text("#score") == "1"
    assert scored >= 11


def test_after_the_last_level_there_is_another_scene(browser: Any, site: str) -> None:
    with visit(browser, site, reduced_motion="reduce") as visitor:
        for label, then in (("Next level", "trilith.episode.state.level === 2"), ("Next scene", "trilith.episode.origin.seed === 3")):
            visitor.open(TOWER)
            if label == "Next scene":
                visitor.page.evaluate("() => { trilith.tasks.get('silhouette').levels.length = 2; }")
            visitor.page.select_option("#agent", "scripted")
            visitor.page.click("#play")
            visitor.wait_for_end()
            assert visitor.text("#next-level") == label
            visitor.page.click("#next-level")
            visitor.page.wait_for_function(f"() => {then}")
            assert not visitor.page.is_visible("#next-level")


def test_every_agent_says_whether_and_how_it_learned(visitor: Visitor) -> None:
    visitor.open(TOWER)
    told = {}
    for agent in visitor.page.evaluate("() => Object.keys(trilith.about.tasks[0].agents)"):
        visitor.page.select_option("#agent", agent)
        told[agent] = visitor.text("#agent-about")
        assert ("that learned this task by" if agent.startswith(("objects", "pixels")) else "It has learned nothing.") in told[agent]
    assert "from its own play" in told["objects"]
    assert "planner" not in told["objects"]
    assert "planner showed it" in told["pixels"]
    assert "tries 50 placements" in told["objects + search"]


def test_the_planner_s_ideas_are_its_plan(visitor: Visitor) -> None:
    visitor.open("task=silhouette&level=3&seed=1")
    visitor.page.select_option("#agent", "planner")
    visitor.page.click("#ideas")
    visitor.page.wait_for_selector("#ideas-list li")
    assert visitor.text("#ideas-note") == "Planner: its plan from here, which earns +4."
    planned = visitor.page.evaluate("() => trilith.think.ideas.map(({ placement }) => placement)")
    visitor.page.select_option("#speed", "16")
    visitor.page.click("#ideas")
    visitor.page.click("#play")
    visitor.wait_for_end()
    assert visitor.page.evaluate("() => trilith.episode.placements") == planned


def test_an_agent_s_values_are_a_map_of_places_for_the_chosen_block(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.page.select_option("#agent", "planner")
    visitor.page.click("#values")
    visitor.page.wait_for_selector("#values-note:not([hidden])")
    visitor.page.wait_for_function("() => document.getElementById('values-note').textContent.includes('keeps no values')")
    visitor.page.select_option("#agent", "objects")
    visitor.page.wait_for_function("() => trilith.values.shown")
    small = visitor.page.evaluate("() => trilith.values.shown")
    visitor.page.keyboard.press("7")  # the large one, in the hand
    visitor.page.wait_for_function("() => trilith.values.shown")
    large = visitor.page.evaluate("() => trilith.values.shown")
    assert small != large
    assert all(abs(x) <= 7.5 and 0 <= y <= 15 for x, y, _ in small + large)
    assert len({(x, y) for x, y, _ in small}) == len(small) > 20
    assert (visitor.text("#values-scale").split(), visitor.page.evaluate("() => trilith.values.most")) == (["0", "+2"], 2), "for all states"
    visitor.page.keyboard.press("Escape")
    x, y, value = next(place for place in large if place[1] > 1)
    visitor.page.mouse.move(*visitor.point(x, y))
    tip = visitor.text("#tip").split("\n")
    assert (float(tip[0].replace("−", "-")), tip[1]) == (pytest.approx(value, abs=0.006), f"at {x:.2f}, {y:.2f}".replace("-0.00", "0.00"))
