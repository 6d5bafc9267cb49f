"""The options of `simulate`: what arrives, what serves it, and what is promised."""

from typing import Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.completion import of_words
from kvcalc.cli.jobs import JobsWords
from kvcalc.cli.lists import ChartWords
from kvcalc.cli.parameters import Words, option
from kvcalc.cli.plan_options import TargetWords

__all__ = ["ROUTERS", "RequestWords", "SimulateWords"]

_REQUESTS, _FLEET, _OPEN = "Requests", "Fleet", "Open loop"
_Text = str | None
ROUTERS = ("round-robin", "least-loaded", "prefix")


class RequestWords(Words):
    """What arrives."""

    time_unit: Annotated[_Text, option("--time-unit", metavar="s|ms", panel=_REQUESTS,
        help="What the times of the file are counted in, where it leaves that open.")] = None  # fmt: skip
    rate: Annotated[_Text, option("--rate", metavar="R", panel=_REQUESTS,
        help="Requests a second that are made up; with --input and --output in place of a file.")] = None  # fmt: skip
    input_: Annotated[_Text, option("--input", metavar="MEAN[/P95]", panel=_REQUESTS,
        help="Tokens of a prompt.")] = None  # fmt: skip
    output_: Annotated[_Text, option("--output", metavar="MEAN[/P95]", panel=_REQUESTS,
        help="Tokens that are generated.")] = None  # fmt: skip
    requests: Annotated[_Text, option("--requests", metavar="N", panel=_REQUESTS,
        help="How many are made up. Default: 1,000.")] = None  # fmt: skip
    seed: Annotated[_Text, option("--seed", metavar="N", panel=_REQUESTS,
        help="Which of them. Default: 0.")] = None  # fmt: skip
    turns: Annotated[_Text, option("--turns", metavar="MEAN[/P95]", panel=_REQUESTS,
        help="Turns of a session, each after all that was said; --rate is then of sessions.")] = None  # fmt: skip
    think: Annotated[_Text, option("--think", metavar="TIME[/P95]", panel=_REQUESTS,
        help="From the end of an answer to the next turn, with --turns: 30s or 30s/2m.")] = None  # fmt: skip
    seeds: Annotated[_Text, option("--seeds", metavar="N", panel=_REQUESTS,
        help="So many draws, by --seed and those that follow: how far times rest on chance.")] = None  # fmt: skip
    burstiness: Annotated[_Text, option("--burstiness", metavar="CV", panel=_REQUESTS,
        help="Variation of the gaps between arrivals: 1 is random, 0 all alike, above 1 bursts.")] = None  # fmt: skip
    rate_scale: Annotated[_Text, option("--rate-scale", metavar="F", panel=_REQUESTS,
        help="By how much faster all arrive.")] = None  # fmt: skip
    spread_ties: Annotated[bool, typer.Option("--spread-ties", rich_help_panel=_REQUESTS,
        help="Spread requests that arrive together up to the next ones.")] = False  # fmt: skip


class FleetWords(Words):
    """What serves it."""

    engine: o.Engine = None
    replicas: Annotated[_Text, option("--replicas", metavar="N|auto", panel=_FLEET,
        help="Equal replicas; auto: the fewest that meet the targets. Default: 1.")] = None  # fmt: skip
    router: Annotated[_Text, option("--router", metavar="|".join(ROUTERS), panel=_FLEET,
        complete=of_words(lambda: ROUTERS), help="Who takes a request. Default: in turn.")] = None  # fmt: skip
    prefill: Annotated[_Text, option("--prefill", metavar="N", panel=_FLEET,
        help="Replicas that compute prompts alone; with --decode.")] = None  # fmt: skip
    decode: Annotated[_Text, option("--decode", metavar="N", panel=_FLEET,
        help="Replicas that generate alone; with --prefill.")] = None  # fmt: skip
    link: Annotated[_Text, option("--link", metavar="LINK", panel=_FLEET,
        help="How a cache goes to a decode replica: 400gbit (default), 100gbit, pcie5 or a rate.")] = None  # fmt: skip
    prefix_cache: Annotated[bool, typer.Option("--prefix-cache", rich_help_panel=_FLEET,
        help="Keep blocks of prompts for later ones; the trace says which are equal.")] = False  # fmt: skip
    tier: Annotated[list[str] | None, option("--tier", metavar="NAME=SIZE@RATE", panel=_FLEET,
        help="Memory behind a replica's pool: cpu=200GiB@50GB/s; again for the next.")] = None  # fmt: skip
    day: Annotated[_Text, option("--day", metavar="FILE", panel=_FLEET,
        help="Replicas over a day: columns hour and rate; one replica's highest rate is found.")] = None  # fmt: skip
    bins: Annotated[_Text, option("--bin", metavar="TIME", panel=_FLEET,
        help="A day from the requests' own times in place of --day, in parts of so long: 15m.")] = None  # fmt: skip
    price: Annotated[list[str] | None, option("--price", metavar="NAME=N", panel=_FLEET,
        help="An hour of one GPU, for what a day costs: h100=2.49.")] = None  # fmt: skip
    start_time: Annotated[_Text, option("--start-time", metavar="TIME", panel=_FLEET,
        help="Until a replica that starts is ready, with --day. Default: 0s.")] = None  # fmt: skip
    capacity: Annotated[_Text, option("--capacity", metavar="TOKENS|SIZE,...", panel=_FLEET,
        help="Hit rates of prefix caches of these sizes: 1m,3m or 100GiB.")] = None  # fmt: skip


class OpenWords(Words):
    """A fixed time a step."""

    step: Annotated[_Text, option("--step", metavar="TIME", panel=_OPEN,
        help="A fixed time a token, such as 30ms; with --unlimited.")] = None  # fmt: skip
    unlimited: Annotated[bool, typer.Option("--unlimited", rich_help_panel=_OPEN,
        help="No limit of memory: what the requests would hold.")] = False  # fmt: skip


class SimulateWords(
    RequestWords, FleetWords, TargetWords, OpenWords, o.CacheWords, o.BlockWords, o.RunWords, o.CompanyWords,
    o.SplitWords, ChartWords, o.OutputWords, JobsWords, o.AssumeDenseWords,
):  # fmt: skip
    """What `simulate` takes."""

    csv_requests: Annotated[_Text, option("--csv-requests", metavar="FILE", panel="Output",
        help="Write a row for each request into a file, too.")] = None  # fmt: skip
