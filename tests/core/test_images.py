"""Tokens of images against what the processors of transformers 5.24 make of the same sizes, and what is refused."""

import json
from dataclasses import replace

import pytest

from kvcalc.cli.main import run
from kvcalc.core.images import IMAGE_RULES, Images, image_tokens, parse_images, range_of
from kvcalc.errors import KvcalcError
from kvcalc.library import loader

SIZES = (
    (640, 480),
    (1024, 1024),
    (1920, 1080),
    (3840, 2160),
    (100, 100),
    (448, 448),
    (896, 448),
    (2000, 300),
    (32, 32),
)
# Placeholders that transformers 5.24 puts for an image of these sizes (`get_number_of_image_patches` / merge^2 of
# Qwen2VLImageProcessor with the pixels of Qwen2.5-VL 7B and of Qwen3-VL; tiles of GotOcr2ImageProcessor with at most 12;
# `get_aspect_ratio_preserving_size` of Gemma 4; `get_resize_output_image_size` of Pixtral with 1,540 pixels and 28).
PLACEHOLDERS = {
    "qwen2_vl": (391, 1369, 2691, 10549, 16, 256, 512, 781, 4),
    "qwen3_vl": (300, 1024, 2040, 8160, 64, 196, 392, 558, 64),
    "internvl": tuple(256 * tiles for tiles in (13, 10, 9, 9, 1, 1, 3, 8, 1)),
    "gemma4": (266, 256, 264, 264, 256, 256, 253, 258, 256),
    "pixtral": (432, 1406, 1736, 1736, 20, 272, 528, 504, 6),
    "gemma3": (256,) * 9,  # `image_seq_length`
    "llava": (576,) * 9,  # (336 / 14)^2, the class token left out
}
# <|vision_start|> and <|vision_end|>; <img> and </img>; the boundaries of Gemma, for the third with two line ends.
AROUND = {"qwen2_vl": 2, "qwen3_vl": 2, "internvl": 2, "gemma4": 2, "gemma3": 4, "pixtral": 0, "llava": 0}


@pytest.mark.parametrize("rule", IMAGE_RULES)
def test_tokens_are_those_of_the_processor(rule: str) -> None:
    model = replace(loader.load("llama3-8b"), images=rule)
    found = [image_tokens(model, width, height) - AROUND[rule] for width, height in SIZES]
    assert tuple(found) == PLACEHOLDERS[rule]
    least, most = range_of(model)
    assert all(least <= tokens + AROUND[rule] <= most for tokens in found)


def test_images_come_on_top_of_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen3-VL 8B: 36 layers x 8 heads x 128 x 2 x 2 B = 147,456 B for each of 1,000 + 2 x (2,040 + 2) tokens."""
    asked = ["qwen3-vl-8b", "--context", "1000", "--images", "2:1920x1080"]
    assert run([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["request"]["images"], found["request"]["image_tokens"]) == ("2:1920x1080", 2_042)
    assert found["request"]["context"] == 5_084
    assert found["kv"]["bytes_total"] == 5_084 * 147_456
    assert run(["plan", *asked, "--users", "4", "--gpu", "h100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["request"]["context"] == 5_084


def test_images_are_part_of_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan of 200 tokens and an image of 1,026 is one of 1,226 tokens."""
    times = []
    for words in (["--input", "200", "--images", "1:1024x1024"], ["--input", "1226"]):
        asked = ["plan", "qwen3-vl-8b", "--gpu", "h100", "--rate", "2", "--output", "300", *words]
        assert run([*asked, "--get", "best.ttft_seconds", "--get", "best.max_batch"]) == 0
        times.append(capsys.readouterr().out)
    assert times[0] == times[1]


def test_a_size_that_nobody_says_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["qwen2.5-vl-7b", "--images", "2"]) == 0
    assert "1,024 x 1,024 pixels are 1,371 tokens, of other sizes 6 to 16,386" in capsys.readouterr().out.replace(
        "\n", " "
    )
    assert run(["gemma3-27b", "--images", "2"]) == 0  # the size does not matter
    assert "pixels" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "images"), [("2", Images(2)), ("2:1920x1080", Images(2, (1920, 1080))), (" 3:10X20", Images(3, (10, 20)))]
)
def test_words(text: str, images: Images) -> None:
    assert parse_images(text, "--images") == images


@pytest.mark.parametrize("text", ["", "0", "x", "2:1920", "2:x", "2:0x5", "2:99999999x1", "-1", "1.5"])
def test_words_that_are_none(text: str) -> None:
    with pytest.raises(KvcalcError, match="--images: expected"):
        parse_images(text, "--images")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["llama3-8b", "--images", "1"], "--images: Llama 3 8B takes no images"),
        (["minicpm-v-4", "--images", "1"], "makes of an image is not known here"),
        (["--images", "1", "--", "vllm", "serve", "Qwen/Qwen3-VL-8B-Instruct"], "--images: the length of a command"),
    ],
    ids=["no tower", "no rule", "a command"],
)
def test_what_takes_no_images(capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    assert run(argv) == 2
    assert said in capsys.readouterr().err
