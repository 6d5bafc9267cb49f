"""What is beside weights and cache: lines add up, one may be stated, and a card's usual engine speaks for it."""

import pytest

from kvcalc.cards.names import card_called
from kvcalc.core.overheads import Estimate, Overhead, as_stated, beside, exactly, gain, total
from kvcalc.core.request import Request, ask
from kvcalc.core.sharding import place
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.versions import VERSIONS
from kvcalc.launch.beside import beside_weights, usual_engine, usually_beside
from kvcalc.launch.registry import all_engines, engine_called
from kvcalc.library import loader

GIB = 2**30


def asked(preset: str = "llama3.1-8b") -> Request:
    return ask(loader.load(preset))


def test_lines_add_up_where_they_lie() -> None:
    """Inside of the share and outside, each end of the range by itself."""
    lines = (
        Overhead("a", Estimate(1, 2, 3), "", ""),
        Overhead("b", exactly(10), "", ""),
        Overhead("c", Estimate(100, 200, 300), "", "", inside=False),
    )
    assert total(lines) == (11, 12, 13)
    assert beside(lines) == (100, 200, 300)
    assert total(()) == (0, 0, 0)


def test_what_gives_memory_back_says_how_much() -> None:
    """Less than 64 MiB is not worth a word."""
    assert gain("256 sequences instead of 1,024", 5 * GIB, 3 * GIB // 2) == "256 sequences instead of 1,024: + 3.5 GiB"
    assert gain("x", 64 << 20, 1) == ""


def test_the_usual_engine_of_a_card_speaks_for_it() -> None:
    """Its newest version; vLLM on NVIDIA and servers, llama.cpp on Apple and on desktop cards of AMD."""
    h100, request = card_called("h100")[1], asked()
    found = usually_beside(request, h100)
    assert (found.engine, found.usual) == ("vllm 0.33.0", True)
    question = Question(request, place(request.model, request.layout), VERSIONS[-1], card=h100)
    assert found.lines == engine_called("vllm").memory(question, h100.memory)
    names = {name: usual_engine(card_called(name)[1]).name for name in ("rtx4090", "mi300x", "rx-7900-xtx", "apple-m4")}
    assert names == {"rtx4090": "vllm", "mi300x": "vllm", "rx-7900-xtx": "llama.cpp", "apple-m4": "llama.cpp"}


def test_what_is_stated_stands_in_its_place_without_a_range() -> None:
    """One size for all, none for bare arithmetic, or one line of them."""
    h100, request = card_called("h100")[1], asked()
    assert usually_beside(request, h100, overhead=5).lines == (as_stated("overhead", 5),)
    assert usually_beside(request, h100, overhead=0).lines == ()
    lines = usually_beside(request, h100, stated={"graphs": 7}).lines
    assert [line.size for line in lines if line.name == "graphs"] == [(7, 7, 7)]
    assert {line.name for line in lines} == {line.name for line in usually_beside(request, h100).lines}


@pytest.mark.parametrize("name", [engine.name for engine in all_engines()])
def test_every_engine_says_what_it_holds(name: str) -> None:
    """Each line has a rule with its numbers, a source, and a range that holds what is counted with; names differ."""
    engine, card, request = engine_called(name), card_called("apple-m4" if name == "mlx" else "h100")[1], asked()
    question = Question(request, place(request.model, request.layout), engine.versions[-1], card=card)
    lines = beside_weights(engine, question, card.memory).lines
    assert lines
    assert len({line.name for line in lines}) == len(lines)
    for line in lines:
        assert line.rule
        assert line.source
        assert 0 <= line.size.low <= line.size.likely <= line.size.high < card.memory
