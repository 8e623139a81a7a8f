"""The page in a real browser: what a visitor does, and what they see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from visitor import Visitor, visit

from trilith.agents.random_agents import LegalAgent
from trilith.utils.files import read_json, write_json
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import Recording, State, start, step
from trilith.world.scene import Placement, Role

pytestmark = pytest.mark.slow

TOWER = "task=silhouette&level=1&seed=2"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "device_scale_factor": 2}


def tower(visitor: Visitor) -> list[tuple[int, float, float]]:
    """For each target of the scene that is shown, lowest first, a block of its size and where to let it go."""
    scene = visitor.state()["scene"]
    targets = [(*scene["pose"][row], *scene["size"][row]) for row, role in enumerate(scene["role"]) if role == Role.TARGET]
    widths = [size[0] for size in scene["size"][:7]]
    return [(widths.index(w), x, y + 0.1) for x, y, _, w, _ in sorted(targets, key=lambda target: target[1])]


def test_a_block_dragged_onto_each_target_raises_the_score_until_it_is_complete(visitor: Visitor) -> None:
    visitor.open(TOWER)
    assert visitor.text("#score") == "0"
    first, second = tower(visitor)
    assert second[2] > first[2], "one target is above the other"
    visitor.drag(*first)
    assert (visitor.text("#score"), visitor.text("#left"), visitor.text("#status")) == ("1", "1", "+1 for this block.")
    visitor.drag(*second)
    assert (visitor.text("#score"), visitor.text("#total")) == ("2", "+2")
    assert visitor.text("#status").startswith("Complete")
    assert visitor.state()["ended"] == "complete"


def test_what_was_built_by_hand_is_what_the_rules_give_byte_for_byte(visitor: Visitor) -> None:
    visitor.open("task=connecting&level=6&seed=1")
    state = start("connecting", 6, np.random.default_rng(1))
    for slot, x in ((6, -5.5), (3, -5.8), (0, 6.9), (6, -5.1)):
        visitor.page.evaluate("([slot, x]) => trilith.place([slot, x, 7.5, slot === 3])", [slot, x])
        visitor.rest()
    moments = visitor.page.evaluate("() => trilith.episode.moments.map(({ text, placement }) => [text, placement ?? null])")
    assert len(moments) > 1
    for text, placed in moments[1:]:
        state = step(state, Placement(*placed)).state
        assert State.from_json(json.loads(text)).scene.tobytes() == state.scene.tobytes()
    recording = Recording.from_json(json.loads(visitor.page.evaluate("() => trilith.episode.recording(trilith.about.physics)")))
    assert [each.state for each in recording.replay()][-1] == state


def test_an_illegal_place_is_red_with_a_reason_and_a_drop_there_changes_nothing(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.page.click("#snap")
    visitor.drag(*tower(visitor)[0])
    before = visitor.page.evaluate("() => trilith.episode.now.text")
    x, y, _ = visitor.state()["scene"]["pose"][-1]
    visitor.lift(3, x, y)
    assert visitor.page.evaluate("() => trilith.build.ghost.objection") == "It would overlap a block."
    visitor.page.mouse.move(*visitor.point(0.0, 5.0))
    assert visitor.page.evaluate("() => trilith.build.ghost.objection") is None
    visitor.page.mouse.move(*visitor.point(x, y))
    visitor.page.mouse.up()
    assert visitor.text("#status") == "Not there. It would overlap a block."
    assert visitor.page.evaluate("() => trilith.episode.now.text") == before
    visitor.drag(3, 0.0, -2.0)  # back onto the shelf: not placed, and not worth a word
    assert visitor.state()["steps"] == 1


def test_a_sticky_block_costs_and_glues(visitor: Visitor) -> None:
    visitor.open(TOWER)
    first, _ = tower(visitor)
    assert "costs 0.5" in visitor.text("label:has(#sticky)")
    visitor.page.keyboard.press("s")
    assert visitor.page.is_checked("#sticky")
    visitor.drag(*first)
    assert (visitor.text("#score"), visitor.text("#cost"), visitor.text("#total")) == ("1", "−0.5", "+0.5")
    scene = visitor.state()["scene"]
    assert scene["sticky"][-1]
    assert scene["glue"] == [[7, len(scene["role"]) - 1]]


def test_undo_and_redo_go_as_far_as_one_likes(visitor: Visitor) -> None:
    visitor.open("task=connecting&level=0&seed=3")
    for k in range(3):
        visitor.drag(0, -6.9 + 0.8 * k, 6.0)
    texts = visitor.page.evaluate("() => trilith.episode.moments.map(({ text }) => text)")
    assert len(texts) == 4
    visitor.page.click("#undo")
    visitor.page.keyboard.press("Control+z")
    visitor.page.keyboard.press("z")
    assert visitor.page.evaluate("() => trilith.episode.now.text") == texts[0]
    assert visitor.page.is_disabled("#undo")
    visitor.page.keyboard.press("y")
    visitor.page.keyboard.press("Control+Shift+z")
    visitor.page.click("#redo")
    assert visitor.page.evaluate("() => trilith.episode.now.text") == texts[3]
    visitor.page.click("#timeline li:nth-child(2) button")
    assert visitor.state()["steps"] == 1
    visitor.drag(0, 6.9, 6.0)  # another way on forgets what lay ahead
    assert visitor.state()["steps"] == 2
    assert visitor.page.is_disabled("#redo")


def test_the_address_reproduces_what_is_seen(visitor: Visitor) -> None:
    visitor.open("task=covering_hard&level=1&seed=5")
    visitor.page.click("#sticky")
    visitor.drag(0, -6.9, 3.3)
    visitor.page.click("#sticky")
    visitor.drag(1, 6.9, 5.1)
    address, text = visitor.page.evaluate("() => [location.hash.slice(1), trilith.episode.now.text]")
    assert address.startswith("task=covering_hard&level=1&seed=5&build=0,-6.9")
    visitor.open(address)
    assert visitor.page.evaluate("() => trilith.episode.now.text") == text
    visitor.page.evaluate("() => { location.hash = '#task=connecting&level=additional_layer&seed=9'; }")
    visitor.page.wait_for_function("() => trilith.episode.state.level === 'additional_layer'")
    assert (visitor.page.input_value("#task"), visitor.page.input_value("#seed")) == ("connecting", "9")
    expected = start("connecting", "additional_layer", np.random.default_rng(9))
    assert State.from_json(visitor.state()) == expected


def test_task_level_and_seed_are_chosen(visitor: Visitor) -> None:
    visitor.open()
    visitor.page.select_option("#task", "covering")
    visitor.page.wait_for_function("() => trilith.episode.state.task === 'covering'")
    assert visitor.page.eval_on_selector_all("#level option", "options => options.length") == 3
    visitor.page.select_option("#level", "2")
    visitor.page.wait_for_function("() => trilith.episode.state.level === 2")
    visitor.page.fill("#seed", "12")
    visitor.page.press("#seed", "Enter")
    visitor.page.wait_for_function("() => location.hash.includes('seed=12')")
    visitor.page.click("#next")
    visitor.page.wait_for_function("() => location.hash.includes('seed=13')")
    visitor.page.click("#random")
    visitor.page.wait_for_function("() => !location.hash.includes('seed=13')")
    assert visitor.text("#best").endswith(" m")


def test_everything_can_be_built_with_keys(visitor: Visitor) -> None:
    visitor.open(TOWER)
    slot, x, y = tower(visitor)[0]
    visitor.page.keyboard.press(str(slot + 1))
    ghost = visitor.page.evaluate("() => trilith.build.ghost")
    presses = round((x - ghost["x"]) / 0.05)
    for _ in range(abs(presses)):
        visitor.page.keyboard.press("Shift+ArrowRight" if presses > 0 else "Shift+ArrowLeft")
    for _ in range(int((ghost["y"] - y) / 0.35)):
        visitor.page.keyboard.press("ArrowDown")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_function("() => trilith.episode.state.steps === 1")
    visitor.rest()
    assert visitor.text("#score") == "1"
    visitor.page.keyboard.press("1")
    visitor.page.keyboard.press("Escape")
    assert visitor.page.evaluate("() => trilith.build.ghost") is None
    visitor.page.keyboard.press("?")
    assert visitor.page.is_visible("#keys")
    visitor.page.click("#keys button")
    assert not visitor.page.is_visible("#keys")


def test_snapping_chooses_a_place_that_relative_agents_have(visitor: Visitor) -> None:
    visitor.open("task=covering&level=1&seed=4")
    assert visitor.page.is_checked("#snap"), "at first"
    visitor.lift(6, 0.3, 1.3)
    ghost = visitor.page.evaluate("() => trilith.build.ghost")
    visitor.page.mouse.up()
    scene = start("covering", 1, np.random.default_rng(4)).scene
    codec = DiscreteRelative()
    places = [codec.decode(scene, (int(c), int(r), int(i), 0)) for c, r, i in np.argwhere(codec.mask(scene)) if c == 6]
    assert min(abs(place.x - ghost["x"]) + abs(place.y - ghost["y"]) for place in places if place) < 1e-9


def test_the_page_and_the_rules_agree_on_where_blocks_may_be(visitor: Visitor) -> None:
    rng = np.random.default_rng(0)
    states: list[dict[str, Any]] = []
    cases: list[tuple[int, int, float, float]] = []
    expected = []
    for seed in range(12):
        state = start("connecting", 8, np.random.default_rng(seed))
        for _ in range(4):
            [placed] = LegalAgent().act([state], [rng])
            after = step(state, placed).state
            if after.ended:
                break
            state = after
        states.append(state.to_json())
        for _ in range(40):
            placement = Placement(int(rng.integers(7)), float(rng.uniform(-7.5, 7.5)), float(rng.uniform(0, 5)))
            cases.append((len(states) - 1, *placement[:3]))
            expected.append(step(state, placement).state.ended == "spawn_collision")
    visitor.open()
    script = """async ([states, cases]) => {
        const { objection } = await import("/static/geometry.js");
        return cases.map(([state, slot, x, y]) => objection(trilith.about, states[state], slot, x, y) !== null);
    }"""
    assert visitor.page.evaluate(script, [states, cases]) == expected
    assert 50 < sum(expected) < len(expected) - 50


def test_an_agent_is_watched_to_the_end(visitor: Visitor) -> None:
    visitor.open("task=silhouette&level=3&seed=1")
    visitor.page.select_option("#agent", "scripted")
    visitor.page.select_option("#speed", "16")
    visitor.page.click("#play")
    assert visitor.wait_for_end() == "complete"
    assert visitor.text("#score") == "4"
    visitor.page.wait_for_function("() => !trilith.watch.playing")  # until then the button means pause
    visitor.page.evaluate("() => { window.before = trilith.episode; }")
    visitor.page.click("#play")  # again from the start
    visitor.page.wait_for_function("() => trilith.episode !== window.before")
    assert visitor.wait_for_end() == "complete"


def test_an_agent_is_stepped_paused_taken_over_and_handed_back_to(visitor: Visitor) -> None:
    visitor.open("task=silhouette&level=5&seed=4")
    visitor.page.select_option("#agent", "scripted")
    visitor.page.click("#step")
    visitor.page.wait_for_function("() => trilith.episode.state.steps === 1 && !trilith.watch.playing")
    visitor.page.select_option("#speed", "0.5")  # slow enough to be there in time
    visitor.page.click("#play")
    visitor.page.wait_for_function("() => trilith.episode.state.steps === 2")
    visitor.page.click("#take")
    taken_at = visitor.state()["steps"]
    assert visitor.text("#status").startswith("Your turn")
    visitor.page.wait_for_timeout(700)
    assert visitor.state()["steps"] == taken_at, "the agent waits"
    visitor.drag(0, -7.2, 3.0)
    assert visitor.state()["steps"] == taken_at + 1
    assert visitor.page.evaluate("() => trilith.episode.now.by") == "you"
    assert visitor.text("#take") == "Hand back"
    visitor.page.select_option("#speed", "16")
    visitor.page.click("#take")
    visitor.wait_for_end()
    assert visitor.page.evaluate("() => trilith.episode.now.by") == "scripted"


def test_the_agents_ideas_are_shown_and_can_be_placed(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.page.select_option("#agent", "legal")
    visitor.page.keyboard.press("i")
    visitor.page.wait_for_selector("#ideas-list li")
    assert "one placement ahead" in visitor.text("#ideas-note")
    assert visitor.page.evaluate("() => trilith.think.shown.length") >= 2
    line = [[3, 0.0, 2.0, False], [0, 1.0, 3.0, True]]
    visitor.page.evaluate("(line) => Object.assign(trilith.think.ideas[1], { line, visits: 7 }) && trilith.think.show()", line)
    assert "7 visits" in visitor.text("#ideas-list li:nth-child(2) b")
    visitor.page.hover("#ideas-list li:nth-child(2) button")
    assert visitor.page.evaluate("() => trilith.think.lit") == 1
    value = visitor.text("#ideas-list li:nth-child(2) b").split()[0]
    visitor.page.click("#ideas-list li:nth-child(2) button")
    visitor.page.wait_for_function("() => trilith.episode.state.steps === 1")
    visitor.rest()
    assert visitor.text("#total") == value == "+1"


def test_an_object_under_the_pointer_tells_its_features(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.drag(*tower(visitor)[0])
    x, y, _ = visitor.state()["scene"]["pose"][-1]
    visitor.page.mouse.move(*visitor.point(x, y))
    assert visitor.text("#tip").startswith("block 1\n")
    assert "touches floor" in visitor.text("#tip")
    visitor.page.keyboard.press("Escape")
    visitor.page.keyboard.press("o")
    assert visitor.text("#tip").startswith("available block 1"), "as it is labelled"


def test_two_agents_are_compared_on_the_same_scene(visitor: Visitor) -> None:
    visitor.open("task=silhouette&level=2&seed=3")
    visitor.page.select_option("#agent", "scripted")
    visitor.page.select_option("#rival", "random")
    visitor.page.select_option("#speed", "16")
    visitor.page.click("#compare")
    visitor.page.wait_for_function("() => trilith.compare.active && !trilith.compare.playing")
    starts, totals = visitor.page.evaluate(
        "() => [trilith.compare.panels.map((p) => p.episode.moments[0].text), trilith.compare.panels.map((p) => p.episode.state.total)]"
    )
    assert starts[0] == starts[1]
    assert totals[0] > totals[1]
    assert visitor.text("#status").startswith("Script: +3. Random: ")
    visitor.page.click("#compare")
    assert visitor.page.is_visible("#figures")
    assert visitor.state()["steps"] == 0


def test_an_episode_is_saved_and_opened_again(visitor: Visitor, tmp_path: Path) -> None:
    visitor.open(TOWER)
    visitor.drag(*tower(visitor)[0])
    text = visitor.page.evaluate("() => trilith.episode.now.text")
    with visitor.page.expect_download() as download:
        visitor.page.click("#save")
    download.value.save_as(tmp_path / "one.json")
    recording = Recording.from_json(read_json(tmp_path / "one.json"))
    assert [each.state for each in recording.replay()][-1] == State.from_json(json.loads(text))
    assert recording.by == "by hand"
    with visitor.page.expect_download() as download:
        visitor.page.click("#film")
    download.value.save_as(tmp_path / "one.gif")
    assert Path(tmp_path / "one.gif").read_bytes()[:6] == b"GIF89a"
    write_json(tmp_path / "worst.json", {"worst": [recording.to_json(), recording.to_json()]})
    visitor.page.set_input_files("#file", tmp_path / "worst.json")
    visitor.page.wait_for_selector("#opened-row:not([hidden])")
    assert visitor.page.eval_on_selector_all("#opened option", "options => options.length") == 2
    assert visitor.state()["steps"] == 0
    visitor.page.click("#play")
    visitor.page.wait_for_function("() => trilith.episode.now.text === " + json.dumps(text))
    assert visitor.page.evaluate("() => trilith.files.by()") == "by hand", "as the file says"


def test_a_file_given_at_the_start_is_shown(browser: Any, tmp_path: Path) -> None:
    from trilith.web.server import background

    first = start("connecting", 1, np.random.default_rng(8))
    write_json(tmp_path / "worst.json", {"worst": [Recording(first, (Placement(6, 0, 3.0), Placement(6, 0, 5.0))).to_json()]})
    with background(tmp_path / "worst.json", workers=1) as url, visit(browser, url) as visitor:
        visitor.open()
        assert "A recorded episode" in visitor.text("#status")
        assert visitor.page.input_value("#agent") == "recorded"
        visitor.page.select_option("#speed", "16")
        visitor.page.click("#play")
        visitor.page.wait_for_function("() => trilith.episode.cursor === 2")
        visitor.rest()


OVERLAPS = """() => {
    const column = document.querySelector(".side"), { top, bottom } = column.getBoundingClientRect();
    const scrolled = (box) => getComputedStyle(column).overflowY === "auto" && (box.top < top || box.bottom > bottom);  // out of sight
    const all = [...document.querySelectorAll("button, select, input:not([type=file]), canvas, h1, h2, .status, dd, .note, .goal p")]
        .filter((element) => element.checkVisibility() && element.getClientRects().length)
        .filter((element) => !(column.contains(element) && scrolled(element.getBoundingClientRect())))
        .filter((element) => !element.closest(".guide, .skip"));  // these lie on the scene
    const problems = [];
    if (document.documentElement.scrollWidth > innerWidth) problems.push(`the page is ${document.documentElement.scrollWidth} wide`);
    const name = (element) => `${element.tagName} ${element.id} ${element.textContent.trim().slice(0, 20)}`;
    for (const [i, a] of all.entries()) {
        const r = a.getBoundingClientRect();
        if (r.left < -0.5 || r.right > innerWidth + 0.5) problems.push(`${name(a)} leaves the window`);
        if (a.matches("button") && a.scrollWidth > a.clientWidth + 1) problems.push(`${name(a)} is too narrow`);
        for (const b of all.slice(i + 1)) {
            if (a.contains(b) || b.contains(a)) continue;
            const s = b.getBoundingClientRect();
            if (Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1 && Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 1)
                problems.push(`${name(a)} overlaps ${name(b)}`);
        }
    }
    return problems;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 768, "height": 900}}, PHONE], ids=["wide", "tablet", "phone"])
