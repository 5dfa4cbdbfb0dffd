"""Which tests have the mark `quick`: what one runs while one works, in at most 90 s on two cores."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Files whose tests take some 0.1 s each, of as many features as possible. The rest has the gate.
NAMES = """
active/test_answers active/test_hostile active/test_mapping active/test_messages active/test_rules
buffers/test_hostile buffers/test_layers buffers/test_pool buffers/test_views buffers/test_without_core
connection/test_carriers connection/test_kernel_counts connection/test_source_address connection/test_watched
dask/test_framing
mpj/test_engine_local mpj/test_engine_paths mpj/test_groups mpj/test_handles mpj/test_host_files mpj/test_specs
mpj/test_team_forming mpj/test_waiting mpj/collectives/test_running mpj/collectives/test_table
patching/test_os_calls
paths/test_gathers paths/test_small_buffers paths/test_stream paths/test_threads
rmi/test_awaiting rmi/test_calls rmi/test_codec rmi/test_connecting rmi/test_daemon rmi/test_hostile_frames
rmi/test_refusals rmi/test_registering rmi/test_secured rmi/test_strangers rmi/test_timers rmi/test_typed
rmi/test_values
test_array_format test_architecture test_arrays test_compiled_ends test_config test_contributing
top/test_hostile top/test_metrics
xxdev/test_hello xxdev/test_settings xxdev/test_thread_ranks
"""
FILES = {TESTS / f"{name}.py" for name in NAMES.split()}
# Of a test's variants: shared memory and plain TCP, in one role. The longest file has no plain ones.
OTHERS = {"tcp", "sdp", "accepts", "secured"}
SHM_ALONE = {TESTS / "paths" / "test_stream.py": {"plain", "gaining"}}


def is_quick(item: pytest.Item) -> bool:
    if item.path not in FILES or item.get_closest_marker("long"):
        return False
    variant = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    left_out = OTHERS | SHM_ALONE.get(item.path, set())
    return not any(isinstance(value, str) and value in left_out for value in variant)
