# `make check` is the main job, `make test` the tests. Each sets up what it needs in .venv the first time.
#
#   PYTHON=...       the Python to build .venv with; otherwise the first of python3.13, python3.12, python3.11, python3
#                    that is 3.11 or newer
#   TORCH_SPEC=...   what pip is asked to install as torch; a CPU build is enough
#   CACHEPROOF_POPE=...  a folder with the whole POPE files, for `make nightly`; the slices that come along need nothing
#   CACHEPROOF_TRACES=...  likewise for the whole Mooncake, WEKA and Azure files
#
# pip reads its own environment variables, so PIP_INDEX_URL, PIP_EXTRA_INDEX_URL and the like choose where from.

TORCH_SPEC ?= torch==2.13.0
PYTHON ?=
CACHEPROOF_POPE ?=
CACHEPROOF_TRACES ?=

PYTHONS := 3.11 3.12 3.13
ENVIRONMENT := .venv
BIN := $(ENVIRONMENT)/bin
STAMPS := $(ENVIRONMENT)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
READY := $(STAMPS)/project

# Python compiles a module when it is first imported, and keeps the result: hundreds of processes import the same modules.
# pip would compile every module of torch, most of which are never imported.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
NIGHTLY := nightly-check nightly-explore nightly-native nightly-ray nightly-catalogue nightly-tensor nightly-kernels nightly-prove nightly-tests nightly-fuzz nightly-conform nightly-historic nightly-engine nightly-releases nightly-replay nightly-mutants nightly-attacks
.PHONY: help setup check test test-pythons lint types docs prove mutants nightly $(NIGHTLY) clean always

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

check: $(READY)  ## the main job: every scope that belongs in a few minutes, the tensor code too, then recorded workloads
	$(BIN)/cacheproof check
	$(BIN)/cacheproof check --engine tensor
	$(BIN)/cacheproof replay --shipped

test: $(READY)  ## the tests, on every core: one thread of torch for each; the slowest are listed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal --durations 40 --durations-min 5

test-pythons:  ## the tests on each Python that the package declares, in .venv-3.11, .venv-3.12 and .venv-3.13
	for version in $(PYTHONS); do \
		$(MAKE) test PYTHON=python$$version ENVIRONMENT=.venv-$$version || exit 1; \
	done

lint: $(READY)  ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)  ## mypy --strict over specification, implementation, checkers and tests
	$(BIN)/mypy

docs: $(READY)  ## the book: generated parts are current, links lead somewhere; the site is in build/book
	$(BIN)/cacheproof book --check
	$(BIN)/cacheproof results write --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# A second solver takes longer than the first: it is asked by night.
prove: $(READY)  ## what is proved for all sizes, at stated shapes, or confirmed to a bound
	$(BIN)/cacheproof prove --no-second-opinion
	$(BIN)/cacheproof prove --implementation
	$(BIN)/cacheproof regions

mutants: $(READY)  ## small changes of the normative transitions, and whether properties and witnesses notice them
	$(BIN)/cacheproof mutants

nightly-mutants: mutants
	$(BIN)/cacheproof detection --check

# Hostile files, networks and signals, killed processes, full disks. Each attack prints its seed, and how a failure is repeated.
nightly-attacks: $(READY)
	$(BIN)/python -m tests.attacks --seconds 600

# Tests by night. If such a run ends early or some fail, the next one leaves out those that have passed with the same files.
define BY_NIGHT
OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nightly --resume build/$@.passed $(1)
rm build/$@.passed
endef

# A part that has passed leaves a file. If a night ends early, or a part fails, the next night leaves out what has passed since the
# last change of a file. After a night in which all have passed, each part is run again.
PASSED := $(NIGHTLY:%=build/nightly/%)
SOURCES := $(shell find pyproject.toml Makefile spec impl proofs tests docs -type f ! -name '*.pyc')

nightly: $(READY)  ## everything that takes longer: the large scopes, long runs, released vLLM packages, whole traces
	$(MAKE) --keep-going $(PASSED)
	rm -r build/nightly

$(PASSED): build/nightly/%: $(SOURCES)
	$(MAKE) $*
	@mkdir -p $(@D)
	@touch $@

