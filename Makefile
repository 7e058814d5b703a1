# Everything a checkout needs: `make demo` shows the main job, `make test` proves it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Each of the processes that run tests would compile 200 modules anew.
unexport PYTHONDONTWRITEBYTECODE
# With LC_ALL=C, Python before 3.13 does not start in an environment that names a clone below a path with an ö.
unexport LC_ALL

.PHONY: help demo docs test coverage lint lock proto proto-check bench bench-image bench-k8s e2e e2e-k8s image
.PHONY: kustomize bundle release faults fuzz model mutants clean

help: ## this list
	@echo 'What there is; each target installs what it needs into $(VENV):'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1 \2/p' $(MAKEFILE_LIST) | while read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

# The programs of an environment name the directory it was made in: they run in no clone that has been moved or copied.
IS_MOVED := $(shell test -e $(VENV)/.place && ! (cd $(VENV) && pwd -P | cmp -s - .place) && rm -rf $(VENV) \
	&& echo '$(VENV) was made in another directory, and is made anew.' >&2)

$(BIN)/pip:
	@echo 'Making a virtual environment in $(VENV) ...' >&2
	$(PYTHON) -m venv $(VENV)
	@cd $(VENV) && pwd -P >.place

PIP = $(BIN)/pip --disable-pip-version-check install --progress-bar off
# pip takes the clone's own nri as a copy; the clone itself takes the place of the copy.
INSTALL = $(PIP) --editable
NRI = $(INSTALL) adapter --no-deps --quiet

# The package alone, as a user has it. What it is told to install is shown: it can take a while.
$(VENV)/.package: pyproject.toml adapter/pyproject.toml | $(BIN)/pip
	$(INSTALL) . >&2
	$(NRI) >&2
	touch $@

# An extra of pyproject.toml: each target needs one.
$(VENV)/.%: pyproject.toml adapter/pyproject.toml | $(BIN)/pip
	$(INSTALL) '.[$*]' >&2
	$(NRI) >&2
	touch $@ $(VENV)/.package

# What is released is made with these very tools: another extra may have changed one since.
.PHONY: $(VENV)/.release
$(VENV)/.release: requirements-release.lock | $(BIN)/pip
	$(PIP) --quiet --require-hashes --requirement $< >&2
	$(INSTALL) . --quiet --no-deps --no-build-isolation >&2
	$(NRI) --no-build-isolation >&2
	touch $(VENV)/.package

demo: $(VENV)/.package ## the main job, played with samples: needs neither root nor a runtime
	$(BIN)/v010-adapter demo

docs: $(VENV)/.docs ## these pages as a site, in .cache/site
	$(BIN)/sphinx-build --fail-on-warning --keep-going -c docs -d .cache/doctrees . .cache/site
	@echo .cache/site/index.html

# Half of their time most tests wait: a machine of two cores can run four of them at once.
WORKERS = $(if $(CI),auto,$(shell cores=$$(nproc) && echo $$((cores > 4 ? cores : 4))))

# A test whose subject is a short deadline runs beside no more than one other that waits for its own.
test: $(VENV)/.test ## the tests; skips what this machine cannot do, and says why
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m 'not deadline'
	$(BIN)/pytest -q -n 2 --dist worksteal -m deadline $$(grep -rl --include='test_*.py' mark.deadline tests | sort)

coverage: $(VENV)/.coverage ## lines and branches that no test has run
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	-$(BIN)/pytest -q -n auto --dist worksteal --cov --cov-report= $(COVERAGE)
	$(BIN)/coverage report --skip-covered --show-missing

lint: $(VENV)/.lint ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock'
LOCK = $(COMPILE) --no-emit-package nri pyproject.toml

lock: $(VENV)/.lock ## renews the locked dependencies
	$(LOCK) --output-file requirements.lock
	$(LOCK) --output-file requirements-release.lock --extra release --constraint requirements.lock
	echo hatchling | $(COMPILE) --constraint requirements-release.lock --output-file requirements-build.lock -

