# osc_ros on a machine with Python and make: installs everything in .venv of this folder, with the
# pinned versions of requirements/constraints.txt. With ROS installed, use colcon instead.

PYTHON ?= python3
ARGS ?=
# What `make test-changed` compares with; empty: origin/main.
BASE ?=

# The ROS 2 distribution whose wheels are installed: jazzy or kilted.
DISTRO ?= jazzy
venv := $(if $(filter jazzy,$(DISTRO)),.venv,.venv-$(DISTRO))
bin := $(venv)/bin
constraints := requirements/constraints.txt requirements/$(DISTRO).txt
# The arm that the tests of hardware 'franka' control; it needs older versions of NumPy and MuJoCo.
franka_sim := .venv-franka-sim
packaging := setup.py setup.cfg pyproject.toml package.xml
# Folders too: the time stamp of a folder changes if a file in it is removed.
sources := $(packaging) $(shell find osc_ros config launch libexec resource \
             -name __pycache__ -prune -o -print)

# Do not mix a ROS installation that is sourced in this shell with the wheels of .venv.
ifdef AMENT_PREFIX_PATH
unexport LD_LIBRARY_PATH
endif
unexport PYTHONPATH PYTHONHOME _ROS_WHEELS_BOOTSTRAP_COMPLETE
unexport ROS_LOCALHOST_ONLY ROS_STATIC_PEERS ROS_DISCOVERY_SERVER
export AMENT_PREFIX_PATH := $(CURDIR)/$(venv)
export RMW_IMPLEMENTATION := rmw_fastrtps_cpp
# Without this, `python -m` would prefer the checkout to the installed package.
export PYTHONSAFEPATH := 1
# Loopback only, and discovery in less than a second: see the profile, to which LOCALHOST would add shared memory.
export ROS_AUTOMATIC_DISCOVERY_RANGE := SYSTEM_DEFAULT
profile := $(CURDIR)/$(venv)/share/osc_ros/config/fastdds.xml
ifeq ($(DISTRO),jazzy)
export FASTRTPS_DEFAULT_PROFILES_FILE := $(profile)
unexport FASTDDS_DEFAULT_PROFILES_FILE
else
export FASTDDS_DEFAULT_PROFILES_FILE := $(profile)
unexport FASTRTPS_DEFAULT_PROFILES_FILE
endif
# crisp_py, without its requirements (NumPy up to 2.3), and messages that are not on PyPI.
crisp := $(venv)/crisp
export FRANKA_SIM_PYTHON ?= $(CURDIR)/$(franka_sim)/bin/python

# The user's uv, or that of .venv; pip if there is none, which takes several times as long.
uv = $(shell command -v uv || command -v $(bin)/uv)
# Without a cache if its folder cannot be written.
uncached = $(shell d="$${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/uv}"; \
             mkdir -p "$$d" 2>/dev/null && test -w "$$d" || echo --no-cache)
# $(call install,VENV) ARGUMENTS
install = { $(if $(uv),$(uv) pip install $(uncached) --python $(1)/bin/python,\
  $(1)/bin/python -m pip install --disable-pip-version-check --progress-bar off)
failed = || { echo 'The installation failed, see above. Without a network connection or with a full disk (df -h .) it' >&2; \
  echo 'cannot succeed. To go on, call make again: complete downloads are kept.' >&2; exit 1; }; }

.DELETE_ON_ERROR:
ifndef PARALLEL
.NOTPARALLEL:
endif
.PHONY: help demo test test-all test-changed test-kilted test-oldest environments bench lint docs clean FORCE

help:
	@echo 'make demo   a simulated arm tracks targets over ROS 2; writes a table and plots'
	@echo "            (ARGS='--robot ur5e', ARGS='--headless --duration 5 --json out.json',"
	@echo "            ARGS='--urdf FILE --base B --tip T'; ARGS='--loop mujoco' and '--loop franka-sim':"
	@echo "            by osc_arm, with the arm in the process of the control loop)"
	@echo "make test   the test suite without the slow tests (ARGS='-k sweep')"
	@echo "make test-all  the test suite with the slow tests (ARGS='-n 0 -k soak --soak 600 --write-tables')"
	@echo 'make test-changed  the tests whose imports reach a file that differs from the merge base with'
	@echo "            origin/main, or from the last commit but one (BASE=main, ARGS='-x')"
	@echo 'make test-kilted  the test suite with ROS 2 Kilted instead of Jazzy, in .venv-kilted'
	@echo 'make test-oldest  imports, and all modes in simulation, with the oldest allowed versions; in .venv-oldest'
	@echo 'make bench  the time of an update, compared with Pinocchio and MuJoCo: doc/measurements/benchmarks.md, .png'
	@echo "            (26 minutes; ARGS='--json out.json', ARGS='--only gaps')"
	@echo 'make lint   ruff and mypy'
	@echo 'make docs   the documentation as a site: site/index.html'
	@echo 'make clean  remove .venv, .venv-kilted, .venv-oldest, .venv-franka-sim, site and build outputs'
	@echo 'PYTHON=python3.12 selects the Python of .venv (3.10 or later; now $(PYTHON)).'

# `--loop franka-sim` needs pylibfranka, and franka-sim in its own virtual environment.
demo: $(venv)/.demo $(if $(findstring franka-sim,$(ARGS)),$(venv)/.franka $(franka_sim)/.made) $(venv)/.installed
	@$(bin)/osc_demo $(ARGS)

# .installed in a make of its own: it must see that `environments` has made .venv.
test: environments
	@$(MAKE) --no-print-directory $(venv)/.installed
	@PYTHONPATH='$(CURDIR)/$(crisp)' $(bin)/pytest $(ARGS)

