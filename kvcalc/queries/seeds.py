"""The same simulation with requests of other seeds: how far an answer rests on chance."""

from kvcalc.errors import KvcalcError
from kvcalc.jobs import Workers, in_order
from kvcalc.queries import simulate
from kvcalc.queries.simulation import SeedFound, SimulateAnswer, SimulateQuestion
from kvcalc.serving.fleet import Watch

__all__ = ["answer"]


def answer(question: SimulateQuestion, workers: Workers | None = None, watch: Watch | None = None) -> SimulateAnswer:
    """Replay the requests, and those of the seeds that follow on theirs, on as many replicas; `watch` is told how many
    have come. Raises KvcalcError.
    """
    made = question.traffic.made_up
    if made is None or made.seeds == 1:
        return simulate.answer(question, workers, watch=watch)
    day = question.day
    for name, given in (
        ("day" if day is None else day.option[2:], day),
        ("prefill", question.pools),
        ("step", question.open),
    ):
        if given is not None:
            raise KvcalcError(f"--seeds: is not known with --{name}", "--seed N, one after the other")
    found = simulate.answer(question, workers, watch=watch)
    known = question._replace(source=question.source._replace(model=found.model), replicas=found.replicas)
    others = (
        known._replace(traffic=question.traffic._replace(made_up=made._replace(seed=made.seed + i, seeds=1)))
        for i in range(1, made.seeds)
    )
    return found._replace(by_seed=(_met(found, made.seed), *in_order(workers, _of_seed, ((each,) for each in others))))


def _of_seed(question: SimulateQuestion) -> SeedFound:
    assert question.traffic.made_up is not None
    return _met(simulate.answer(question), question.traffic.made_up.seed)


def _met(found: SimulateAnswer, seed: int) -> SeedFound:
    served = found.served
    assert served is not None
    met = None if found.attainment is None else found.attainment.all
    return SeedFound(seed, served.overloaded, served.ttft.p95, served.tpot.p95, served.e2e.p95, met)
