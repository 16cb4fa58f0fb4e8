"""A small engine with the names of vLLM: packages that a test writes to a folder."""

from __future__ import annotations

from pathlib import Path

ENCODER = '''
class EncoderCacheManager:
    """Counts, and calls itself as the released one does."""

    def __init__(self, cache_size):
        self.cache_size = self.num_free_slots = self.num_freeable_slots = cache_size
        self.cached, self.freeable, self.freed = {}, {}, []

    def check_and_update_cache(self, request, input_id):
        name = request.mm_features[input_id].identifier
        if name not in self.cached:
            return False
        if not self.cached[name]:
            self.num_freeable_slots -= self.freeable.pop(name)
        self.cached[name].add(request.request_id)
        return True

    def can_allocate(self, request, input_id, encoder_compute_budget, num_tokens_to_schedule):
        size = request.get_num_encoder_tokens(input_id)
        if size > encoder_compute_budget or size + num_tokens_to_schedule > self.num_freeable_slots:
            return False
        while size + num_tokens_to_schedule > self.num_free_slots:
            name = next(iter(self.freeable))
            self.num_free_slots += self.freeable.pop(name)
            del self.cached[name]
            self.freed.append(name)
        return True

    def allocate(self, request, input_id):
        size = request.get_num_encoder_tokens(input_id)
        assert size <= self.num_free_slots
        self.cached[request.mm_features[input_id].identifier] = {request.request_id}
        self.num_free_slots -= size
        self.num_freeable_slots -= size

    def get_cached_input_ids(self, request):
        return {i for i, one in enumerate(request.mm_features) if one.identifier in self.cached}

    def free_encoder_input(self, request, input_id):
        name = request.mm_features[input_id].identifier
        if not self.cached.get(name):
            return
        self.cached[name].discard(request.request_id)
        if not self.cached[name]:
            self.freeable[name] = request.get_num_encoder_tokens(input_id)
            self.num_freeable_slots += self.freeable[name]

    def free(self, request):
        for input_id in sorted(self.get_cached_input_ids(request)):
            self.free_encoder_input(request, input_id)

    def get_freed_mm_hashes(self):
        freed, self.freed = self.freed, []
        return freed
'''

ENGINE = """
import importlib.metadata
import sys
from types import SimpleNamespace

for plugin in importlib.metadata.entry_points(group="vllm.general_plugins"):
    plugin.load()()
    plugin.load()()

from vllm.v1.core.encoder_cache_manager import EncoderCacheManager


def request(name, *items):
    features = [SimpleNamespace(identifier=identifier) for identifier, _ in items]
    sizes = [size for _, size in items]
    return SimpleNamespace(request_id=name, mm_features=features, get_num_encoder_tokens=sizes.__getitem__)


manager = EncoderCacheManager(4)
one, two = request("one", ("cat", 2), ("dog", 2)), request("two", ("bird", 3))
for position in (0, 1):
    manager.check_and_update_cache(one, position)
    assert manager.can_allocate(one, position, 9, 0)
    manager.allocate(one, position)
assert not manager.can_allocate(two, 0, 9, 0)
manager.free(one)
assert manager.can_allocate(two, 0, 9, num_tokens_to_schedule=0)
manager.allocate(two, 0)
assert manager.get_freed_mm_hashes() == ["cat", "dog"]
try:
    manager.allocate(one, 0)
except AssertionError:
    pass
EXTRA
"""


def write_engine(folder: Path, encoder: str = ENCODER, extra: str = "") -> Path:
    """The engine's script; its packages are in the same folder."""
    core = folder / "vllm" / "v1" / "core"
    core.mkdir(parents=True)
    for package in (core, core.parent, core.parent.parent):
        (package / "__init__.py").touch()
    (folder / "vllm" / "version.py").write_text('__version__ = "0.11.0"\n')
    (core / "encoder_cache_manager.py").write_text(encoder)
    script = folder / "engine.py"
    script.write_text(ENGINE.replace("EXTRA", extra))
    return script
