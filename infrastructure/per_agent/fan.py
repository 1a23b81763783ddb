"""Asking many in parallel: a few threads, that exist for one question."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def fanned_out(ask: Callable[[Item], Answer], items: Iterable[Item], threads: int) -> Iterator[Answer]:
    """The answers in the order of the items; what `ask` raises first in that order is raised.

    At most twice as many answers as threads wait to be taken. A single item is asked on the caller's own thread.
    """
    items = list(items)
    if len(items) <= 1 or threads == 1:
        yield from map(ask, items)
        return
    left = iter(items)
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="backscroll-search") as executor:
        waiting: deque[Future[Answer]] = deque()
        try:
            for item in left:
                waiting.append(executor.submit(ask, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