# The engine in Python, on all scopes up to 600,000 states: what compiled code finds is held to the same counts.
nightly-check: $(READY)
	$(BIN)/cacheproof check --set all --engine reference

# Random configurations of the normative specification, then of eras beside their releases: those fail for what is in no entry of
# the catalogue. The seed is a new one every night, and is printed.
nightly-explore: $(READY)
	$(BIN)/cacheproof explore --configurations 200 --states 50000
	$(BIN)/cacheproof target add vllm==0.20.2
	$(BIN)/cacheproof target add vllm==0.33.0
	$(BIN)/cacheproof explore scheduler --variant S2b --unknown --target vllm==0.20.2 --configurations 200 --states 10000
	$(BIN)/cacheproof explore scheduler --variant S3 --unknown --target vllm==0.33.0 --configurations 200 --states 10000

# The compiled specification finds what the scope files expect of the reference engine; and planted faults are noticed. The largest
# scope takes 13 GB of memory.
nightly-native: $(READY)
	$(BIN)/cacheproof compile
	$(BIN)/cacheproof check --set all --engine native
	$(call BY_NIGHT,tests/proofs/search/native)

# Real clusters of Ray on this machine. If Ray cannot be installed, the tests are skipped, and say so.
nightly-ray: $(READY)
	-$(PIP) install --editable '.[ray,redis]' fakeredis --constraint $(STAMPS)/constraints.txt
	$(call BY_NIGHT,tests/proofs/search/test_on_ray.py)

nightly-catalogue: $(READY)
	$(BIN)/cacheproof catalogue --everywhere

nightly-tensor: $(READY)
	$(BIN)/cacheproof check --set all --engine tensor --refine 2000000

# Triton's kernels in its interpreter, beside the torch forms: 100,000 random steps, and every state of the default scopes.
nightly-kernels: $(READY)
	$(call BY_NIGHT,--numprocesses auto --dist worksteal tests/impl/test_kernels.py)

nightly-prove: $(READY)
	$(BIN)/cacheproof prove
	$(BIN)/cacheproof prove --implementation --set all
	$(BIN)/cacheproof regions --set all

# The tests that `make test` leaves out, but for those that another part runs. With the extra `symbolic`, CrossHair chooses the
# calls of short runs. If it cannot be installed, those are skipped, and say so.
ELSEWHERE := tests/impl/test_kernels.py tests/proofs/search/native tests/proofs/search/test_on_ray.py tests/proofs/engine

nightly-tests: $(READY)
	-$(PIP) install --editable '.[symbolic]' --constraint $(STAMPS)/constraints.txt
	$(call BY_NIGHT,--numprocesses auto --dist worksteal $(ELSEWHERE:%=--ignore %))

# 100,000 calls of each component, and bursts of up to thousands of requests; then how many planted bugs are found. Both drivers
# choose calls in the same way; the plain one is the faster.
FUZZED := block_hash configuration encoder_budget encoder_cache kv_blocks kv_events layer_groups lru object_store ring scheduler

nightly-fuzz: $(READY)
	for component in $(FUZZED); do \
		$(BIN)/cacheproof fuzz $$component --target torch --profile nightly --driver lockstep || exit 1; \
	done
	$(BIN)/cacheproof fuzz mirror --scope all-faults --target torch --profile nightly --driver lockstep
	$(BIN)/cacheproof fuzz mirror --scope all-faults --target python:cacheproof.targets.tensor.mirror_classes:open_mirror --profile nightly
	$(BIN)/cacheproof fuzz layer_groups --target python:cacheproof.targets.tensor.layer_groups_manager:open_later --profile nightly --driver lockstep
	$(BIN)/cacheproof fuzz layer_groups --target python:cacheproof.targets.tensor.layer_groups_manager:open_keyed --profile nightly --driver lockstep
	$(BIN)/cacheproof fuzz kv_blocks --target torch --macros --requests 64 --profile nightly
	$(BIN)/cacheproof fuzz kv_blocks --target torch --macros --requests 4096 --steps 200000
	$(BIN)/cacheproof fuzz scheduler --target torch --macros --requests 12 --steps 20000
	$(BIN)/cacheproof fuzz scheduler --target torch --macros --requests 256 --steps 20000
	$(BIN)/python -m tests.proofs.lockstep.finding_power --seeds 10