proto: $(VENV)/.proto ## generates the messages of NRI
	$(BIN)/python proto/generate.py

proto-check: $(VENV)/.proto ## whether the generated messages are current
	$(BIN)/python proto/generate.py --check

# BENCH: cases and options, as in BENCH='events pods --effort 0.1'.
bench: $(VENV)/.test ## speed and memory against Go plugins
	$(BIN)/python -m tests.bench $(BENCH)

# The same with the image's Python and Debian; needs root and mmdebstrap.
bench-image: $(VENV)/.test ## the same with the image's Python; needs root
	tests/bench/in_image $(BENCH)

e2e: $(VENV)/.test ## pods on real runtimes, which it builds; needs root
	$(BIN)/python -m tests.e2e

# RUNS: how many random runs.
RUNS = 8
faults: $(VENV)/.test ## plugins that misbehave, and kills
	$(BIN)/python -m tests.faults $(FAULTS)
	$(BIN)/python -m tests.faults.runs $(RUNS)
	$(BIN)/python -m tests.faults.large $(LARGE)

fuzz: $(VENV)/.fuzz ## mutated inputs under libFuzzer
	$(BIN)/python -m tests.fuzz $(FUZZ)

# MUTANTS: how many, and the seed that repeats them, as in MUTANTS='300 7'.
mutants: $(VENV)/.coverage ## random changes of the code that no test notices; needs root
	$(BIN)/python -m compileall -q adapter
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Needs spin and gcc.
model: $(VENV)/.test ## all states of several adapters; needs spin
	$(BIN)/python -m tests.turns.model $(MODEL)

VERSION = $(shell sed -n "s/^__version__ = \"\(.*\)\"/\1/p" adapter/v010_adapter/__init__.py)
IMAGE = .cache/image/nri-v010-adapter-$(VERSION).tar
BUNDLE = .cache/bundle/v010-adapter-$(VERSION)-linux-$(shell uname -m).tar.gz

# Needs root, mmdebstrap and buildah.
image: $(VENV)/.release ## the container image; needs root
	mkdir -p $(dir $(IMAGE))
	deploy/image/build $(IMAGE) $(VERSION)
	deploy/image/try $(IMAGE) $(VERSION)

# Needs Debian or what is made of it, binutils, root or user namespaces, and a PYTHON that is not Debian's own, and that
# is optimised; with UNOPTIMISED=1 it need not be.
bundle: $(VENV)/.release ## an installation with a Python of its own
	deploy/bundle/build $(BUNDLE)
	deploy/bundle/try $(BUNDLE)

# All of a release in dist/. The image needs what `make image` needs, the chart helm and kubeconform, the run of the
# bundle what `make e2e` needs; SCHEMAS is kubeconform's -schema-location.
release: $(VENV)/.release ## all of a release, in dist
	rm -rf dist
	deploy/release dist

# Needs helm.
kustomize: ## renders the chart; needs helm
	for profile in hooks legacy; do helm template nri-v010-adapter deploy/helm/nri-v010-adapter --namespace kube-system \
		--kube-version 1.34 --skip-tests --set profile=$$profile >deploy/kustomize/$$profile/manifests.yaml || exit 1; done

# Kubernetes itself, on one node that is built and started here: root, Go, and an hour the first time.
e2e-k8s: $(VENV)/.test ## the chart on a node of Kubernetes; needs root
	K8S=$${K8S:-/srv/k8s} $(BIN)/python -m tests.e2e.kubernetes $(IMAGE)

# How long a rollout takes there.
bench-k8s: $(VENV)/.test ## how long a rollout takes there
	K8S=$${K8S:-/srv/k8s} $(BIN)/python -m tests.e2e.kubernetes $(IMAGE) rollout-c rollout

clean: ## removes what make has made
	rm -rf $(VENV) .cache dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
