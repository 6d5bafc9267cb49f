"""What llama.cpp's flags put where, in the verdict of a size."""

import json
from typing import Any

import pytest

from kvcalc.cli.main import run

MODEL = ("llama3-8b", "--gpu", "rtx4090", "--weights", "8GiB", "--engine", "llama.cpp", "--json", "--")
SHORT = ("-c", "8192", "-np", "1")


def devices(capsys: pytest.CaptureFixture[str], *flags: str, model: tuple[str, ...] = MODEL) -> Any:
    status = run([*model, *SHORT, *flags])
    document = json.loads(capsys.readouterr().out)
    return status, document, document.get("devices")


def test_half_of_the_layers(capsys: pytest.CaptureFixture[str]) -> None:
    """-ngl 17 of 33 places: the output and the last 16 of 32 layers, so half of 8,192 x 131,072 B of cache."""
    status, document, (device, host) = devices(capsys, "-ngl", "17")
    assert (status, device["layers"], host["layers"]) == (0, 17, 16)
    assert device["cache_bytes"] == host["cache_bytes"] == 8192 * 131072 // 2
    # the table of 128,256 x 4,096 embeddings is on the host, one as large behind the layers on the device
    assert abs(device["weights_bytes"] - host["weights_bytes"]) < 2**20
    assert not any("-ngl" in warning for warning in document["warnings"])


def test_equal_devices_have_equal_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """17 places and 15 layers with the output (llama.cpp's logs of 2 cards: caches of 544 and 480 MiB at 8,192)."""
    _, _, (first, second, _) = devices(capsys, "-ts", "1,1")
    assert [first["cache_bytes"] >> 20, second["cache_bytes"] >> 20] == [544, 480]


def test_a_device_without_room_decides(capsys: pytest.CaptureFixture[str]) -> None:
    """60 GiB of weights: not on a card of 24 GB, but with 8 of 33 places there."""
    model = (*MODEL[:4], "60GiB", *MODEL[5:])
    status, document, found = devices(capsys, "-ngl", "8", model=model)
    assert (status, document["fit"]["fits"], found[0]["fits"]) == (0, True, True)
    status, document, found = devices(capsys, "-ngl", "20", model=model)
    assert (status, document["fit"]["fits"], found[0]["fits"]) == (1, False, False)


def test_nothing_is_placed_without_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """Then the memory of one GPU says it all."""
    assert devices(capsys)[2] is None
