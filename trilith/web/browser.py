"""Starts a real browser that drives the page, for the tests, the benchmark and the screenshot. Needs Playwright and Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
"""No sandbox, because the browser may run as root in a container. No connections except to the page."""
FLAGS += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]


def find_chromium() -> str | None:
    """The path of the system's Chromium; None if there is none."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    return found or next((path for path in ("/usr/bin/chromium", "/snap/bin/chromium") if Path(path).exists()), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Context manager: yields a headless Chromium, and closes it at the end of the `with` block. Raises FileNotFoundError if Chromium is
    not installed."""
    from playwright.sync_api import sync_playwright

    path = find_chromium()
    if path is None:
        raise FileNotFoundError("no Chromium found: install one, on Debian with apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
