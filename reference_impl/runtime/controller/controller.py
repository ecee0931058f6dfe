"""The controller role that every broker can play: compete for /controller, act while holding it, resign when it is
lost.

All work goes through one queue, one job at a time: watch events, requests, the rebalance timer. After a write with an
unknown outcome (connection lost, version changed) the controller reads everything again; an expired session ends its
term.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from reference_impl.coordination.client import CoordinationClient, CoordinationError, SessionExpired, WatchEvent
from reference_impl.core.controller import znodes
from reference_impl.core.controller.assignment import RefusedRequestError
from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.controller import requests as controller_requests
from reference_impl.runtime.controller.channel import ControllerSender
from reference_impl.runtime.controller.controller_term import ControllerSettings, ControllerTerm
from reference_impl.runtime.controller.store import RETRY_SECONDS, ControllerStore, ensure_paths

__all__ = ["ControllerRole", "ControllerSender", "ControllerSettings", "NotControllerError"]

Result = TypeVar("Result")
Job = Callable[[], Awaitable[None]]


class NotControllerError(Exception):
    """This broker is not, or no longer, the active controller."""


class UnknownOutcomeError(Exception):
    """The request may or may not have been executed: the coordination service did not answer."""


class ControllerRole:
    def __init__(
        self,
        *,
        broker_id: int,
        coordination: CoordinationClient,
        settings: ControllerSettings,
        send: ControllerSender,
        log: logging.Logger,
        chance: random.Random,
        wall_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._coordination = coordination
        self._settings = settings
        self._send = send
        self._logger = log
        self._chance = chance
        self._wall_ms = wall_ms
        self._store = ControllerStore(coordination)
        self._term: ControllerTerm | None = None
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._verification_queued = False

    @property
    def controller_epoch(self) -> int:
        """The epoch of this broker's own term; -1 while it is not the controller."""
        return -1 if self._term is None else self._term.claim.epoch

    # Start and end. One role serves one session: after an expiry the runtime creates a new role with the new client.

    async def start(self) -> None:
        """Starts to compete for /controller; returns when the first attempt is decided."""
        await ensure_paths(self._coordination)
        self._tasks = [asyncio.ensure_future(self._work()), asyncio.ensure_future(self._rebalance_now_and_then())]
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def first_attempt() -> None:
            try:
                await self._contest()
            finally:
                if not decided.done():
                    decided.set_result(None)

        self._jobs.put_nowait(first_attempt)
        await decided

    async def stop(self) -> None:
        """Ends the work; the role ends with the session, which the runtime closes."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._resign("stopping")
        while not self._jobs.empty():
            await self._jobs.get_nowait()()  # waiting requests get NOT_CONTROLLER

    def on_watch(self, event: WatchEvent) -> None:
        job = self._job_for(event)
        if job is not None:
            self._jobs.put_nowait(job)

    def on_session(self, kind: Literal["connected", "disconnected", "expired"]) -> None:
        if kind == "expired":
            self._stopped = True
            self._jobs.put_nowait(lambda: self._resign("the session expired"))
        elif kind == "connected":
            self._jobs.put_nowait(self._contest)  # an event may have been missed; reading again costs one request

    def _job_for(self, event: WatchEvent) -> Job | None:
        if event.path == znodes.CONTROLLER:
            return self._contest
        jobs: dict[str, Callable[[ControllerTerm], Awaitable[None]]] = {
            znodes.BROKER_IDS: ControllerTerm.registrations_changed,
            znodes.TOPICS: ControllerTerm.topics_changed,
            znodes.DELETE_TOPICS: ControllerTerm.deletions_wanted,
        }
        if event.path in jobs:
            return lambda: self._in_office(jobs[event.path])
        folder, _, topic = event.path.rpartition("/")
        if folder == znodes.TOPIC_CONFIGS:
            return lambda: self._in_office(lambda term: term.configs_changed(topic))
        return None

    # The queue.

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                await job()
            except SessionExpired:
                await self._resign("the session expired")
            except CoordinationError as error:
                self._logger.info("the coordination service did not say: %s; reading everything anew", error)
                await self._recover()
            except Exception:
                # An error in one job must not end the others; its unfinished work is recovered by reading everything
                # again.
                self._logger.exception("a controller job failed")
                await self._recover()

    async def _in_office(self, action: Callable[[ControllerTerm], Awaitable[None]]) -> None:
        if self._term is not None:
            await action(self._term)

    async def _recover(self) -> None:
        """Reads everything again if this broker is still the controller."""
        while not self._stopped:
            try:
                await self._contest(anew=True)
            except SessionExpired:
                await self._resign("the session expired")
                return
            except CoordinationError as error:
                self._logger.debug("still nothing from the coordination service: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                self._logger.exception("the controller cannot take in the cluster's state")
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _contest(self, *, anew: bool = False) -> None:
        """Takes /controller if it is free; resigns if another broker holds it."""
        self._verification_queued = False
        if self._stopped:
            return
        claim = await self._store.claim(self._broker_id, self._wall_ms())
        if self._term is not None and (claim is None or claim != self._term.claim):
            await self._resign("the office is another's")
        if claim is None:
            return
        if self._term is None:
            self._logger.info("broker %d is the controller, epoch %d", self._broker_id, claim.epoch)
            self._term = ControllerTerm(
                broker_id=self._broker_id,
                claim=claim,
                store=self._store,
                settings=self._settings,
                send=self._send,
                chance=self._chance,
                doubted=self._doubt,
            )
            anew = True
        if anew:
            await self._term.begin()

    def _doubt(self) -> None:
        """Checks whether this broker is still the controller, after a broker refused its epoch."""
        if not self._verification_queued:
            self._verification_queued = True
            self._jobs.put_nowait(self._contest)

    async def _resign(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            self._logger.info("broker %d is no longer the controller: %s", self._broker_id, reason)
            await term.end()

    async def _rebalance_now_and_then(self) -> None:
        if not self._settings.auto_leader_rebalance_enable:
            return
        while True:
            await asyncio.sleep(self._settings.leader_imbalance_check_interval_seconds)
            self._jobs.put_nowait(lambda: self._in_office(ControllerTerm.rebalance))

    # Requests: a kafka-python request container in, a response container out.

    async def as_controller(self, action: Callable[[ControllerTerm], Awaitable[Result]]) -> Result:
        """Runs an action in the queue. Raises NotControllerError, UnknownOutcomeError or RefusedRequestError."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        async def job() -> None:
            term = self._term
            if term is None:
                _fail(answer, NotControllerError())
                return
            try:
                result = await action(term)
            except RefusedRequestError as refusal:
                _fail(answer, refusal)
            except asyncio.CancelledError:
                _fail(answer, NotControllerError())
                raise
            except Exception as error:
                _fail(answer, UnknownOutcomeError(str(error)))
                raise
            else:
                if not answer.done():  # the caller may have disconnected
                    answer.set_result(result)

        if self._stopped or self._term is None:
            raise NotControllerError
        self._jobs.put_nowait(job)
        return await answer

    async def handle_alter_partition(self, body: Any, api_version: int) -> Any:
        try:
            return await self.as_controller(lambda term: controller_requests.alter_partition(term, body, api_version))
        except NotControllerError:
            return controller_requests.alter_partition_refused(ErrorCode.NOT_CONTROLLER)
        except UnknownOutcomeError:
            return controller_requests.alter_partition_refused(ErrorCode.REQUEST_TIMED_OUT)

    async def handle_controlled_shutdown(self, body: Any, api_version: int) -> Any:
        try:
            return await self.as_controller(lambda term: controller_requests.controlled_shutdown(term, body))
        except NotControllerError:
            return controller_requests.controlled_shutdown_refused(ErrorCode.NOT_CONTROLLER)
        except UnknownOutcomeError:
            return controller_requests.controlled_shutdown_refused(ErrorCode.REQUEST_TIMED_OUT)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
