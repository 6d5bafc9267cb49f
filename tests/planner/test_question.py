"""What a plan chooses among: ways to spread a replica, and what a card cannot do."""

import pytest

from kvcalc.core.card import Capability, Card
from kvcalc.core.dtypes import KV
from kvcalc.core.model import Latent
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction
from kvcalc.errors import KvcalcError
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.question import Backend, ExactBackend, Precision, parallel_configs, unsupported
from kvcalc.planner.replica import replica_layout

from .hand import FULL, WHOLE, WINDOW, alone, card, config, engine, model, precision

LATENT = Latent(rank=96, rope=32, heads=4, k_dim=64, v_dim=64)  # 256 B a token in bf16


@pytest.mark.parametrize(
    ("layout", "each"),
    [(Layout(), 10), (Layout(2), 5), (Layout(1, 3), 4), (Layout(2, 2), 3), (Layout(4, 2, dcp=2), 2)],
)
def test_weights_on_one_gpu_are_rounded_up(layout: Layout, each: int) -> None:
    """10 B over 1, 2, 3, 4 and 8 GPUs; a split of the context adds none."""
    found = config(model(), layout, weights=10)
    assert (found.weights, found.ranks) == (each, layout.tp * layout.pp)


# Bytes of 1,000 tokens on one GPU. Latents are whole on each of tp ranks: 256,000 B, and half or a quarter where the
# context is split. Two KV heads at tp 2 are one each, 256,000 B; split over the context each rank has both, of half the
# tokens: the same 256,000. At tp 4 two ranks hold each head: a split over those two halves the bytes, and so does one over
# four, where each rank has both heads of a quarter. A window is never split, so that a rank saves nothing.
@pytest.mark.parametrize(
    ("cache", "tp", "kept"),
    [
        (LATENT, 2, [1, 2]),
        (LATENT, 4, [1, 2, 4]),
        (FULL, 2, [1]),
        (FULL, 4, [1, 2, 4]),
        (WINDOW, 2, [1]),
    ],
    ids=["latent tp 2", "latent tp 4", "full tp 2", "full tp 4", "window tp 2"],
)
def test_a_split_of_the_context_must_save_bytes(cache: Latent, tp: int, kept: list[int]) -> None:
    """A way that is no better than the same without it is left out."""
    layouts = [replica_layout(model(cache), Layout(tp, dcp=dcp)) for dcp in (1, 2, 4) if tp % dcp == 0]
    found = parallel_configs(precision(model(cache)), layouts)
    assert [each.layout.dcp for each in found] == kept


def test_a_split_that_is_pinned_stays() -> None:
    """Where the way without it was not asked for there is nothing to compare with."""
    (found,) = parallel_configs(precision(model(FULL)), [replica_layout(model(FULL), Layout(2, dcp=2))])
    assert found.layout.dcp == 2


def test_the_exact_size_is_kept_for_each_way() -> None:
    """Two ways are two replicas, and the card is nothing to them; the share is the asker's."""
    backend = ExactBackend(Fraction(9, 10))
    one, two = config(model()), config(model(), Layout(2))
    small, large = card(10**6), card(10**9)
    assert backend.replica_memory(one, small) is backend.replica_memory(one, large)
    # 4 layers x 512 B, and half of the heads of each
    assert [backend.replica_memory(each, small).needed(1, 100) for each in (one, two)] == [204_800, 102_400]
    assert backend.share(one, small) == (9, 10)


def test_blocks_that_a_row_does_not_fill_are_an_error_each_time() -> None:
    """q8_0 has blocks of 32 elements: one head of 48 is one and a half."""
    uneven = model(FULL._replace(kv_heads=1, k_dim=48, v_dim=48))
    way = alone(Layout(), precision(uneven, kv="q8_0"))
    backend = ExactBackend(WHOLE)
    for _ in range(2):
        with pytest.raises(KvcalcError, match="q8_0"):
            backend.replica_memory(way, card(10**6))


