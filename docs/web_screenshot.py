"""Pictures of the page: `python docs/web_screenshot.py` makes docs/images/web.png, the one in the README.

With the name of a folder it makes, there, a picture of everything worth a look after a change of the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from trilith.web.browser import chromium
from trilith.web.server import background
from trilith.world.scene import Role

TOWER = "task=silhouette&level=7&seed=1"
HIT = "task=silhouette&level=7&seed=3&build=0,-0.75,5.35"
SHELTER = "task=covering&level=2&seed=1"
HAND = {"silhouette": "level=4&seed=5", "connecting": "level=2&seed=1", "covering": "level=1&seed=4"}
FINGER = 46
"""Pixels that the page holds a block above a finger."""
WHERE = """([x, y]) => {
    const box = trilith.stage.canvas.getBoundingClientRect(), view = trilith.stage.layout()[0];
    return [box.left + view.x(x), box.top + view.y(y)];
}"""
CLOCK = "() => document.body.dataset.ready && !trilith.busy && !trilith.panel.fall"


class Photographer:
    """Opens the page, does things, takes pictures."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self.page, self.url = context.new_page(), url

    def open(self, address: str) -> None:
        """Opens the page at an address, without waiting for falls any longer than needed."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#{address}")
        self.page.wait_for_function(CLOCK)
        self.page.select_option("#speed", "16")

    def build(self, count: int) -> None:
        """Lets the agent choose the first placements; on the page they are a person's."""
        for _ in range(count):
            placed = self.page.evaluate(
                "() => trilith.api.act(trilith.episode.now.text, 'planner', 1, false).then(({ placement }) => placement)"
            )
            self.page.evaluate("(placement) => trilith.place(placement)", placed)
            self.page.wait_for_function(CLOCK)

    def ideas(self) -> None:
        """Shows what the agent thinks."""
        self.page.check("#ideas")
        self.page.wait_for_selector("#ideas-list li")

    def values(self, agent: str) -> None:
        """Shows what an agent expects of the large block in every place."""
        self.page.select_option("#agent", agent)
        self.page.check("#values")
        self.page.select_option("#values-slot", label="large")
        self.page.wait_for_function("() => trilith.values.shown", timeout=60000)

    def drag(self, x: float, y: float) -> None:
        """Holds the first block that fits an unfilled target, without letting go."""
        scene = self.page.evaluate("() => trilith.episode.state.scene")
        slot = scene["role"].index(Role.AVAILABLE)
        self.page.mouse.move(*self.page.evaluate(WHERE, scene["pose"][slot][:2]))
        self.page.mouse.down()
        self.page.mouse.move(*self.page.evaluate(WHERE, [x, y]))

    def by_hand(self, address: str, rng: np.random.Generator, touch: bool) -> str:
        """Builds a scene by dragging block after block, each aimed where the planner would put it with a hand's noise of 3 pixels.

        Returns what it earned, and of how much.
        """
        self.open(address)
        while not self.page.evaluate("() => trilith.episode.ended"):
            moment = self.page.evaluate("() => trilith.api.act(trilith.episode.now.text, 'planner', 1, false)")
            if moment["placement"] is None:
                break
            slot, x, y, sticky = moment["placement"]
            self.page.set_checked("#sticky", sticky)
            self.page.evaluate("() => scrollTo(0, 0)")
            at = self.page.evaluate("(slot) => trilith.episode.state.scene.pose[slot].slice(0, 2)", slot)
            (fx, fy), (tx, ty) = self.page.evaluate(WHERE, at), self.page.evaluate(WHERE, [x, y])
            dx, dy = rng.normal(0, 3, 2)
            if touch:
                session = self.page.context.new_cdp_session(self.page)
                for kind, points in (
                    ("touchStart", [(fx, fy)]),
                    ("touchMove", [((fx + tx) / 2, (fy + ty) / 2)]),
                    ("touchMove", [(tx + dx, ty + dy + FINGER)]),
                    ("touchEnd", []),
                ):
                    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})
            else:
                self.page.mouse.move(fx, fy)
                self.page.mouse.down()
                self.page.mouse.move(tx + dx, ty + dy)
                self.page.mouse.up()
            steps = self.page.evaluate("() => trilith.episode.cursor")
            self.page.wait_for_timeout(150)
            self.page.wait_for_function(CLOCK)
            if self.page.evaluate("() => trilith.episode.cursor") == steps and self.page.inner_text("#status").startswith("Not there"):
                break
        return self.page.evaluate("() => `${trilith.episode.state.total} of ${trilith.episode.now.view.best}, ${trilith.episode.ended}`")

    def play(self) -> None:
        """Lets the agent build to the end."""
        self.page.click("#play")
        self.page.wait_for_function("() => trilith.episode.ended && !trilith.watch.playing", timeout=120000)

    def compare(self) -> None:
        """Lets two agents build to the end."""
        self.page.click("#compare")
        self.page.wait_for_function("() => trilith.compare.active && !trilith.compare.playing", timeout=120000)

    def shoot(self, path: Path, whole: bool = False) -> None:
        """Takes a picture of what is seen, or of the whole page."""
        self.page.wait_for_timeout(250)
        self.page.screenshot(path=path, full_page=whole)
        print(path)


def main() -> None:
    """Takes the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with background() as url, chromium() as browser:
        if folder is None:
            there = Photographer(browser, url)
            there.open(TOWER)
            there.build(4)
            there.ideas()
            target = Path(__file__).parent / "images" / "web.png"
            target.parent.mkdir(exist_ok=True)
            there.shoot(target)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            there = Photographer(browser, url, color_scheme=scheme)
            there.open("")
            there.shoot(folder / f"start-{scheme}.png")
            there.page.click("#welcome-end")
            there.open(TOWER)
            there.build(4)
            there.ideas()
            there.shoot(folder / f"tower-{scheme}.png")
            there.drag(0.9, 5.0)  # above an obstacle
            there.shoot(folder / f"drag-{scheme}.png")
            there.page.mouse.up()
            there.open(TOWER)
            there.build(2)
            there.values("objects")
            there.shoot(folder / f"values-{scheme}.png")
            there.open(HIT)
            there.shoot(folder / f"hit-{scheme}.png")
            there.open(SHELTER)
            there.play()
            there.page.check("#contacts")
            there.shoot(folder / f"shelter-{scheme}.png")
            there.compare()
            there.shoot(folder / f"compare-{scheme}.png")
        phone = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True}
        for kind, options in (("wide", {}), ("phone", phone)):
            there = Photographer(browser, url, **options)
            for task, scene in HAND.items():
                print(f"{task} by hand, {kind}: {there.by_hand(f'task={task}&{scene}', np.random.default_rng(0), kind == 'phone')}")
                there.shoot(folder / f"hand-{task}-{kind}.png")
        there = Photographer(browser, url, **phone)
        there.open("")
        there.shoot(folder / "narrow-start.png", whole=True)
        there.page.click("#welcome-end")
        there.open(TOWER)
        there.build(4)
        there.ideas()
        there.shoot(folder / "narrow.png", whole=True)
        there.compare()
        there.shoot(folder / "narrow-compare.png")


if __name__ == "__main__":
    main()
