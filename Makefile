# The two commands of the README are `make demo` and `make test`. Each makes the environment it needs, once:
# a stamp file in the environment is newer than everything the environment was made from.

PYTHON ?= python3
# One more than there are cores: see tests/conftest.py.
WORKERS ?= auto
# worksteal: tests of one file stay in one process, and none is idle while another still has tests in its queue.
PARALLEL := -n $(WORKERS) --maxprocesses 4 --dist worksteal

BIN := .venv/bin
# A tool that installs everything else is pinned as well.
UV := uv==0.13.7
RUN_READY := .venv/.ready-run
TEST_READY := .venv/.ready-test
BENCH_READY := .venv-bench/.ready
CLAUDE_READY := .venv-claude/.ready
LLAMA_READY := .venv-llama-index/.ready
AGENT_FRAMEWORKS_READY := .venv-agent-frameworks/.ready
FRAMEWORKS_READY := .venv-frameworks/.ready
DOCS_READY := .venv-docs/.ready
AUDIT_READY := .venv-audit/.ready
BROWSER_READY := .venv-browser/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# The tests start hundreds of interpreters: without cached bytecode each of them compiles what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-slow test-claude test-agents test-llama-index test-agent-frameworks test-frameworks test-frameworks-newest test-browser test-typescript typescript bench proxy-peers docs audit dist sbom format lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN_READY) ## see turnfold at work in the terminal
	@$(BIN)/turnfold demo

