"""The controller role every broker can play: contest /controller, reign while holding it, resign when it is lost.

All work goes through one queue, one job at a time: watch events, requests, the rebalance timer. A write whose outcome
is unknown (connection lost, version changed) makes the reign read everything anew; an expired session ends it at once.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from reference_impl.coordination.client import CoordinationClient, CoordinationError, SessionExpired, WatchEvent
from reference_impl.core import znodes
from reference_impl.core.assignment import RefusedRequestError
from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime import controller_requests
from reference_impl.runtime.controller_channel import ControllerSender
from reference_impl.runtime.controller_reign import ControllerSettings, Reign
from reference_impl.runtime.controller_store import (
    RETRY_SECONDS,
    ControllerStore,
    ensure_paths,
)

__all__ = ["ControllerRole", "ControllerSender", "ControllerSettings", "NotControllerError"]

Result = TypeVar("Result")
Job = Callable[[], Awaitable[None]]


class NotControllerError(Exception):
    """This broker is not, or no longer, the active controller."""


class UnknownOutcomeError(Exception):
    """The request may or may not have been carried out: the coordination service did not say."""


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
        self._reign: Reign | None = None
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._verification_queued = False

    @property
    def is_active(self) -> bool:
        return self._reign is not None

    @property
    def controller_epoch(self) -> int:
        """Of this broker's own term; -1 while it is not the controller."""
        return -1 if self._reign is None else self._reign.claim.epoch

    # Life. One role serves one session: after an expiry the runtime makes a new one with the new client.

    async def start(self) -> None:
        """Begins to contest /controller; returns when the first attempt is decided."""
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
        """Ends the work; the office goes with the session, which the runtime closes."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._resign("stopping")
        while not self._jobs.empty():
            await self._jobs.get_nowait()()  # requests that waited learn that this is no controller any more

    def on_watch(self, event: WatchEvent) -> None:
        job = self._job_for(event)
        if job is not None:
            self._jobs.put_nowait(job)

    def on_session(self, kind: Literal["connected", "disconnected", "expired"]) -> None:
        if kind == "expired":
            self._stopped = True
            self._jobs.put_nowait(lambda: self._resign("the session expired"))
        elif kind == "connected":
            self._jobs.put_nowait(self._contest)  # an event may have been missed; asking again costs one read

    def _job_for(self, event: WatchEvent) -> Job | None:
        if event.path == znodes.CONTROLLER:
            return self._contest
        jobs: dict[str, Callable[[Reign], Awaitable[None]]] = {
            znodes.BROKER_IDS: Reign.registrations_changed,
            znodes.TOPICS: Reign.topics_changed,
            znodes.DELETE_TOPICS: Reign.deletions_wanted,
        }
        if event.path in jobs:
            return lambda: self._reigning(jobs[event.path])
        folder, _, topic = event.path.rpartition("/")
        if folder == znodes.TOPIC_CONFIGS:
            return lambda: self._reigning(lambda reign: reign.configs_changed(topic))
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
                # A bug in one job must not end the others; what it left half done is read anew.
                self._logger.exception("a controller job failed")
                await self._recover()

    async def _reigning(self, action: Callable[[Reign], Awaitable[None]]) -> None:
        if self._reign is not None:
            await action(self._reign)

    async def _recover(self) -> None:
        """Reads everything anew, if the office is still held."""
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
        """Takes the office if it is free, lays it down if it is somebody else's."""
        self._verification_queued = False
        if self._stopped:
            return
        claim = await self._store.claim(self._broker_id, self._wall_ms())
        if self._reign is not None and (claim is None or claim != self._reign.claim):
            await self._resign("the office is another's")
        if claim is None:
            return
        if self._reign is None:
            self._logger.info("broker %d is the controller, epoch %d", self._broker_id, claim.epoch)
            self._reign = Reign(
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
            await self._reign.begin()

    def _doubt(self) -> None:
        """A broker refuses this controller's word: is the office still held?"""
        if not self._verification_queued:
            self._verification_queued = True
            self._jobs.put_nowait(self._contest)

    async def _resign(self, reason: str) -> None:
        reign, self._reign = self._reign, None
        if reign is not None:
            self._logger.info("broker %d is no longer the controller: %s", self._broker_id, reason)
            await reign.end()

    async def _rebalance_now_and_then(self) -> None:
        if not self._settings.auto_leader_rebalance_enable:
            return
        while True:
            await asyncio.sleep(self._settings.leader_imbalance_check_interval_seconds)
            self._jobs.put_nowait(lambda: self._reigning(Reign.rebalance))

    # Requests: one container of kafka-python in, one out.

    async def as_controller(self, action: Callable[[Reign], Awaitable[Result]]) -> Result:
        """Runs an action in the queue. Raises NotControllerError, UnknownOutcomeError, RefusedRequestError."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        async def job() -> None:
            reign = self._reign
            if reign is None:
                _fail(answer, NotControllerError())
                return
            try:
                result = await action(reign)
            except RefusedRequestError as refusal:
                _fail(answer, refusal)
            except asyncio.CancelledError:
                _fail(answer, NotControllerError())
                raise
            except Exception as error:
                _fail(answer, UnknownOutcomeError(str(error)))
                raise
            else:
                if not answer.done():  # the caller may have hung up
                    answer.set_result(result)

        if self._stopped or self._reign is None:
            raise NotControllerError
        self._jobs.put_nowait(job)
        return await answer

    async def handle_alter_partition(self, body: Any, api_version: int) -> Any:
        try:
            return await self.as_controller(lambda reign: controller_requests.alter_partition(reign, body, api_version))
        except NotControllerError:
            return controller_requests.alter_partition_refused(ErrorCode.NOT_CONTROLLER)
        except UnknownOutcomeError:
            return controller_requests.alter_partition_refused(ErrorCode.REQUEST_TIMED_OUT)

    async def handle_controlled_shutdown(self, body: Any, api_version: int) -> Any:
        try:
            return await self.as_controller(lambda reign: controller_requests.controlled_shutdown(reign, body))
        except NotControllerError:
            return controller_requests.controlled_shutdown_refused(ErrorCode.NOT_CONTROLLER)
        except UnknownOutcomeError:
            return controller_requests.controlled_shutdown_refused(ErrorCode.REQUEST_TIMED_OUT)


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