nightly-conform: $(READY)
	$(BIN)/cacheproof conform --install --steps 5000

# Bugs of vLLM that were fixed in public, put back into 0.33.0 one at a time: conform has to flag each within its reach.
nightly-historic: $(READY)
	$(BIN)/cacheproof target add vllm==0.33.0
	$(BIN)/cacheproof planted vllm==0.33.0 --historic

# A whole engine on a CPU, with the release's managers and with ours: do all requests get the same tokens? Then its record is
# judged: bugs planted in it are blamed on the right step, and steps without a bug raise no alarm.
nightly-engine: $(READY)
	$(BIN)/cacheproof target add vllm==0.33.0 --engine
	$(BIN)/cacheproof engine vllm==0.33.0 --requests 2000 --seconds 3600
	$(BIN)/cacheproof engine vllm==0.33.0 --requests 500 --seconds 3600 --rules KV_2026_11
	$(BIN)/cacheproof engine vllm==0.33.0 --planted
	$(BIN)/cacheproof engine vllm==0.33.0 --clean 100000
	$(BIN)/cacheproof target add vllm==0.32.0 --engine
	$(BIN)/cacheproof engine vllm==0.32.0 --requests 500 --seconds 3600
	$(BIN)/python -m pytest -m "" tests/proofs/engine

# vLLM's own tests over our classes: each one that does not pass stands in a ledger, with its reason.
nightly-releases: $(READY)
	for version in 0.33.0 0.20.2 0.11.0; do \
		$(BIN)/python -m tests.impl.interfaces.release_tests $$version || exit 1; \
	done
	$(BIN)/python -m tests.impl.interfaces.release_tests.hisparse --seeds 5

nightly-replay: $(READY)
	$(BIN)/cacheproof replay --shipped
ifeq ($(CACHEPROOF_POPE),)
	@echo "the whole POPE sets are not replayed: name their folder with CACHEPROOF_POPE=..."
else
	$(BIN)/cacheproof replay $(addprefix $(CACHEPROOF_POPE)/,pope_coco.jsonl.gz pope_aokvqa.jsonl.gz) --component mirror --capacity 100
	$(BIN)/cacheproof replay $(addprefix $(CACHEPROOF_POPE)/,pope_coco.jsonl.gz pope_aokvqa.jsonl.gz) --component encoder_cache --capacity 100
endif
ifeq ($(CACHEPROOF_TRACES),)
	@echo "the whole traces are not replayed: name their folder with CACHEPROOF_TRACES=..."
else
	CACHEPROOF_TRACES=$(CACHEPROOF_TRACES) $(BIN)/python -m pytest -m "" tests/proofs/replay/test_whole_traces.py
endif

setup: $(READY)  ## .venv with everything in it

clean:  ## remove .venv and whatever was built or stored in this folder
	rm -rf $(ENVIRONMENT) $(addprefix .venv-,$(PYTHONS)) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .cacheproof
	find spec impl proofs tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Setting up: an empty environment, then torch, then the project with all that its checks and tests need.

$(STAMPS)/made:
	@./.ci/environment $(ENVIRONMENT) "$(PYTHON)"
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/torch-wanted: always | $(STAMPS)/made
	@echo '$(TORCH_SPEC)' | cmp -s - $@ || echo '$(TORCH_SPEC)' > $@

$(STAMPS)/constraints.txt: constraints.txt | $(STAMPS)/made
	@grep -v '^torch==' constraints.txt > $@

$(STAMPS)/torch: $(STAMPS)/torch-wanted $(STAMPS)/constraints.txt
	@echo "installing $(TORCH_SPEC)"
	@$(PIP) install --no-compile $(TORCH_SPEC) --constraint $(STAMPS)/constraints.txt
	@touch $@

$(READY): pyproject.toml $(STAMPS)/torch $(STAMPS)/constraints.txt
	@echo "installing cacheproof with its extras"
	@$(PIP) install --no-compile --editable '.[development]' --constraint $(STAMPS)/constraints.txt
	@touch $@
