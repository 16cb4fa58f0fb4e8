"""What is not the release's own code while its classes are driven: the complete list, each entry with its reason.

Three things keep this honest. The module of a driven class is never stood in for, so its code is the released code.
A stand-in can be named in an annotation, subscripted, inherited from and asked about with `isinstance`, which is all
that imports do; calling one raises `StandInUsedError`, which is a failure of this driver and never an outcome. And
whatever is neither listed here nor installed fails at import, before anything is driven. If a driver cannot be made for
that, it is tried again with stand-ins for the packages that are not installed, and for modules outside `DRIVEN` whose
import fails; these are listed with the release.
"""

from __future__ import annotations

import fnmatch
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RE_EXPORTS = "its __init__ only re-exports, and would import the whole engine"
ANNOTATIONS = "named in annotations only"
OTHER_PATHS = "called only by functions that are not driven"

PACKAGES = {
    "vllm": RE_EXPORTS,
    "vllm.distributed": RE_EXPORTS,
    "vllm.distributed.device_communicators": "its __init__ has nothing; the others in it are for accelerators",
    "vllm.v1": RE_EXPORTS,
    "vllm.v1.core": RE_EXPORTS,
    "vllm.multimodal": RE_EXPORTS + "; the registry of models that it names is never asked",
    "vllm.multimodal.cache": RE_EXPORTS + "; a plain module, and the released one, before it became a package",
    "vllm.multimodal.processing": RE_EXPORTS + "; a plain module, and the released one, before it became a package",
    "vllm.renderers": RE_EXPORTS,
}
"""Packages whose modules are the released ones but whose `__init__` is not run."""

MODULES = {
    "PIL": ANNOTATIONS,
    "cbor2": OTHER_PATHS,
    "cloudpickle": OTHER_PATHS,
    "psutil": OTHER_PATHS,
    "regex": OTHER_PATHS,
    "setproctitle": OTHER_PATHS,
    "transformers": ANNOTATIONS,
    "uvloop": OTHER_PATHS,
    "yaml": OTHER_PATHS,
    "zmq": OTHER_PATHS,
    "vllm.compilation": ANNOTATIONS,
    "vllm.config": ANNOTATIONS + "; a driven class gets an object with the one setting that it reads",
    "vllm.distributed.aux_output_connector": OTHER_PATHS,
    "vllm.distributed.ec_transfer": "no encoder output comes from elsewhere",
    "vllm.distributed.kv_events": "called only where events are on; then the driver records what events are given",
    "vllm.distributed.kv_transfer": "no KV comes from elsewhere",
    "vllm.distributed.parallel_state": "a driven call asks it one question, which is answered below",
    "vllm.exceptions": OTHER_PATHS,
    "vllm.inputs": ANNOTATIONS,
    "vllm.lora": ANNOTATIONS,
    "vllm.model_executor": OTHER_PATHS,
    "vllm.multimodal.gpu_ipc_memory": OTHER_PATHS,
    "vllm.multimodal.hasher": "items come with their hashes",
    "vllm.multimodal.media": ANNOTATIONS,
    "vllm.multimodal.parse": ANNOTATIONS,
    "vllm.multimodal.processing.context": ANNOTATIONS,
    "vllm.multimodal.processing.dummy_inputs": ANNOTATIONS,
    "vllm.multimodal.processing.inputs": ANNOTATIONS,
    "vllm.multimodal.registry": OTHER_PATHS,
    "vllm.platforms": OTHER_PATHS,
    "vllm.outputs": ANNOTATIONS,
    "vllm.pooling_params": ANNOTATIONS,
    "vllm.ray": OTHER_PATHS,
    "vllm.renderers.embed_utils": OTHER_PATHS,
    "vllm.renderers.inputs": ANNOTATIONS,
    "vllm.renderers.params": ANNOTATIONS,
    "vllm.sampling_params": ANNOTATIONS,
    "vllm.tasks": ANNOTATIONS,
    "vllm.tokenizers": ANNOTATIONS,
    "vllm.transformers_utils": OTHER_PATHS,
    "vllm.usage": OTHER_PATHS,
    "vllm.utils.async_utils": OTHER_PATHS,
    "vllm.utils.diffusion": OTHER_PATHS,
    "vllm.utils.network_utils": OTHER_PATHS,
    "vllm.utils.system_utils": OTHER_PATHS,
    "vllm.utils.torch_utils": OTHER_PATHS,
    "vllm.v1.kv_hints": ANNOTATIONS,
    "vllm.v1.metrics.cache_hit_source": OTHER_PATHS,
    "vllm.v1.metrics.perf": OTHER_PATHS + ": statistics are off",
    "vllm.v1.serial_utils": ANNOTATIONS,
    "vllm.v1.spec_decode": OTHER_PATHS + ": drafts come with a step's output, and statistics are off",
    "vllm.v1.structured_output": "a request that waits for a grammar gets it from the driver",
}
"""Modules that are not there at all, with everything below them. An installed module of the name is not used."""

