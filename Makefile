# make install   make run [PROFILE=mini] [ONLY=01,02]   make verify   make test   make test-browser   make test-slurm   make test-class   make lab   make bench [SIZES=--full]   make bench-memory   make simulations   make base   make golden   make clean
PROFILE ?= mini
ONLY ?=
PYTHON ?= python3
PY := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
ifdef INTEREXTRA_DATA
export INTEREXTRA_DATA := $(abspath $(INTEREXTRA_DATA))
endif

run: .venv/ready
	@.venv/bin/interextra run --profile $(PROFILE) $(if $(ONLY),--only $(ONLY))

define NEXT
Installed in .venv; nothing has run yet. Next:
  .venv/bin/interextra audit --train beir:PATH@train --test beir:PATH@test   what your queries share; no model
  .venv/bin/interextra probe -m MODEL --collection beir:PATH --check         your model, before fine-tuning
  make run                                                                   all notebooks, 15 to 30 minutes on 2 cores
  make lab                                                                   the notebooks in JupyterLab
README.md says more.
endef
export NEXT

install: .venv/ready
	@echo "$$NEXT"

test: .venv/ready
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m pytest -n 2

# JupyterLab, the pages of a book and the handout in headless Chromium (Debian and Ubuntu: apt install chromium); takes
# minutes, not part of `make test`. BOOKS: folders of runs, whose books it reads.
BOOKS ?= outputs/mini-from-reference
test-browser: .venv/ready build/playwright/ready
	@PYTHONPATH=build/playwright $(PY) tests/browser/lab.py
	@[ "$(BOOKS)" != outputs/mini-from-reference ] || .venv/bin/interextra run --from-reference
	@PYTHONPATH=build/playwright $(PY) tests/browser/book.py $(BOOKS)

build/playwright/ready:
	@$(PY) -m pip install -q --upgrade --target $(@D) playwright==1.65.2
	@touch $@

# Snakemake and job arrays on a real Slurm, which it starts and stops (Debian and Ubuntu: apt install slurm-wlm munge slurmdbd
# mariadb-server); takes minutes, not part of `make test`.
test-slurm: .venv/ready
	@$(PY) tests/slurm/end_to_end.py

# A notebook as an assignment of nbgrader, handed in and graded; its environment sees the kit's and changes nothing in it.
test-class: build/nbgrader/ready
	@build/nbgrader/bin/python -m tests.tools.nbgrader_round_trip $(or $(ONLY),02)

build/nbgrader/ready: .venv/ready
	@$(PY) -m venv --clear --without-pip $(@D)
	@$(PY) -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
		> $$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/kit.pth
	@$(PY) -m pip --python $(@D)/bin/python install -q nbgrader==0.9.6
	@touch $@

lab: .venv/ready
	@$(PY) -m ipykernel install --sys-prefix --name interextra --display-name "interextra"
	@$(PY) -m jupyterlab --notebook-dir=notebooks

check: .venv/ready
	@$(PY) -m tools.structure

# The kit beside its alternatives: ten minutes on 2 cores; SIZES=--full those of MS MARCO, SIZES=--small seconds.
bench: .venv/ready
	@$(PY) bench/side_by_side.py $(SIZES)

# Memory and whole commands at the size of MS MARCO.
bench-memory: .venv/ready
	@for name in passages search indexes near_duplicates; do echo "== $$name"; $(PY) bench/$$name.py || exit 1; done

# How often statistics find what is there, and what is not.
simulations: .venv/ready
	@for name in finished_model planted_leaks seen_level; do echo "== $$name"; $(PY) bench/$$name.py || exit 1; done

base: .venv/ready
	@$(PY) -m tools.pretrain

# Tables and figures of a finished profile for readers, from one clean commit, and the README's results from them.
reference: .venv/ready
	@$(PY) -m tools.reference --profile $(PROFILE) $(if $(ONLY),--only $(ONLY))

# The check of the kit: everything computed from nothing, every table compared with the reference.
verify: .venv/ready
	@.venv/bin/interextra verify --profile $(PROFILE) $(if $(ONLY),--only $(ONLY))

# Signs the code of the cells where small samples of them come out as before: a refactoring trains nothing again.
golden: .venv/ready
	@$(PY) -m tools.golden

readme: .venv/ready
	@$(PY) -m tools.readme

clean:
	rm -rf $(filter-out outputs/reference,$(wildcard outputs/*)) .venv build

# Without python3-venv (Debian, Ubuntu) the environment is made bare and pip is put into it from outside.
# The file `ready` is written last, so that an installation that was cut off is done again.
.venv/ready: requirements-torch.lock requirements.lock pyproject.toml
	@echo "Installing the locked set into .venv (about 3 GB, one to three minutes)"
	@$(PYTHON) -m venv .venv 2>/dev/null || { $(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python $(PY) install -q pip; }
	@$(PY) -m pip install -q -r requirements-torch.lock
	@$(PY) -m pip install -q --no-deps -r requirements.lock
	@$(PY) -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: install run test test-browser test-slurm test-class lab check bench bench-memory simulations base golden reference verify readme clean
