"""Someone at the page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Visitor:
    """Someone at the page: what they do, and what they see."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url

    def open(self, address: str = "") -> None:
        """Opens the page, at the address behind the #."""
        self.page.goto("about:blank")
        self.page.goto(self.url + ("#" + address if address else ""))
        self.page.wait_for_selector("body[data-ready]")

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Where in the window a point of the scene is."""
        script = """([x, y]) => {
            const { stage } = window.trilith, box = stage.canvas.getBoundingClientRect(), view = stage.layout()[0];
            return [box.left + view.x(x), box.top + view.y(y)];
        }"""
        return tuple(self.page.evaluate(script, [x, y]))

    def lift(self, slot: int, x: float, y: float) -> None:
        """Takes a block of the supply and moves it, without letting go."""
        px, py, _ = self.state()["scene"]["pose"][slot]
        self.page.mouse.move(*self.point(px, py))
        self.page.mouse.down()
        self.page.mouse.move(*self.point((px + x) / 2, (py + y) / 2))
        self.page.mouse.move(*self.point(x, y))

    def drag(self, slot: int, x: float, y: float) -> None:
        """Takes a block of the supply, lets it go at a place, and waits for it to come to rest."""
        self.lift(slot, x, y)
        self.page.mouse.up()
        self.rest()

    def rest(self) -> None:
        """Waits until nothing moves and nothing is asked for."""
        self.page.wait_for_function("() => !trilith.busy && !trilith.panel.fall && document.body.dataset.falling !== 'true'")

    def state(self) -> dict[str, Any]:
        """The state that is shown."""
        return self.page.evaluate("() => trilith.episode.state")

    def text(self, selector: str) -> str:
        """What an element says."""
        return self.page.inner_text(selector)

    def wait_for_end(self) -> str:
        """Waits for the end of an episode; says why it ended."""
        self.page.wait_for_function("() => document.body.dataset.ended && document.body.dataset.playing === 'false'")
        return self.page.evaluate("() => document.body.dataset.ended")


class Held:
    """Requests of one kind that the server seems not to answer, until they are let through."""

    def __init__(self, visitor: Visitor, name: str) -> None:
        self.page, self.name, self.held, self.asked = visitor.page, name, True, 0
        self.routes: list[Any] = []
        self.page.route(f"**/api/{name}", self.take)

    def take(self, route: Any) -> None:
        """Keeps a request waiting, or lets it through."""
        self.asked += 1
        if self.held:
            self.routes.append(route)
        else:
            route.continue_()


@contextmanager
def visit(browser: Any, url: str, **options: Any) -> Iterator[Visitor]:
    """A visitor with a browser context of their own, closed at the end; fails on any error in the console."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "accept_downloads": True, **options})
    context.set_default_timeout(45000)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield Visitor(page, url)
        assert not errors, errors
    finally:
        context.close()