DRIVEN = (
    "vllm.distributed.device_communicators",
    "vllm.multimodal",
    "vllm.renderers",
    "vllm.utils.cache",
    "vllm.v1.core",
    "vllm.v1.engine",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.outputs",
    "vllm.v1.request",
)
"""The modules of driven classes, and those below: they are never stood in for."""

ANSWERS: dict[str, tuple[Any, str]] = {
    "vllm.config.get_current_vllm_config_or_none": (
        None,
        "the first KV cache specification asks whose plug-ins to load: no engine's, as none is there",
    ),
    "vllm.distributed.kv_events.EventPublisherFactory.create": (
        None,
        "a scheduler asks for somebody to tell of its blocks: events are off, and nobody is told",
    ),
    "vllm.distributed.parallel_state.is_local_first_rank": (
        False,
        "a warning about an oversized item asks whether this process is the one that logs it",
    ),
    "vllm.platforms.current_platform.is_*": (
        False,
        "later releases ask for a kind of accelerator, some of them while they are imported: there is none",
    ),
    "vllm.platforms.current_platform.register_custom_kv_cache_specs": (
        None,
        "the same asks the accelerator for KV caches of its own: there is none",
    ),
    "vllm.v1.structured_output.request.StructuredOutputRequest.from_sampling_params": (
        None,
        "a request of later releases asks whether its output has a structure; the driver says so afterwards",
    ),
}
"""Functions of those modules that driven code does call, what they answer, and why that plays no part."""


class StandInUsedError(Exception):
    """Something called what is not the release's own code: the driver drives more than it says."""


class StandInType(type):
    """The class of every name that is imported from a module that is not there."""

    def __getattr__(cls, name: str) -> Any:
        return answer_of(f"{cls.__name__}.{name}") or stand_in(f"{cls.__name__}.{name}")

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        raise StandInUsedError(f"{cls.__name__} was called, and is not part of what is driven")

    def __getitem__(cls, parameters: Any) -> StandInType:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls


def answer_of(name: str) -> Callable[..., Any] | None:
    """The function that answers in the place of this one, or None where it must not be called."""
    answer = ANSWERS.get(name)
    if answer is None:
        answer = next((known for form, known in ANSWERS.items() if fnmatch.fnmatchcase(name, form)), None)
    return None if answer is None else lambda *arguments, **named: answer[0]


def stand_in(name: str) -> StandInType:
    """A class that can be named and nothing else."""
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    return StandInType(name, (), {})


class StandInModule(types.ModuleType):
    """A module that is not there: every name in it is a stand-in."""

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        return answer_of(full) or stand_in(full if not name.startswith("__") else name)


