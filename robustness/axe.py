"""Accessibility of the page, judged by axe-core: each state of the page, at two widths, in light and dark.

python robustness/axe.py

The first run fetches axe-core (Mozilla Public License 2.0) from the npm registry into the user's cache. Needs Playwright and Chromium.
Prints a line for each violation; ends with an error if there is any.
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trilith.utils.checks import require
from trilith.utils.files import atomic_write
from trilith.web.browser import chromium
from trilith.web.server import background

VERSION = "4.10.3"
ADDRESS = f"https://registry.npmjs.org/axe-core/-/axe-core-{VERSION}.tgz"
SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
"""Digest of the file at `ADDRESS`, as the registry states it."""
CACHE = Path.home() / ".cache" / "trilith" / f"axe-{VERSION}.min.js"
TOWER = "task=silhouette&level=3&seed=1"
HIT = "task=silhouette&level=7&seed=3&build=0,-0.75,5.35"
RUN = """() => axe.run().then(({ violations }) =>
    violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`))"""


def _ideas(page: Any) -> None:
    page.check("#ideas")
    page.wait_for_selector("#ideas-list li")


def _values(page: Any) -> None:
    page.select_option("#agent", "objects")
    page.check("#values")
    page.select_option("#values-slot", label="large")
    page.wait_for_function("() => trilith.values.shown")


def _compare(page: Any) -> None:
    page.click("#compare")
    page.wait_for_function("() => trilith.compare.active && !trilith.compare.playing")


def _error(page: Any) -> None:
    page.route("**/api/act", lambda route: route.abort())
    page.click("#step")
    page.wait_for_selector("#retry:not([hidden])")


def _guide(page: Any) -> None:
    page.click("#welcome-guide")
    page.wait_for_selector("#guide:not([hidden])")


def _as_it_is(page: Any) -> None:
    """Does nothing."""


STATES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "first visit": ("", _as_it_is),
    "guide": ("", _guide),
    "scene": (TOWER, _as_it_is),
    "rules": (TOWER, lambda page: page.click("#rules-box summary")),
    "keys": (TOWER, lambda page: page.evaluate("() => document.getElementById('keys').showModal()")),
    "ideas": (TOWER, _ideas),
    "values": (TOWER, _values),
    "compare": (TOWER, _compare),
    "stopped": (f"{TOWER}&build=x&show=ideas", _as_it_is),
    "obstacle hit": (HIT, _as_it_is),
    "error": (TOWER, _error),
}
"""Maps each state to the fragment of its address, and to a function that then brings the page into this state."""


def axe() -> str:
    """The source of axe-core, from the cache or, the first time, from the registry. Raises ValueError if the digest is wrong."""
    if not CACHE.exists():
        with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
            package = answer.read()
        require(base64.b64encode(hashlib.sha512(package).digest()).decode() == SHA512, f"{ADDRESS} is not the file that was expected")
        with tarfile.open(fileobj=io.BytesIO(package)) as files:
            source = files.extractfile("package/axe.min.js")
            assert source is not None
            with atomic_write(CACHE) as aside:
                aside.write_bytes(source.read())
    return CACHE.read_text(encoding="utf-8")


def main() -> None:
    """Checks every state, and prints its violations."""
    source, wrong = axe(), 0
    with background() as url, chromium() as browser:
        for width, height in ((1280, 800), (390, 844)):
            for scheme in ("light", "dark"):
                for name, (address, act) in STATES.items():
                    options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
                    page = browser.new_page(**options, reduced_motion="reduce")
                    page.goto(f"{url}#{address}")
                    page.wait_for_selector("body[data-ready]")
                    act(page)
                    page.evaluate(source)
                    for violation in page.evaluate(RUN):
                        wrong += 1
                        print(f"{name}, {width} px, {scheme}: {violation}")
                    page.close()
    print(f"{len(STATES)} states at two widths, light and dark: {wrong} violations")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
