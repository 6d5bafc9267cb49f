"""A cluster in the place of processes: Dask's own on this machine. CI installs it for this test alone."""

from typing import TYPE_CHECKING, Any

import pytest

import kvcalc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

distributed = pytest.importorskip("distributed", reason="pip install 'dask[distributed]'")

pytestmark = pytest.mark.filterwarnings("default")  # Dask's are not ours to mend


@pytest.fixture(scope="module")
def executor() -> "Iterator[Executor]":
    """Two processes of one thread each, and no page about them."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


def test_a_cluster_finds_the_replicas_of_one_process(executor: "Executor") -> None:
    """The same document, key by key."""
    asked: dict[str, Any] = {"gpu": "l4", "replicas": "auto", "ttft": "2s", "tpot": "100ms"}
    trace = "tests/traces/morning.csv"
    there = kvcalc.simulate("llama3.1-8b", trace, **asked, executor=executor)
    assert there.to_dict() == kvcalc.simulate("llama3.1-8b", trace, **asked).to_dict()


def test_a_cluster_works_out_a_grid(executor: "Executor") -> None:
    """Engines' cells, in their order."""
    grid: dict[str, Any] = {"engine": ["vllm", "transformers"], "context": "1k..64k:+1k", "batch": [1, 7]}
    assert kvcalc.sweep("gemma3-27b", **grid, executor=executor).rows() == kvcalc.sweep("gemma3-27b", **grid).rows()


def test_an_error_of_a_cluster_is_the_one_of_this_process(executor: "Executor") -> None:
    """It comes with its words, from wherever it was raised."""
    with pytest.raises(kvcalc.KvcalcError, match="replicas: no 1,024 replicas meet the targets"):
        kvcalc.simulate(
            "llama3.1-8b", "tests/traces/agents.jsonl", gpu="l4", replicas="auto", ttft=1e-6, executor=executor
        )