AMPERE = card(10**9, "a100", capability=(8, 0), vendor="NVIDIA")
ADA = card(10**9, "l40s", capability=(8, 9), vendor="NVIDIA")
HOPPER = card(10**9, "h100", capability=(9, 0), vendor="NVIDIA")
BLACKWELL = card(10**9, "b200", capability=(10, 0), vendor="NVIDIA")
INSTINCT = card(10**9, "mi300x", vendor="AMD", flops8=10**15)  # no CUDA, and fp8 by its own sheet
TURING = card(10**9, "t4", capability=(7, 5), vendor="NVIDIA", bf16=False)
NAMELESS = card(10**9, bf16=False)
NO_ENGINE, ENGINE = ExactBackend(WHOLE), EngineBackend(engine()._replace(vendors=("NVIDIA",)), engine().versions[0], {})
# An engine that multiplies fp8 and NVFP4 and unpacks nothing, and keeps no bf16 on old cards.
UNITS: dict[str, Capability] = {"fp8": (8, 9), "fp8_e5m2": (8, 9), "nvfp4": (10, 0), "bf16": (8, 0)}
PLAIN = EngineBackend(
    engine()._replace(
        least=lambda _version, what, name: None if (what, name) == ("weights", "bf16") else UNITS.get(name)
    ),
    engine().versions[0],
    {},
)


@pytest.mark.parametrize(
    ("of", "kv", "weights", "backend", "why"),
    [
        # bytes are bytes on any card
        (AMPERE, "fp8", "fp8", NO_ENGINE, None),
        (TURING, "nvfp4", "nvfp4", NO_ENGINE, None),
        (TURING, "bf16", "bf16", NO_ENGINE, None),
        # an engine that says from which capability on, or what the card's sheet says
        (AMPERE, "fp8", "bf16", PLAIN, "made-up 1 keeps no fp8 cache on A100"),
        (AMPERE, "fp8_e5m2", "bf16", PLAIN, "made-up 1 keeps no fp8_e5m2 cache on A100"),
        (AMPERE, "bf16", "fp8", PLAIN, "made-up 1 runs no fp8 weights on A100"),
        (ADA, "fp8", "fp8", PLAIN, None),
        (INSTINCT, "fp8", "fp8", PLAIN, None),
        (INSTINCT._replace(flops8=None), "fp8", "bf16", PLAIN, "made-up 1 keeps no fp8 cache on MI300X"),
        (HOPPER, "nvfp4", "bf16", PLAIN, "made-up 1 keeps no nvfp4 cache on H100"),
        (HOPPER, "bf16", "nvfp4", PLAIN, "made-up 1 runs no nvfp4 weights on H100"),
        (BLACKWELL, "nvfp4", "nvfp4", PLAIN, None),
        # others are unpacked to 16 bits, and of a card of NVIDIA's without a capability nothing is known
        (AMPERE, "q8_0", "q4_0", PLAIN, None),
        (AMPERE._replace(capability=None), "fp8", "fp8", PLAIN, None),
        # bf16 by name, and not where it is only what the model computes in, nor of weights
        (TURING, "bf16", "fp16", PLAIN, "made-up 1 keeps no bf16 cache on T4"),
        (TURING, "auto", "bf16", PLAIN, None),
        (TURING, "fp16", "bf16", PLAIN, None),
        # an engine's makers; of a card without a maker, and of one without a name, nothing is known
        (INSTINCT, "bf16", "bf16", ENGINE, "made-up is not known to run on MI300X"),
        (AMPERE, "bf16", "bf16", ENGINE, None),
        (INSTINCT._replace(vendor=""), "bf16", "bf16", ENGINE, None),
        (NAMELESS, "bf16", "nvfp4", ENGINE, None),
    ],
)
def test_what_a_card_cannot_do(of: Card, kv: str, weights: str, backend: Backend, why: str | None) -> None:
    """The format is named, and what of the model is in it."""
    asked: Precision = precision(model(), kv=kv, weights_name=weights)
    found = unsupported(of, asked, backend)
    assert found == why if why is None or backend is NO_ENGINE else str(found).startswith(why)


def test_values_alone_may_have_a_format() -> None:
    """Keys in bf16 beside values in fp8."""
    asked = precision(model())
    widths = asked.request.widths._replace(v=KV["fp8"])
    mixed = asked._replace(request=asked.request._replace(widths=widths))
    assert str(unsupported(AMPERE, mixed, PLAIN)).startswith("made-up 1 keeps no fp8 cache on A100")
    assert unsupported(AMPERE, mixed, NO_ENGINE) is None
