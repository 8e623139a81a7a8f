"""What the page tells, and to whom: errors that stay, links that are wrong, focus, history, screen readers, contrast."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from visitor import Visitor, visit

from trilith.cli.main import COMMANDS
from trilith.world.episode import start
from trilith.world.scene import Role

pytestmark = pytest.mark.slow

STATIC = Path(__file__).parents[2] / "trilith" / "web" / "static"
TOWER = "task=silhouette&level=1&seed=2"


def drop(visitor: Visitor, x: float = -6.5, y: float = 3.0) -> None:
    visitor.page.evaluate("([x, y]) => trilith.place([0, x, y, false])", [x, y])
    visitor.rest()


@pytest.mark.parametrize("button", ["#play", "#step"])
def test_an_error_while_an_agent_builds_is_not_written_over(browser: Any, site: str, button: str) -> None:
    context = browser.new_context()
    page = context.new_page()  # not `visit`: the console tells of the connection that is cut
    visitor = Visitor(page, site)
    visitor.open(TOWER)
    drop(visitor)
    page.route("**/api/act", lambda route: route.abort())
    page.click(button)
    page.wait_for_function("() => !trilith.watch.playing && document.getElementById('status').dataset.tone === 'bad'")
    page.wait_for_timeout(300)
    assert visitor.text("#status") == "The server does not answer. Is it still running?"
    context.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("task=castle&level=1&seed=2", "a task that is not here: castle"),
        ("task=silhouette&level=99&seed=2", "a level that silhouette does not have: 99"),
        ("task=silhouette&level=1&seed=many", "seed must be a whole number"),
        ("task=silhouette&level=1&seed=99999999999", "seed must be a whole number"),
        ("task=silhouette&level=1&seed=2&build=1,2", "a placement that cannot be read: 1,2"),
        ("task=silhouette&level=1&seed=2&build=x;x", "cannot be followed: placement 2 comes after the end"),
        ("tusk=silhouette", "a part that cannot be read: tusk=silhouette"),
    ],
)
def test_a_bad_link_says_what_is_wrong_with_it_and_shows_something(browser: Any, site: str, address: str, words: str) -> None:
    context = browser.new_context()
    visitor = Visitor(context.new_page(), site)
    visitor.open(address)
    assert words in visitor.text("#status")
    assert visitor.page.get_attribute("#status", "data-tone") == "bad"
    assert visitor.state()["steps"] == 0
    context.close()


def test_an_agent_that_cannot_build_in_the_task_cannot_be_chosen(browser: Any) -> None:
    pytest.importorskip("starlette")
    from trilith.web.server import background

    with background(workers=1, tasks=["own_task:Tower"]) as url, visit(browser, url) as visitor:
        visitor.open("task=silhouette&level=1&seed=2")
        visitor.page.select_option("#agent", "objects")
        visitor.page.select_option("#task", "own_task:Tower")
        visitor.page.wait_for_function("() => trilith.episode.state.task === 'own_task:Tower'")
        disabled = visitor.page.eval_on_selector_all("#agent option:disabled", "all => all.map(({ value }) => value)")
        assert {"objects", "objects + search", "planner"} <= set(disabled)
        assert visitor.page.input_value("#agent") not in disabled
        assert visitor.page.input_value("#rival") not in disabled


def test_the_page_names_no_command_that_there_is_not() -> None:
    named = {word for path in STATIC.glob("*.*") for word in re.findall(r"\btrilith ([a-z]+)", path.read_text())}
    assert named <= set(COMMANDS)
    assert "web" in named


def test_after_an_obstacle_was_hit_score_and_total_agree_and_the_pair_is_marked(visitor: Visitor) -> None:
    scene = start("silhouette", 7, np.random.default_rng(3)).scene
    row = max(scene.rows(Role.OBSTACLE).tolist(), key=lambda row: scene.pose[row, 1])
    visitor.open("task=silhouette&level=7&seed=3")
    x, y = scene.pose[row, :2].tolist()
    drop(visitor, x, y + 1.5)
    assert visitor.state()["ended"] == "obstacle_hit"
    assert (visitor.text("#score"), visitor.text("#total")) == ("0", "0")
    red = visitor.page.evaluate(
        """([x, y]) => {
            const { stage } = trilith, view = stage.layout()[0], bad = stage.theme.bad, wide = Math.round(view.scale);
            stage.draw(performance.now());
            const [left, top] = [view.x(x) * devicePixelRatio - wide, view.y(y) * devicePixelRatio - wide];
            const { data } = stage.context.getImageData(left, top, 2 * wide, 2 * wide);
            const [r, g, b] = bad.match(/[0-9a-f]{2}/g).map((each) => parseInt(each, 16));
            let count = 0;
            for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
            return count;
        }""",
        [x, y],
    )
    assert red > 30


def test_what_an_agent_sees_of_each_object_is_shown_to_one_scale_and_points_at_the_object(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("torch")
    from trilith.agents.dqn.policy import DQNPolicy
    from trilith.agents.dqn.recipes import FROM_PIXELS
    from trilith.agents.weights import save_weights
    from trilith.web.server import background

    config, path = replace(FROM_PIXELS, net=replace(FROM_PIXELS.net, width=16, decoder=16)), tmp_path / "seer.safetensors"
    save_weights(path, "dqn", config, "covering_hard", DQNPolicy(config, "covering_hard").weights(), {})
    with background(workers=1, agents=[str(path)]) as url, visit(browser, url) as visitor:
        visitor.open("task=covering_hard&level=1&seed=5")
        visitor.page.select_option("#agent", "seer.safetensors")
        visitor.page.check("#ideas")
        visitor.page.wait_for_selector("#seen li")
        for width in (1280, 360):
            visitor.page.set_viewport_size({"width": width, "height": 800})
            shown = visitor.page.evaluate(
                """() => [...document.querySelectorAll("#seen canvas")].map((canvas) => {
                    const box = canvas.getBoundingClientRect(), card = canvas.closest(".card").getBoundingClientRect();
                    return [box.width / canvas.width, box.height / canvas.height, box.left >= card.left && box.right <= card.right];
                })"""
            )
            assert len(shown) == len(visitor.state()["scene"]["role"])
            for across, down, inside in shown:
                assert (across, down) == (pytest.approx(3, rel=0.01), pytest.approx(3, rel=0.01))
                assert inside
        visitor.page.hover("#seen li:nth-child(8)")
        assert visitor.page.get_attribute("#seen li:nth-child(8)", "title") == "floor"
        assert visitor.page.evaluate("() => trilith.build.hover") == 7
        visitor.page.hover("#seen-note")
        assert visitor.page.evaluate("() => trilith.build.hover") is None


def test_a_long_line_of_an_idea_is_not_cut_off(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.page.select_option("#agent", "legal")
    visitor.page.click("#ideas")
    visitor.page.wait_for_selector("#ideas-list li")
    visitor.page.evaluate(
        """() => {
            trilith.think.ideas[0] = { placement: [3, -5.25, 10.35, true], value: -3.25, visits: 150, line: [], chosen: true };
            trilith.think.show();
        }"""
    )
    button = visitor.page.query_selector("#ideas-list li button")
    assert button is not None
    inside = """(button) => {
        const box = button.getBoundingClientRect(), side = document.querySelector(".side").getBoundingClientRect();
        const within = ({ left, right }) => left >= box.left && right <= box.right + 0.5;
        return box.right <= side.right && [...button.children].every((child) => within(child.getBoundingClientRect()));
    }"""
    assert "150 visits" in button.inner_text()
    assert button.evaluate(inside)
    assert button.evaluate(
        "(button) => button.getBoundingClientRect().right <= document.querySelector('.side').getBoundingClientRect().right"
    )


def test_a_long_fall_can_be_skipped(visitor: Visitor) -> None:
    visitor.open(TOWER)
    visitor.page.select_option("#speed", "0.5")
    for how in ("click", "key"):
        visitor.page.evaluate("() => { trilith.place([0, -6.5, 14.5, false]); }")
        visitor.page.wait_for_selector("#skip:not([hidden])")
        if how == "click":
            visitor.page.click("#skip")
        else:
            visitor.page.keyboard.press("k")
        visitor.page.wait_for_function("() => !trilith.panel.fall", timeout=500)
        visitor.page.wait_for_selector("#skip", state="hidden")
        visitor.page.evaluate("() => trilith.jump(0)")


def test_back_undoes_what_was_seen_and_does_not_leave_the_page(visitor: Visitor) -> None:
    visitor.open("task=connecting&level=0&seed=3")
    drop(visitor)
    drop(visitor, 6.5)
    visitor.page.select_option("#level", "1")
    visitor.page.wait_for_function("() => trilith.episode.state.level === 1")
    for level, steps in ((0, 2), (0, 1), (0, 0)):
        visitor.page.go_back()
        visitor.page.wait_for_function(
            "([level, steps]) => trilith.episode.state.level === level && trilith.episode.state.steps === steps", arg=[level, steps]
        )
    visitor.page.go_forward()
    visitor.page.wait_for_function("() => trilith.episode.state.steps === 1")


def test_focus_stays_on_the_page_after_a_button_that_disables_itself(visitor: Visitor) -> None:
    visitor.open("task=connecting&level=0&seed=3")
    for button in ("#undo", "#restart", "#redo"):
        if button != "#redo":
            drop(visitor)
        visitor.page.focus(button)
        visitor.page.keyboard.press("Enter")
        visitor.page.wait_for_timeout(150)
        assert visitor.page.is_disabled(button)
        assert visitor.page.evaluate("() => document.activeElement.id") == "canvas"
    visitor.page.focus("#timeline li:first-child button")
    visitor.page.keyboard.press("Enter")
    assert visitor.page.evaluate("() => document.activeElement.textContent") == "start"


def test_a_screen_reader_hears_the_scene_and_what_became_of_a_block(visitor: Visitor) -> None:
    visitor.open(TOWER)
    words = visitor.page.get_attribute("#canvas", "aria-describedby")
    text = visitor.page.text_content(f"#{words}") or ""
    assert "2 targets: " in text
    assert "7 available blocks: 1 small" in text
    drop(visitor)
    assert "1 block: small at -6.50" in (visitor.page.text_content(f"#{words}") or "")
    visitor.page.wait_for_function("() => document.getElementById('heard').textContent.startsWith('The small block came to rest at -6.50')")
    assert visitor.page.get_attribute("#heard", "aria-live") == "polite"
    visitor.page.keyboard.press("o")
    assert "available block 1" in (visitor.page.text_content("#heard") or "")


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _themes() -> list[dict[str, str]]:
    """The colours of the style sheet by name: light, dark, and dark chosen by hand."""
    themes = re.findall(r"color-scheme: (?:light|dark);\n(.*?)\n\}", (STATIC / "style.css").read_text(), re.DOTALL)
    assert len(themes) == 3
    return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", theme)) for theme in themes]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        *(("block-ink", block) for block in ("block", "sticky")),  # the numbers on blocks
        *((tone, paper) for tone in ("ink", "muted", "good", "bad") for paper in ("page", "surface", "hover")),  # undone steps: on the page
        ("accent-ink", "accent"),
        *(("idea", paper) for paper in ("surface", "hover")),
        *((tone, "sky") for tone in ("ink", "muted", "good", "bad", "warn", "idea")),  # written into the scene
    ],
)
def test_what_is_written_can_be_read_in_light_and_dark(ink: str, paper: str) -> None:
    for colours in _themes():
        assert _contrast(colours[ink], colours[paper]) >= 4.5, (colours[ink], colours[paper])


def test_steps_that_were_undone_are_not_faded() -> None:
    [rule] = re.findall(r"\.timeline button\.ahead \{(.*?)\}", (STATIC / "style.css").read_text())
    assert "opacity" not in rule
    assert "color:" not in rule


def test_what_is_rounded_to_nothing_is_neither_good_nor_bad(visitor: Visitor) -> None:
    visitor.open("task=covering&level=0&seed=6")
    drop(visitor)
    for reward in (-0.004, 0.004):
        visitor.page.evaluate("(reward) => { trilith.episode.now.reward = reward; trilith.update(); }", reward)
        step = visitor.page.query_selector("#timeline button[aria-current]")
        assert step is not None
        assert (step.inner_text(), step.get_attribute("data-tone")) == ("0", "")
        assert visitor.text("#status") == "Nothing earned by this block."


def test_steps_of_compared_agents_are_as_high_as_ever(browser: Any, site: str) -> None:
    with visit(browser, site, reduced_motion="reduce") as visitor:
        visitor.open("task=silhouette&level=3&seed=1&agent=scripted&rival=random")
        visitor.page.wait_for_function("() => trilith.compare.active && !trilith.compare.playing")
        visitor.page.evaluate(
            """() => {
                const { moments, now } = trilith.compare.panels[0].episode;
                moments.push(...Array(40).fill(now));
                trilith.update();
            }"""
        )
        heights = visitor.page.eval_on_selector_all(
            "#timelines li", "all => all.map((each) => Math.round(each.getBoundingClientRect().height))"
        )
        assert len(heights) > 40
        assert len(set(heights)) == 1
