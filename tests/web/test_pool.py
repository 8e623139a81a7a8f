"""The worker processes: a bounded queue, a time limit, and life after any job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from trilith.web.pool import Busy, Crashed, Pool, TooSlow


def run(use: Callable[[Pool], Awaitable[Any]], size: int = 1, queue: int = 8, limit: float = 0.4) -> Any:
    async def main() -> Any:
        pool = Pool(size, queue, limit, "slow_jobs")
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