# pyright takes a minute of one core: it works beside the others, and is heard last.
test: $(TEST_READY) ## every check: ruff, formatting, pyright, import-linter, pytest
	@failed=""; \
	check() { printf '\n== %s\n' "$$*"; "$$@" || failed="$$failed\n   $$*"; }; \
	mkdir -p build; $(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python >build/pyright.log 2>&1 & begun=$$!; \
	pyright() { wait $$begun; code=$$?; cat build/pyright.log; return $$code; }; \
	check $(BIN)/ruff check --output-format concise; \
	check $(BIN)/ruff format --check --output-format concise; \
	check $(BIN)/lint-imports --no-logo --no-cache; \
	check $(BIN)/python -m pytest -q $(PARALLEL); \
	check pyright; \
	if [ -n "$$failed" ]; then printf "\n== FAILED$$failed\n"; exit 1; fi; \
	printf '\n== all five checks passed\n'

test-slow: $(TEST_READY) ## the tests marked slow, and every property with ten times the examples
	@$(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile thorough $(PARALLEL) --timeout 3600

test-claude: $(CLAUDE_READY) ## the Claude Agent SDK with its real program, in an environment of its own (366 MB)
	@.venv-claude/bin/python -m pytest -m "slow or not slow" tests/adapters tests/proxy -k claude

# The versions that were tried; TURNFOLD_CODEX=... and TURNFOLD_OPENCODE=... name other programs.
test-agents: $(TEST_READY) ## Codex and opencode, the real programs, through the proxy; needs Node 20 or newer (700 MB)
	@npm install --silent --no-audit --no-fund --no-save --prefix .npm-agents @openai/codex@0.169.0 opencode-ai@1.18.33
	@$(BIN)/python -m pytest -m "slow or not slow" tests/proxy/test_coding_agents.py

test-llama-index: $(LLAMA_READY) ## the LlamaIndex adapter and peer, in an environment of its own (100 MB)
	@.venv-llama-index/bin/python -m pytest -m "slow or not slow" tests/adapters tests/evaluation tests/house/test_docs.py -k llama

test-agent-frameworks: $(AGENT_FRAMEWORKS_READY) ## the adapters of Strands, Google ADK, Agent Framework and LiteLLM, and nine frameworks through the proxy, in an environment of their own (800 MB)
	@.venv-agent-frameworks/bin/python -m pytest -m "slow or not slow" $(addprefix tests/adapters/test_,strands.py google_adk.py agent_framework.py litellm.py hostile_rows.py) \
		tests/proxy/test_frameworks.py tests/house/test_docs.py \
		-k "strands or adk or gemini or agent_framework or agent-framework or litellm or base_url_alone"

test-frameworks: $(FRAMEWORKS_READY) ## the frameworks' own tests with turnfold swapped in, at the pinned versions (an environment of 1.2 GB)
	@.venv-frameworks/bin/python -m pytest -q -p no:asyncio tests/adapters/test_pydantic_histories.py tests/adapters/test_pydantic_ignored_approvals.py # AG-UI is only here
	@.venv-frameworks/bin/python tools/frameworks.py

test-frameworks-newest: $(FRAMEWORKS_READY) ## the same with the newest releases, in an environment of its own: reports drift
	$(call install,.venv-frameworks-newest,frameworks)
	@.venv-frameworks-newest/bin/python -m pip install --quiet --upgrade openai-agents langgraph langchain claude-agent-sdk pydantic-ai-slim llama-index-core
	@.venv-frameworks-newest/bin/python tools/frameworks.py

test-browser: $(BROWSER_READY) ## the web inspector in a real Chromium; TURNFOLD_SCREENSHOTS=docs/images renews the pictures
	@.venv-browser/bin/python -m pytest -m "slow or not slow" tests/browser

typescript: $(RUN_READY) ## build the TypeScript client from the OpenAPI document; needs Node 20 or newer
	@$(BIN)/python -m tools.typescript
	@cd clients/typescript && npm ci --silent --no-audit --no-fund && npm run --silent build

test-typescript: $(TEST_READY) typescript ## the TypeScript client under Node: its own tests, and those of the Python client through it
	@$(BIN)/python -m pytest -q tests/service/test_typescript.py tests/service/test_session_faces.py

bench: $(BENCH_READY) ## measure turnfold beside its peers; tables and pictures go into docs/benchmarks.md (an hour or two)
	@mkdir -p build
	@.venv-bench/bin/python -m bench --write --json build/bench.json

proxy-peers: $(TEST_READY) .venv-proxy-litellm/.ready .venv-proxy-headroom/.ready ## turnfold's proxy beside LiteLLM and Headroom on recorded traces, each in an environment of its own (1 GB)
	@$(BIN)/python -m bench.proxy_peers

docs: $(DOCS_READY) ## build the documentation, English and Chinese, into build/site
	@.venv-docs/bin/python -m tools.docs_site

# What runs in production and what builds it; the other environments hold the same versions and peers of benchmarks.
audit: $(AUDIT_READY) ## known vulnerabilities in what is installed (asks an advisory service), and bandit on the source
	@failed=""; \
	check() { printf '\n== %s\n' "$$*"; "$$@" || failed="$$failed\n   $$*"; }; \
	check .venv-audit/bin/bandit --quiet --recursive --configfile pyproject.toml src tools; \
	for file in run image build test; do \
		check .venv-audit/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip -r requirements/$$file.txt; \
	done; \
	if [ -n "$$failed" ]; then printf "\n== FAILED$$failed\n"; exit 1; fi

dist: requirements/build.txt ## build the packages, with nothing but what is pinned, into dist
	@test -x .venv-audit/bin/pip || $(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip install --quiet --require-hashes -r requirements/build.txt
	@rm -rf dist && .venv-audit/bin/python -m hatchling build
	@cd dist && sha256sum * >SHA256SUMS

sbom: $(AUDIT_READY) ## list what the image holds, with hashes, in CycloneDX: build/sbom.json
	@mkdir -p build
	@.venv-audit/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file build/sbom.json requirements/image.txt

format: $(TEST_READY) ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix --exit-zero --quiet
	@$(BIN)/ruff format

lock: $(TEST_READY) ## write requirements/*.txt anew from pyproject.toml
	$(call pin,run,the run-time closure with the extra cli)
	$(call pin,test,what `make test` needs,--extra encryption --extra postgres --extra redis --group dev --constraint requirements/run.txt)
	$(call pin,claude,what `make test-claude` needs,--extra encryption --extra postgres --extra redis --group dev --group claude --constraint requirements/test.txt)
	$(call pin,llama-index,what `make test-llama-index` needs,--extra encryption --extra postgres --extra redis --group dev --group llama-index --constraint requirements/test.txt)
	$(call pin,agent-frameworks,what `make test-agent-frameworks` needs,--group agent-frameworks --constraint requirements/run.txt)
	$(call pin,frameworks,what `make test-frameworks` needs,--extra encryption --extra postgres --extra redis --group dev --group claude --group llama-index --group frameworks --constraint requirements/claude.txt --constraint requirements/llama-index.txt)
	$(call pin,bench,what `make bench` needs,--extra encryption --extra postgres --extra redis --group bench --constraint requirements/run.txt)
	$(call pin,browser,what `make test-browser` needs,--extra service --group browser --constraint requirements/test.txt)
	$(call pin,docs,what `make docs` needs,--group docs --constraint requirements/run.txt)
	$(call pin,image,what the image of the service holds,--extra service --extra encryption --extra postgres --extra redis --extra prometheus --constraint requirements/test.txt)
	$(call pin_group,proxy-litellm,what `make proxy-peers` needs for LiteLLM)
	$(call pin_group,proxy-headroom,what `make proxy-peers` needs for Headroom)
	$(call pin_group,build,what builds the package,--constraint requirements/test.txt)
	$(call pin_group,audit,what `make audit` and `make sbom` need)

clean: ## remove the environments and everything else that can be made again
	rm -rf .npm-agents .venv .venv-agent-frameworks .venv-audit .venv-bench .venv-browser .venv-claude .venv-docs .venv-frameworks .venv-frameworks-newest .venv-llama-index .venv-proxy-headroom .venv-proxy-litellm build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(RUN_READY): pyproject.toml requirements/build.txt requirements/run.txt
	$(call install,.venv,run)
	@touch $@

$(TEST_READY): pyproject.toml requirements/build.txt requirements/run.txt requirements/test.txt
	$(call install,.venv,test)
	@touch $(RUN_READY) $@

$(BENCH_READY): pyproject.toml requirements/build.txt requirements/bench.txt
	$(call install,.venv-bench,bench)
	@touch $@

$(DOCS_READY): pyproject.toml requirements/build.txt requirements/docs.txt
	$(call install,.venv-docs,docs)
	@touch $@

$(BROWSER_READY): pyproject.toml requirements/build.txt requirements/browser.txt
	$(call install,.venv-browser,browser)
	@touch $@

$(FRAMEWORKS_READY): pyproject.toml requirements/build.txt requirements/frameworks.txt
	$(call install,.venv-frameworks,frameworks)
	@touch $@

$(LLAMA_READY): pyproject.toml requirements/build.txt requirements/llama-index.txt
	$(call install,.venv-llama-index,llama-index)
	@touch $@

$(AGENT_FRAMEWORKS_READY): pyproject.toml requirements/build.txt requirements/agent-frameworks.txt
	$(call install,.venv-agent-frameworks,agent-frameworks)
	@touch $@

$(CLAUDE_READY): pyproject.toml requirements/build.txt requirements/claude.txt
	$(call install,.venv-claude,claude)
	@touch $@

.venv-proxy-%/.ready: requirements/proxy-%.txt
	@test -x .venv-proxy-$*/bin/pip || $(PYTHON) -m venv .venv-proxy-$*
	@.venv-proxy-$*/bin/python -m pip install --quiet --require-hashes -r $<
	@touch $@

$(AUDIT_READY): requirements/audit.txt
	@test -x .venv-audit/bin/pip || $(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip install --quiet --require-hashes -r requirements/audit.txt
	@touch $@

# $(call install,environment,requirements): every file is checked against its hash, and the package is built with what is
# pinned too. uv takes seconds where pip takes a minute; where uv cannot be had, or finds no package index (it does not
# read pip's settings), pip does the same work.
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "turnfold needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
@echo "making $(1) with requirements/$(2).txt (only when those change)"
@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1)
@test -x $(1)/bin/uv || $(1)/bin/python -m pip install --quiet $(UV) >/dev/null 2>&1 || true
@{ $(1)/bin/uv pip install --quiet --python $(1)/bin/python --require-hashes -r requirements/$(2).txt -r requirements/build.txt \
	&& $(1)/bin/uv pip install --quiet --python $(1)/bin/python --no-deps --no-build-isolation -e . ; } || { \
	echo "uv could not do it: the same with pip, which takes longer" >&2; \
	$(1)/bin/python -m pip install --quiet --require-hashes -r requirements/$(2).txt -r requirements/build.txt \
	&& $(1)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e . ; }
endef

# Exact versions with hashes, for every platform, with no host and no path.
COMPILE := uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header --no-annotate --generate-hashes

# $(call pin,file,what it holds,options): the package with its extra cli, and more.
define pin
@{ echo '# Exact versions of $(2), with the hashes of their files; written by `make lock`.'; \
	$(BIN)/$(COMPILE) pyproject.toml --extra cli $(3); } >requirements/$(1).new
@mv requirements/$(1).new requirements/$(1).txt
endef

# $(call pin_group,group,what it holds,options): a dependency group without the package.
define pin_group
@{ echo '# Exact versions of $(2), with the hashes of their files; written by `make lock`.'; \
	$(BIN)/$(COMPILE) --group $(1) $(3); } >requirements/$(1).new
@mv requirements/$(1).new requirements/$(1).txt
endef
