# The commands of this repository. Each finds or fetches what it needs, says what it does, and may be repeated.
# ARGS passes more to pytest, a formatter or a benchmark: make test-fast ARGS="-k quota"

SHELL := /bin/bash
.DEFAULT_GOAL := help
ARGS ?=
# Whoever keeps Python from writing bytecode pays a compile at each start; the environments here are ours to write into.
unexport PYTHONDONTWRITEBYTECODE
# A Python path of the caller's would let other code stand in for ours.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.PHONY: help env quickstart test test-fast catalog-check test-services test-browser test-training chaos lint format bench lock schemas catalog reasons problems i18n i18n-update clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: ## the development environment .venv (CPython 3.14)
	@scripts/make-env dev

quickstart: env ## a real fine-tuning run from submit to checkpoint, on this machine
	@scripts/quickstart $(ARGS)

test: ## every test, layer by layer: fast, catalog, services, browser, training
	@scripts/run-tests fast catalog services browser training -- $(ARGS)

test-fast: ## rules, contract, CLI, console on SQLite and Postgres; on CPython 3.14, 3.12 and 3.9
	@scripts/run-tests fast -- $(ARGS)

catalog-check: ## every parameter and command of the catalog against the frameworks' own parsers
	@scripts/run-tests catalog -- $(ARGS)

test-services: ## against real Redis, Docker and Podman
	@scripts/run-tests services -- $(ARGS)

test-browser: ## in a real Chromium
	@scripts/run-tests browser -- $(ARGS)

test-training: ## with a real trainer on the CPU
	@scripts/run-tests training -- $(ARGS)

chaos: ## kill consoles, daemons, runners and containers at random for 200 rounds; see docs/development/chaos.md
	@scripts/run-tests chaos -- $(ARGS)

lint: env ## formatting, lint, shell scripts, import rules, types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/shellcheck $$(git grep -lE '^#!/(usr/bin/env bash|bin/bash|bin/sh)' -- ':!*.md' ':!*.py')
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/ty check

format: env ## format and mend what ruff can mend
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

bench: env ## measure against peers on this machine; writes benchmarks/results.json
	@.venv/bin/python -m benchmarks $(ARGS)

lock: ## pin all dependencies anew (ARGS=--upgrade takes newer versions)
	@scripts/lock $(ARGS)

schemas: env ## write the JSON Schemas of the contract
	@.venv/bin/python -m tuneplane.contract.schemas docs/reference/schemas

catalog: env ## compile the recipe manifests into the index
	@.venv/bin/python -m tuneplane.recipes.compile

reasons: env ## write the manual's pages of reasons from the table
	@.venv/bin/python scripts/reason_pages.py

problems: env ## write the manual's pages of problems from the table
	@.venv/bin/python scripts/problem_pages.py

i18n: env ## compile the translations
	@.venv/bin/python scripts/translations.py compile

i18n-update: env ## bring the .po files in line with the sources (ARGS=tuneplane_server for one)
	@.venv/bin/python scripts/translations.py update $(ARGS)

clean: ## remove environments, caches and builds of this clone (not the shared tool cache)
	@rm -rf .venv .venv-* .pytest_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.* build dist
	@find packages tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
