set quiet

[private]
default:
    just --list

# everything a change must pass, fastest first
[group('check')]
check: lint types test

[group('check')]
lint:
    ruff check .
    ruff format --check .

[group('check')]
types:
    mypy
    pyright

# e.g. just test -k approval -x
[group('check')]
test *args:
    python -m pytest -n 4 {{ args }}

# 100,000 malformed frames, and many requests that nobody thought of
[group('check')]
fuzz seed="bubble":
    SCUBA_SEED={{ seed }} SCUBA_FRAMES=100000 python -m pytest -o faulthandler_timeout=1800 tests/contract/test_frame_fuzz.py
    SCUBA_SEED={{ seed }} SCUBA_FUZZ=100 python -m pytest -o faulthandler_timeout=1800 tests/contract/test_openapi.py

# latency, throughput and memory, each beside a floor measured in the same run
[group('check')]
bench *args:
    python -m tests.bench {{ args }}

# the AI SDK, whose fold judges recorded runs; its tests are skipped without it
[group('check')]
aisdk:
    npm ci --prefix tests/aisdk

# kill, freeze, fill up and cut off real servers, bots and CLIs under load, so many rounds of each
[group('check')]
chaos rounds="10":
    CHAOS_ROUNDS={{ rounds }} python -m pytest tests/chaos -o faulthandler_timeout=0

# so many turns with a bot, and as many cycles of what takes files: is anything left behind?
[group('check')]
soak turns="100000":
    SOAK_TURNS={{ turns }} DESCRIPTORS_ROUNDS=5 python -m pytest -rP -o faulthandler_timeout=0 tests/soak tests/integration/test_descriptors.py

# which branches did nobody run?
[group('check')]
cover:
    coverage run -m pytest
    coverage report --show-missing --skip-covered

# the tables of docs/configuration.md, from the settings themselves
[group('dev')]
docs:
    python -m scuba.reference docs/configuration.md

[group('dev')]
fix:
    ruff check --fix .
    ruff format .

# the main job on a scripted model: no account, no network
[group('dev')]
demo:
    python -m scuba --model scripted
