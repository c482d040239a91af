# `make` lists the commands; every one of them sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.PHONY: help setup demo test fuzz chaos soak bench check docs infra image-check tools lock
help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## install everything into .venv

demo: $(VENV)/.ready  ## start NATS, a simulated vCenter and a worker, and run the main job
	$(BIN)/vsphere-functions demo

# Bytecode is kept: three test processes and some two hundred that they start import the same modules.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.ready  ## run the tests with coverage
	$(BIN)/python -m vsphere_functions.local.tools vcsim govc natscli toxiproxy cloudevents kubeconform kustomize
	$(BIN)/python tests/support/schemas.py
	$(BIN)/pytest -n 3 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=95

fuzz: $(VENV)/.ready requirements/fuzz.txt  ## feed the codec and all models with broken input, guided by coverage; SEED=… SECONDS=600
	$(BIN)/uv pip install --quiet --require-hashes -r requirements/fuzz.txt
	PYTHONPATH=tests $(BIN)/python -m fuzz $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS))

chaos: $(VENV)/.ready  ## kill, cut and stall everything under load, and compare; SEED=… REQUESTS=…
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(SEED),--seed $(SEED)) $(if $(REQUESTS),--requests $(REQUESTS))

soak: $(VENV)/.ready  ## run the long forms of the random tests, and the others with new examples
	$(BIN)/pytest -n 3 -m hypothesis --hypothesis-profile random
	MODEL_STEPS=1000 MCM_MACHINES=1000 $(BIN)/pytest --timeout 1800 tests/system/test_machines_model.py tests/system/test_mcm_loop.py
	LONG_CLONE_SECONDS=30 $(BIN)/pytest --timeout 1800 tests/hosts/test_http_long.py
	MODEL_STEPS=2000 $(BIN)/pytest --timeout 3600 tests/system/test_volumes_model.py
	$(BIN)/python benchmarks/creates.py
	$(BIN)/python benchmarks/backpressure.py

bench: $(VENV)/.ready  ## measure beside peers, in one run
	$(BIN)/python benchmarks/list_machines.py
	$(BIN)/python benchmarks/events.py

check: $(VENV)/.ready  ## format, lint, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy events functions tests
	$(BIN)/lint-imports
	$(BIN)/python -m vsphere_functions.cli.docs --check
	$(BIN)/python -m vsphere_functions.cli.infra --check

docs: $(VENV)/.ready  ## write the generated documents anew
	$(BIN)/python -m vsphere_functions.cli.docs

infra: $(VENV)/.ready  ## write the generated manifests anew
	$(BIN)/python -m vsphere_functions.cli.infra

image-check: $(VENV)/.ready  ## install what the image installs, by its own commands and with PYTHON, and start it
	IMAGE=$$($(PYTHON) -c 'import sys; print(sys.executable)') $(BIN)/pytest --timeout 900 tests/infra/test_image.py

tools: $(VENV)/.ready  ## build the nats CLI and govc into .venv/bin
	$(BIN)/python -m vsphere_functions.local.tools --into $(BIN) natscli govc

lock: $(VENV)/.ready  ## resolve the requirements anew (needs the package index)
	$(COMPILE) --upgrade pyproject.toml --extra local --group dev -o requirements/dev.txt
	$(COMPILE) --upgrade pyproject.toml -o requirements/runtime.txt
	$(COMPILE) --upgrade --group pyproject.toml:go -o requirements/go.txt
	$(COMPILE) --upgrade --group pyproject.toml:fuzz -o requirements/fuzz.txt
	$(COMPILE) --upgrade --group pyproject.toml:build -o requirements/build.txt
	$(COMPILE) --upgrade --no-deps --group pyproject.toml:schemas -o requirements/schemas.txt
	$(COMPILE) --upgrade requirements/uv.in -o requirements/uv.txt

$(VENV)/.ready: requirements/dev.txt requirements/uv.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes requirements/dev.txt
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	touch $@
