"""Latency of the page: `python benchmarks/web.py [seconds of load, 60]`, with the server in a process of its own, on loopback.

- *release to first frame*: in Chromium, from the release of a block until the first frame of its fall is drawn. Left out, with a message,
  if there is no Chromium.
- *20 visitors*: from request to complete answer, while each visitor places a block every two seconds, in scenes of all tasks.

Ends with an error if the median to the first frame is 100 ms or more, if a visitor met an error, or if the visitors' p95 is 1 s or more.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tyro
from tyro.conf import Positional

from trilith.agents.random_agents import LegalAgent
from trilith.web.browser import chromium, find_chromium
from trilith.world.episode import State
from trilith.world.tasks import TASKS

VISITORS = 20
EVERY = 2.0
DROPS = 40


@contextmanager
def server() -> Iterator[int]:
    """Context manager: starts a server in a process of its own. Yields its port as soon as it answers with a scene."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from trilith.web import serve\nif __name__ == '__main__': serve(port={port}, open_browser=False)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                post(http.client.HTTPConnection("127.0.0.1", port), "start", {"task": "covering", "level": 0, "seed": 0})
                break
            except ConnectionError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


def post(connection: http.client.HTTPConnection, name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Sends a request and returns its answer. Raises RuntimeError if the status is not 200."""
    connection.request("POST", f"/api/{name}", json.dumps(data), {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {body[:200]!r}")
    return json.loads(body)


def visit(port: int, seed: int, seconds: float, times: list[float], errors: list[str]) -> None:
    """One visitor: a legal placement every `EVERY` seconds. Appends to `times` (seconds) and `errors`."""
    rng, agent = np.random.default_rng(seed), LegalAgent()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    tasks, state = list(TASKS.values()), None
    end = time.monotonic() + seconds
    time.sleep(float(rng.uniform(0, EVERY)))
    while (began := time.monotonic()) < end:
        try:
            if state is None or json.loads(state)["ended"]:
                task = tasks[int(rng.integers(len(tasks)))]
                scene = {"task": task.name, "level": task.levels[-1], "seed": int(rng.integers(1000))}
                state = post(connection, "start", scene)["moments"][0]["state"]
            [placed] = agent.act([State.from_json(json.loads(state))], [rng])
            asked = time.monotonic()
            state = post(connection, "step", {"state": state, "placement": None if placed is None else list(placed)})["state"]
            times.append(time.monotonic() - asked)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            errors.append(f"{type(error).__name__}: {error}")
            connection.close()
        time.sleep(max(began + EVERY - time.monotonic(), 0))


def load(port: int, seconds: float) -> bool:
    """Runs `VISITORS` at once. Returns whether there were no errors and the p95 is below 1 s."""
    times: list[float] = []
    errors: list[str] = []
    crowd = [threading.Thread(target=visit, args=(port, seed, seconds, times, errors)) for seed in range(VISITORS)]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()
    middle, high = np.percentile(times, [50, 95]) * 1000
    print(f"{VISITORS} visitors for {seconds:.0f} s: {len(times)} placements, {len(errors)} errors, ", end="")
    print(f"median {middle:.1f} ms, p95 {high:.1f} ms, longest {max(times) * 1000:.1f} ms")
    for line in errors[:5]:
        print(f"  {line}")
    return not errors and high < 1000


def latency(port: int) -> bool:
    """Times the release of a block to the first frame of its fall. Returns whether the median is below 100 ms."""
    if find_chromium() is None:
        print("release to first frame: left out, no Chromium was found")
        return True
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"http://127.0.0.1:{port}/#task=covering&level=2&seed=1")
        page.wait_for_selector("body[data-ready]")
        page.select_option("#speed", "16")
        where = """([x, y]) => {
            const { stage } = trilith, box = stage.canvas.getBoundingClientRect(), view = stage.layout()[0];
            return [box.left + view.x(x), box.top + view.y(y)];
        }"""
        for k in range(DROPS):
            if k % 8 == 0:
                page.evaluate("() => trilith.jump(0)")
            page.mouse.move(*page.evaluate(where, [-6.65, -2.1]))
            page.mouse.down()
            page.mouse.move(*page.evaluate(where, [-7.2, 8.0]))
            page.mouse.up()
            page.wait_for_function("(n) => performance.getEntriesByName('trilith:first-frame').length > n", arg=k)
            page.wait_for_function("() => !trilith.busy && !trilith.panel.fall")
            if page.evaluate("() => trilith.episode.ended"):
                page.evaluate("() => trilith.jump(0)")
        times = page.evaluate("() => performance.getEntriesByName('trilith:first-frame').map(({ duration }) => duration)")
    middle, high = np.percentile(times, [50, 95])
    print(f"release to first frame: {len(times)} drops, median {middle:.1f} ms, p95 {high:.1f} ms")
    return bool(middle < 100)


def main(seconds: Positional[float] = 60.0) -> None:
    """Measures both; the load lasts `seconds`."""
    with server() as port:
        quick = latency(port)
        steady = load(port, seconds)
    if not (quick and steady):
        sys.exit("slower than it should be, or with errors")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
