"""Tasks on a Ray cluster: one that runs already, or one of this machine alone."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefixledger import __version__
from prefixledger.engine.base import Engine, LostError, Work
from prefixledger.engine.task import BOUNDED_ENVIRONMENT, Done, environment, keep, run_task
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the new behaviour, which Ray otherwise announces at every start
}
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray's switch for machines without firewall rules: every port is one of the loopback, so that nobody else can connect."""


class RayEngine(Engine):
    """Every task is one Ray task of one core; what all tasks share is put into the object store once.

    Ray does not run tasks again by itself: ``Engine`` does, for a lost process and for a lost object alike.
    """

    remote = True

    def __init__(
        self, workers: int, task_memory_bytes: int | None = None, *, address: str | None = None
    ) -> None:
        """Connect, or start a cluster of so many cores on the loopback of this machine.

        Args:
            workers: Tasks at a time, where a cluster is started; else as many as it has cores.
            task_memory_bytes: See ``Engine``; Ray also keeps so much free for each task.
            address: As ``host:port``, ``ray://host:port`` or ``auto``; None starts a cluster, or uses the one that this
                process is connected to.

        Raises:
            UsageError: Ray is not installed, the cluster cannot be reached, or it runs another version of this program.
        """
        with environment({**_QUIET, **({} if address else _ALONE)}):
            self._ray = _import_ray()
            self._mine = not self._ray.is_initialized()
            if self._mine:
                self._connect(address, workers)
                self._printed = _silenced()
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        super().__init__(max(cores, 1), task_memory_bytes)
        try:
            self._check(address)
        except BaseException:
            self.close()
            raise
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0}
        if task_memory_bytes is not None:
            options |= {"memory": task_memory_bytes, "runtime_env": {"env_vars": BOUNDED_ENVIRONMENT}}
        self._task = self._ray.remote(_on_worker).options(**options)
        if self._mine and address is None:
            self._warming = [
                self._ray.remote(_warm).options(num_cpus=1, max_retries=0).remote()
                for _ in range(self.workers)
            ]

    def close(self) -> None:
        """Disconnect; a cluster that was started here ends."""
        if self._mine and self._ray.is_initialized():
            self._ray.shutdown()
            self._printed()

    def _connect(self, address: str | None, workers: int) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Ray's own, about Ray
                if address is None:
                    self._ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
                else:
                    self._ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            where = (
                "start a Ray cluster on this machine"
                if address is None
                else f"reach the Ray cluster {address}"
            )
            raise UsageError(
                f"cannot {where}: {_first_line(error)}",
                hint="ray status --address HOST:PORT tells whether it runs",
            ) from error

    def _check(self, address: str | None) -> None:
        """Make sure that tasks can be placed, and that what runs them is what asks for them.

        Raises:
            UsageError: They cannot, or it is another version.
        """
        wanted = self.task_memory_bytes
        largest = max(
            (node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]), default=0
        )
        if wanted is not None and wanted > largest:
            raise UsageError(
                f"no machine of the cluster has the {wanted / (1 << 20):,.0f} MiB that --task-memory gives each task",
                hint=f"the largest has {largest / (1 << 20):,.0f} MiB for tasks",
            )
        if address is None:
            return
        try:
            found = self._ray.get(self._ray.remote(_version).options(num_cpus=1, max_retries=1).remote())
        except self._ray.exceptions.RayError as error:
            raise UsageError(
                "the workers of the cluster cannot run prefixledger",
                hint=f"install prefixledger[ray] {__version__} on every machine of the cluster: {_first_line(error)}",
            ) from error
        if found != __version__:
            raise UsageError(
                f"the workers of the cluster run prefixledger {found}, and this is {__version__}",
                hint="install one version everywhere: results are the same only then",
            )

    def here(self, work: Work, begun: int) -> bool:  # noqa: ARG002
        """Return whether this process does all of it; see ``Engine``."""
        return begun == 0

    def _share(self, work: Work, shared: object) -> Any:  # noqa: ARG002
        if shared is None:
            return None
        # As bytes: arrays in the object store are read-only, and every kernel would be compiled once more for those.
        data = pickle.dumps(shared, protocol=pickle.HIGHEST_PROTOCOL)
        reference = self._ray.put(data)
        return reference.hex(), reference

    def _unshare(self, work: Work, held: Any) -> None:
        """Let the reference go: the store frees what nobody refers to."""

    def _submit(self, work: Work, function: Callable[[Any, Any], Any], held: Any, item: Any) -> Any:
        return self._task.remote(
            function,
            None if held is None else (held[0], [held[1]]),
            pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL),
            work.doing,
            self.task_memory_bytes,
            str(Path.cwd()),
        )

    def _finished(self, work: Work, running: Iterable[Any]) -> list[Any]:  # noqa: ARG002
        done, _ = self._ray.wait(list(running), num_returns=1, fetch_local=True)
        return list(done)

    def _result(self, work: Work, handle: Any) -> Done:  # noqa: ARG002
        faults = self._ray.exceptions
        try:
            done: Done = pickle.loads(self._ray.get(handle))  # noqa: S301  # of a worker of this cluster, whose code is ours
        except faults.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, faults.RayError):  # what it shares is lost
                raise LostError(_first_line(cause)) from error
            raise cause from None
        except faults.RayError as error:
            raise LostError(_first_line(error)) from error
        return done

    def _drop(self, running: Iterable[Any]) -> None:
        for handle in running:
            self._ray.cancel(handle, force=True)

    def _why_lost(self, lost: LostError) -> str:
        return (
            f"{lost}; if the machine ran out of memory, --task-memory keeps more of it free for each task; what is done is kept, "
            "and the same command goes on from there"
        )


def _import_ray() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray  # noqa: PLC0415  # an extra
            import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            "the engine ray is not installed", hint='pip install "prefixledger[ray]", or take --engine local'
        ) from error
    return ray


def _silenced() -> Callable[[], None]:
    """Keep what Ray prints of workers that died off stdout, where data goes; return what undoes it.

    Ray has no option for it. What died is counted and told by the engine.
    """
    from ray._private import worker as module  # noqa: PLC0415

    worker: Any = module
    printed = getattr(worker, "print_to_stdstream", None)
    worker.print_to_stdstream = lambda *_given, **_named: None

    def undo() -> None:
        worker.print_to_stdstream = printed

    return undo


def _on_worker(
    function: Callable[[Any, Any], Any],
    held: tuple[str, list[Any]] | None,
    item: bytes,
    doing: str,
    memory_bytes: int | None,
    folder: str,
) -> bytes:
    if Path.cwd() != Path(folder) and Path(folder).is_dir():
        os.chdir(folder)  # paths are as the user gave them
    shared = None if held is None else keep(held[0], lambda: _fetched(held[1][0]))
    made = run_task(function, shared, pickle.loads(item), doing=doing, memory_bytes=memory_bytes)  # noqa: S301  # of the driver
    return pickle.dumps(made, protocol=pickle.HIGHEST_PROTOCOL)


def _fetched(reference: Any) -> Any:
    import ray  # noqa: PLC0415

    return pickle.loads(ray.get(reference))  # noqa: S301  # of the driver


def _warm() -> None:
    """Load libraries that tasks of every kind need, while the driver looks at its arguments: 0.4 s in each worker."""
    import numba  # noqa: F401, PLC0415
    import pyarrow.compute  # noqa: PLC0415
    import pyarrow.parquet  # noqa: F401, PLC0415


def _version() -> str:
    return __version__


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
