"""A replay of a constant rate against the closed form of `plan`, which knows no queue for the pool."""

import pytest

import kvcalc

LENGTHS = {"input": "1155/4083", "output": "211/451"}


@pytest.mark.parametrize(
    ("gpu", "rate"), [("h100", 2), ("h100", 8), ("h100", 14), ("a100-80gb", 4), ("l40s", 2), ("l4", 0.2)]
)
def test_a_replay_and_a_plan_agree(gpu: str, rate: float) -> None:
    """Where the pool is not what binds, both have the same clock: times per token within 8 %, first tokens within a quarter
    (the plan takes prompts one at a time, the replay puts several into a step). Sequences at once follow by Little's law.
    """
    row = kvcalc.plan("llama3.1-8b", rate=rate, gpu=gpu, engine="vllm", **LENGTHS).rows()[0]
    assert row["gpus"] == 1
    found = kvcalc.simulate("llama3.1-8b", rate=rate, gpu=gpu, engine="vllm", requests=2000, **LENGTHS).to_dict()
    assert found["overloaded"] is False
    tpot, ttft, crowd = found["tpot_seconds"], found["ttft_seconds"], found["concurrency"]
    assert tpot is not None
    assert ttft is not None
    assert crowd is not None
    assert tpot["mean"] == pytest.approx(row["tpot_seconds"], rel=0.08)
    assert ttft["mean"] == pytest.approx(row["ttft_seconds"], rel=0.25)
    assert crowd["mean"] == pytest.approx(row["load.concurrency"], rel=0.2)