def test_nothing_overlaps_or_overflows(browser: Any, site: str, scheme: str, options: dict[str, Any]) -> None:
    with visit(browser, site, color_scheme=scheme, **options) as visitor:
        for address in ("task=silhouette&level=double_the_targets&seed=1", "task=covering&level=2&seed=1"):
            visitor.open(address)
            assert visitor.page.evaluate(OVERLAPS) == []
        visitor.page.click("#ideas")
        visitor.page.wait_for_selector("#ideas-list li")
        assert visitor.page.evaluate(OVERLAPS) == []
        visitor.page.select_option("#speed", "16")
        visitor.page.click("#compare")
        visitor.page.wait_for_function("() => trilith.compare.active && !trilith.compare.playing")
        assert visitor.page.evaluate(OVERLAPS) == []
        colour = visitor.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        red = int(colour.split("(")[1].split(",")[0])
        assert red < 60 if scheme == "dark" else red > 200
        visitor.page.click("#theme")
        other = visitor.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert other != colour
        visitor.open()
        assert visitor.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == other, "the choice stays"


def test_a_finger_builds_too(browser: Any, site: str) -> None:
    with visit(browser, site, **PHONE) as visitor:
        visitor.open(TOWER)
        slot, x, y = tower(visitor)[0]
        px, py, _ = visitor.state()["scene"]["pose"][slot]
        session = visitor.page.context.new_cdp_session(visitor.page)

        def touch(kind: str, *points: tuple[float, float]) -> None:
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})

        touch("touchStart", visitor.point(px, py))
        touch("touchMove", visitor.point((px + x) / 2, 1.0))
        ax, ay = visitor.point(x, y)
        touch("touchMove", (ax, ay + 46))  # the block is held above the finger
        touch("touchEnd")
        visitor.page.wait_for_function("() => trilith.episode.state.steps === 1")
        visitor.rest()
        assert visitor.text("#score") == "1"
        assert visitor.page.evaluate("() => scrollY") == 0
