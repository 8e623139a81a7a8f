"""Pictures of the page: `python docs/web_screenshot.py` makes docs/images/web.png, the one in the README.

With the name of a folder it makes, there, a picture of everything worth a look after a change of the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trilith.web.browser import chromium
from trilith.web.server import background
from trilith.world.scene import Role

TOWER = "task=silhouette&level=7&seed=1"
SHELTER = "task=covering&level=2&seed=1"
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

    def drag(self, x: float, y: float) -> None:
        """Holds the first block that fits an unfilled target, without letting go."""
        scene = self.page.evaluate("() => trilith.episode.state.scene")
        slot = scene["role"].index(Role.AVAILABLE)
        where = """([x, y]) => {
            const box = trilith.stage.canvas.getBoundingClientRect(), view = trilith.stage.layout()[0];
            return [box.left + view.x(x), box.top + view.y(y)];
        }"""
        self.page.mouse.move(*self.page.evaluate(where, scene["pose"][slot][:2]))
        self.page.mouse.down()
        self.page.mouse.move(*self.page.evaluate(where, [x, y]))

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
            there.open(TOWER)
            there.build(4)
            there.ideas()
            there.shoot(folder / f"tower-{scheme}.png")
            there.drag(-3.0, 4.0)
            there.shoot(folder / f"drag-{scheme}.png")
            there.page.mouse.up()
            there.open(SHELTER)
            there.play()
            there.page.check("#contacts")
            there.shoot(folder / f"shelter-{scheme}.png")
            there.compare()
            there.shoot(folder / f"compare-{scheme}.png")
        there = Photographer(browser, url, viewport={"width": 360, "height": 740}, device_scale_factor=2)
        there.open(TOWER)
        there.build(4)
        there.ideas()
        there.shoot(folder / "narrow.png", whole=True)
        there.compare()
        there.shoot(folder / "narrow-compare.png")


if __name__ == "__main__":
    main()