environments:
	@$(MAKE) --no-print-directory -j PARALLEL=1 $(venv)/.test $(franka_sim)/.made $(venv)/.crisp

test-all: override ARGS := -m 'slow or not slow' $(ARGS)
test-all: test

# A program that a test starts, a page or a parameter file counts, too: see test/support/changed.py.
test-changed: override ARGS := --changed='$(BASE)' $(ARGS)
test-changed: test

test-kilted:
	@$(MAKE) --no-print-directory test DISTRO=kilted

# Imports, and 200 ticks of each mode, with the oldest versions that setup.py allows. Numba 0.59 compiles for minutes;
# ARGS=--imports takes seconds.
test-oldest: $(venv)/.made
	@$(uv) venv -q --clear --python '>=3.10,<3.13' .venv-oldest
	@$(call install,.venv-oldest) -q --resolution lowest-direct --only-binary matplotlib '.[demo,jazzy]' $(failed)
	@$(remove_build)
	@.venv-oldest/bin/python test/support/oldest.py $(ARGS)

bench: $(venv)/.test $(venv)/.bench $(venv)/.installed $(franka_sim)/.made
	@$(bin)/python benchmark $(ARGS)

lint: $(venv)/.test $(venv)/.lint
	@$(bin)/ruff check .
	@$(bin)/mypy

# From scratch (-E): the navigation of all pages comes from doc/README.md.
docs: $(venv)/.doc $(venv)/.installed
	@$(bin)/python -m sphinx -E -W --keep-going -q -j auto -c doc . site
	@echo 'site/index.html'

clean:
	rm -rf .venv .venv-kilted .venv-oldest $(franka_sim) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@$(remove_build)

# Removes only outputs of setuptools: colcon may use build/ too.
remove_build = rm -rf build/lib build/bdist.* osc_ros.egg-info; rmdir build 2>/dev/null || true

# A virtual environment cannot be moved, because its scripts contain its path: make it again.
ifneq ($(shell cat $(venv)/.made 2>/dev/null),$(CURDIR))
$(venv)/.made: FORCE
endif

$(venv)/.made:
	@command -v '$(PYTHON)' >/dev/null || \
	  { echo 'osc_ros needs Python 3.10 or later: $(PYTHON) was not found (set PYTHON=... to use another).' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "osc_ros needs Python 3.10 or later: $(PYTHON) is $$('$(PYTHON)' -V 2>&1) (set PYTHON=... to use another)." >&2; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'osc_ros needs the module venv of $(PYTHON). On Debian and Ubuntu: sudo apt install python3-venv' >&2; exit 1; }
	@rm -rf $(venv)
	@'$(PYTHON)' -m venv $(venv)
	@command -v uv >/dev/null || $(bin)/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt uv \
	  || echo 'Without uv, so pip installs the packages: some minutes.' >&2
	@echo "$(CURDIR)" > $@

$(venv)/.demo $(venv)/.test $(venv)/.bench $(venv)/.franka $(venv)/.doc: $(venv)/.made $(constraints) setup.py
	@echo 'Installing the requirements of $(subst doc,docs,$(@F:.%=make %)) in $(venv), pinned, once ...'
	@$(remove_build)
	@$(call install,$(venv)) $(constraints:%=-c %) -q setuptools wheel $(failed)
	@$(call install,$(venv)) $(constraints:%=-c %) --no-build-isolation '.[$(DISTRO),$(@F:.%=%)]' $(failed)
	@$(remove_build)
	@touch $@

# If it cannot be installed, the tests that need it are skipped.
$(franka_sim)/.made: $(venv)/.made requirements/franka-sim.txt
	@echo 'Installing franka-sim in $(franka_sim), pinned, once ...'
	@rm -rf $(franka_sim)
	@'$(PYTHON)' -m venv $(franka_sim)
	@$(call install,$(franka_sim)) -q --only-binary :all: -r requirements/franka-sim.txt; } && touch $@ || \
	  { rm -rf $(franka_sim); echo 'Without franka-sim, which needs Python 3.10 to 3.12.' >&2; }

# If it cannot be installed, the tests that need it are skipped.
$(venv)/.crisp: $(venv)/.test requirements/crisp.txt test/support/interfaces.py
	@echo 'Installing crisp_py and generating messages in $(crisp), once: a minute ...'
	@rm -rf $(crisp)
	@{ $(call install,$(venv)) -q --no-deps --target $(crisp) -r requirements/crisp.txt; } && $(bin)/python test/support/interfaces.py $(crisp); } || \
	  { rm -rf $(crisp); echo 'Without crisp_py, which needs Python 3.11 and a C++ compiler.' >&2; }
	@touch $@

# Not editable, so that tests and demo run the same files that a user gets. Files that an earlier
# build left in build/ would be installed again, so they are removed. Numba recompiles a file whose
# time stamp has changed, so the installed files get the time stamps of the sources.
$(venv)/.installed: $(venv)/.made $(sources)
	@$(remove_build)
	@echo 'Installing osc_ros in $(venv) ...'
	@$(call install,$(venv)) -q --no-deps --no-build-isolation --force-reinstall . $(failed)
	@$(remove_build)
	@find osc_ros -name '*.py' -exec sh -c 'touch -r "$$0" $(venv)/lib/python*/site-packages/"$$0"' {} ';'
	@touch $@

$(venv)/.lint: $(venv)/.made requirements/lint.txt
	@$(call install,$(venv)) -q -r requirements/lint.txt $(failed)
	@touch $@