class BarePackage(types.ModuleType):
    """A package whose `__init__` is not run: its modules are real, what it would re-export is a stand-in."""

    def __getattr__(self, name: str) -> StandInType:
        for folder in self.__path__:
            if (Path(folder) / f"{name}.py").exists() or (Path(folder) / name).is_dir():
                raise AttributeError(name)
        return stand_in(f"{self.__name__}.{name}" if not name.startswith("__") else name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes before every other finder; what it does not know is imported as usual."""

    def __init__(self, source: Path, version: tuple[int, ...] = ()) -> None:
        self.source = source
        self.version = version
        """Empty if it is not known."""
        self.used: set[str] = set()
        """Entries of the lists above that the release really imports."""
        self.read: set[Path] = set()
        """Files of the release that were executed, also of modules whose import failed."""
        self.tolerant = False
        """Whether a module that no driver names is stood in for if its import fails."""
        self._absent: set[str] = set()
        """Packages that are not installed and stood in for."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for what is listed above, None for everything else."""
        if name in self._absent:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if (listed(name) is None and name not in PACKAGES) or self._is_released_module(name):
            return self._released(name, path)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _released(self, name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
        """A module of the release, remembered; None for any other."""
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name.startswith("vllm.") else None
        loader = None if spec is None else spec.loader
        if spec is None or not isinstance(loader, importlib.machinery.SourceFileLoader):
            return None
        self.read.add(Path(loader.path))
        spec.loader = Tolerant(loader, self)
        return spec

    def stand_in_for(self, error: ImportError) -> bool:
        """Stand in for the package that an import did not find; whether that is new."""
        name = error.name or "vllm"
        new = name.partition(".")[0] != "vllm" and name not in self._absent
        self._absent.update({name} if new else ())
        self.used.update({name} if new else ())
        return new

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module; `used` remembers which entry it belongs to."""
        entry = listed(spec.name)
        self.used.add(entry or spec.name)
        if entry is not None or spec.name in self._absent:
            return StandInModule(spec.name)
        package = BarePackage(spec.name)
        package.__path__ = [str(self.source.joinpath(*spec.name.split(".")))]
        return package

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""

    def _is_released_module(self, name: str) -> bool:
        """A name that is listed as a package, in a release where it is still a plain module."""
        return name in PACKAGES and self.source.joinpath(*name.split(".")).with_suffix(".py").is_file()


class Tolerant(importlib.abc.Loader):
    """Loads a module of the release. While the finder is tolerant, a failure need not be the end of what imports it."""

    def __init__(self, loader: importlib.machinery.SourceFileLoader, finder: Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute it; stand in for packages that it misses, and for the module itself if no driver names it."""
        while True:
            try:
                self._loader.exec_module(module)
            except Exception as error:
                if not self._finder.tolerant:
                    raise
                if isinstance(error, ModuleNotFoundError) and self._finder.stand_in_for(error):
                    continue
                if module.__name__.startswith(DRIVEN):
                    raise
                self._finder.used.add(module.__name__)
                sys.modules[module.__name__] = StandInModule(module.__name__)
            return


def installed() -> Finder:
    """The finder of the release whose modules are imported in this process."""
    return next(finder for finder in sys.meta_path if isinstance(finder, Finder))


@contextmanager
def tolerating() -> Iterator[None]:
    """Failures of imports are tolerated meanwhile."""
    finder = installed()
    finder.tolerant = True
    try:
        yield
    finally:
        finder.tolerant = False


def listed(name: str) -> str | None:
    """The entry of MODULES that the name belongs to, or None."""
    return next((entry for entry in MODULES if name == entry or name.startswith(entry + ".")), None)


def install(source: Path, version: tuple[int, ...] = ()) -> Finder:
    """Make `import vllm...` mean the release in this folder. What may look for optional packages is imported before."""
    for real in ("torch", "numpy", "cachetools", "msgspec"):
        importlib.import_module(real)
    finder = Finder(source, version)
    sys.meta_path.insert(0, finder)
    sys.path.insert(0, str(source))
    return finder
