"""The worker processes: a bounded queue, a time limit, and life after any job."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trilith.web import pool as pool_module
from trilith.web import serve
from trilith.web.pool import Busy, Crashed, Pool, TooSlow


def run(use: Callable[[Pool], Awaitable[Any]], size: int = 1, queue: int = 8, limit: float = 0.4, given: tuple[Any, ...] = ()) -> Any:
    async def main() -> Any:
        pool = Pool(size, queue, limit, "slow_jobs", given)
        pool.start()
        try:
            return await use(pool)
        finally:
            pool.stop()

    with ThreadPoolExecutor(1) as elsewhere:  # a browser test may have an event loop running here
        return elsewhere.submit(asyncio.run, main()).result()


def test_a_job_that_takes_too_long_is_stopped_and_the_next_one_answered() -> None:
    async def use(pool: Pool) -> bytes:
        await pool.run("sleep", 0)
        began = time.monotonic()
        with pytest.raises(TooSlow):
            await pool.run("sleep", 60)
        assert time.monotonic() - began < 3
        return await pool.run("sleep", 0)

    assert run(use) == b'{"slept":true}'


def test_what_a_job_raises_is_told_and_the_worker_lives_on() -> None:
    async def use(pool: Pool) -> bytes:
        with pytest.raises(ValueError, match="no"):
            await pool.run("refuse")
        with pytest.raises(Crashed, match="surprise"):
            await pool.run("fail")
        with pytest.raises(Crashed, match="died"):
            await pool.run("die")
        return await pool.run("sleep", 0)

    assert run(use, limit=5) == b'{"slept":true}'


def test_a_full_queue_refuses_at_once_and_the_others_are_answered() -> None:
    async def use(pool: Pool) -> None:
        jobs = [asyncio.ensure_future(pool.run("sleep", 0.05)) for _ in range(10)]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        assert sum(isinstance(result, Busy) for result in results) == 7
        assert results[:3] == [b'{"slept":true}'] * 3

    run(use, queue=3, limit=5)


def test_a_job_that_nobody_waits_for_any_more_frees_its_worker() -> None:
    async def use(pool: Pool) -> list[int]:
        workers = [await pool.run("pid")]
        for seconds in (0.3, 60):
            job = asyncio.ensure_future(pool.run("sleep", seconds))
            await asyncio.sleep(0.1)
            job.cancel()
            workers.append(await pool.run("pid"))
        return workers

    first, after_short, after_long = run(use, limit=20)
    assert first == after_short, "a short job may end"
    assert first != after_long, "a long one is stopped"


def test_a_worker_that_dies_while_it_starts_is_replaced(tmp_path: Path) -> None:
    began = time.monotonic()
    assert run(lambda pool: pool.run("sleep", 0), limit=5, given=("die", str(tmp_path), 2)) == b'{"slept":true}'
    assert time.monotonic() - began < 30
    assert len(list(tmp_path.iterdir())) == 2


def test_a_worker_that_hangs_while_it_starts_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "START_LIMIT", 3.0)
    assert run(lambda pool: pool.run("sleep", 0), limit=5, given=("hang", str(tmp_path), 1)) == b'{"slept":true}'


def test_where_no_worker_can_start_jobs_are_refused_at_once_until_one_can(tmp_path: Path) -> None:
    async def use(pool: Pool) -> bytes:
        with pytest.raises(Crashed, match="die while they start"):
            await pool.run("sleep", 0)
        began = time.monotonic()
        with pytest.raises(Crashed, match="die while they start"):
            await pool.run("sleep", 0)
        assert time.monotonic() - began < 0.1
        await asyncio.wait_for(pool.ready.wait(), 30)
        return await pool.run("sleep", 0)

    assert run(use, limit=5, given=("die", str(tmp_path), 4)) == b'{"slept":true}'


def test_a_job_whose_worker_died_idle_is_given_to_another() -> None:
    async def use(pool: Pool) -> None:
        first = await pool.run("pid")
        os.kill(first, signal.SIGKILL)  # and the loop has no time to notice
        assert await pool.run("pid") != first

    run(use, limit=5)


def test_a_worker_that_dies_idle_is_replaced_before_anybody_asks() -> None:
    async def use(pool: Pool) -> None:
        first = await pool.run("pid")
        os.kill(first, signal.SIGKILL)
        while not any(worker.ready and worker.process.pid != first for worker in pool.processes.workers):
            await asyncio.sleep(0.05)

    run(lambda pool: asyncio.wait_for(use(pool), 30), limit=5)


def test_a_worker_computes_with_one_thread() -> None:
    pytest.importorskip("torch")
    assert run(lambda pool: pool.run("threads"), limit=60) == 1


def test_the_server_starts_where_its_first_worker_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette")
    from trilith.web import server

    monkeypatch.setattr(server, "FIRST_START", 0.5)
    site = server.create_app(workers=2).state.site

    async def main() -> bytes:
        site.physics, site.thinking = (Pool(2, 8, 5, "slow_jobs", ("hang", str(tmp_path), 1)) for _ in range(2))
        async with site.lifespan(None):
            return await asyncio.wait_for(site.thinking.run("sleep", 0), 20)

    with ThreadPoolExecutor(1) as elsewhere:
        assert elsewhere.submit(asyncio.run, main()).result() == b'{"slept":true}'


def test_without_its_packages_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "trilith.web.server", raising=False)
    with pytest.raises(ValueError, match=r'^the page needs uvicorn: pip install "trilith\[web\]", or -e "\.\[web\]" in a clone$'):
        serve()
