# Everything that is done with this repository. `make` alone lists the targets. CI calls the same ones.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1

BIN := .venv/bin
STAMPS := .make
WEB_SOURCES := $(shell find web/src web/public web/scripts -type f 2>/dev/null) \
               $(wildcard web/index.html web/*.json web/*.js web/*.ts web/*.cjs web/*.mjs)
PYTEST := $(BIN)/pytest
WORKERS ?= auto

.PHONY: help install run test check fix web types schema docs e2e eval bench web-check python-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMPS)/python ## create .venv with everything in it (Python >= 3.11 is enough to begin with)

run: install web ## start everything and print the address to open
	@exec $(BIN)/daapu up

test: check ## run every check and every test, the real small model and the browser included
	$(PYTEST) tests --ignore=tests/unit --ignore=tests/e2e --ignore=tests/eval -n $(WORKERS) -m "not real_model and not browser"
	@$(MAKE) web-check
	@$(MAKE) e2e

check: install python-check ## format, lint, types, import rules, dependencies, generated files, unit tests
	$(PYTEST) tests/unit -q -n $(WORKERS)

python-check:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/squawk migrations/*.sql
	$(BIN)/python scripts/generated.py --check

fix: install ## repair what can be repaired: format, lint
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	@if [ -d web/node_modules ]; then cd web && npm run format; fi

web: $(STAMPS)/web ## build the web page when its sources have changed

web-check: $(STAMPS)/node ## format, lint, types, dead code and unit tests of the web page
	cd web && npm run format:check && npm run lint && npm run check && npm run knip && npm test
	@$(MAKE) web
	cd web && npm run size

types: install $(STAMPS)/node ## derive the web client's types from the brain's API
	$(BIN)/python scripts/generated.py --openapi
	cd web && npm run types

schema: install ## write config.schema.json
	$(BIN)/python scripts/generated.py --schema

docs: install ## write the generated pages of docs/reference
	$(BIN)/python scripts/generated.py

e2e: install web ## start the real system and use it: over HTTP, in a browser, with its processes killed
	$(PYTEST) tests/contract tests/e2e tests/faults -n 0 -m "real_model or browser" --timeout=600

eval: install ## figures about the quality of the memory
	$(BIN)/python -m tests.eval $(EVAL)

bench: install ## speed, as ratios against something run beside it
	$(BIN)/python -m tests.perf

clean: ## remove what was built, not the data
	rm -rf .venv $(STAMPS) web/node_modules web/dist

$(STAMPS)/python: uv.lock pyproject.toml build_hook.py scripts/bootstrap.sh
	@scripts/bootstrap.sh python
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/node: web/package-lock.json scripts/bootstrap.sh
	@scripts/bootstrap.sh node
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/web: $(STAMPS)/node $(WEB_SOURCES)
	@echo "Building the web page ..."
	@cd web && npm run --silent build -- --logLevel warn
	@mkdir -p $(STAMPS) && touch $@
