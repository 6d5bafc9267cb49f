"""The lines in which llama.cpp reports its caches, as builds from b6868 on print them.

From the LLAMA_LOG_INFO calls in the constructors of src/llama-kv-cache*.cpp and src/llama-memory-recurrent.cpp
(llama.cpp 0c1e57098).
"""

from collections.abc import Iterator, Sequence
from struct import pack, unpack

from kvcalc.core.dtypes import DType
from kvcalc.engines.llama_cpp.caches import Kept, compressed_cells
from kvcalc.engines.llama_cpp.context import Context

__all__ = ["log_lines"]

_MIB = 1 << 20
_TYPES = {"fp32": "f32", "fp16": "f16"}  # our names and ggml's, where they differ
_NOTHING = (0, 0, 0, 0)

_Pools = dict[str, tuple[int, ...]]  # layers, and bytes of K and V, or of R, S and P


def log_lines(kept: Sequence[Kept], context: Context, layers: int) -> tuple[str, ...]:
    """A line for each buffer, all on the CPU, and one for each cache. `layers`: those of the whole model."""
    if not context.version.log:
        return ()
    pools: _Pools = {}
    for each in kept:
        for name, sizes in each.pools:
            before = pools.get(name, _NOTHING)
            pools[name] = (before[0] + each.charge.copies, *map(sum, zip(before[1:], (*sizes, 0), strict=False)))
    if context.arch == "dots3note":
        return tuple(_dots3(pools, context))
    lines = [*_attention(pools, context), *_compressor_states(pools, context)]
    if "recurrent" in pools:
        lines += _recurrent(pools["recurrent"], context, layers)
    if "index" in pools:
        msa = "msa" if context.arch == "minimax-m3" else "dsa"
        owner = "llama_memory_hybrid_idx" if "recurrent" in pools else f"llama_kv_cache_{msa}"
        if "recurrent" not in pools:
            lines.insert(0, f"{owner}: creating main KV cache, size = {context.cells} cells")
        lines.append(f"{owner}: creating indexer KV cache, size = {context.cells} cells")
        lines += _kv(pools["index"], context, context.cells)
    return tuple(lines)


def _attention(pools: _Pools, context: Context) -> Iterator[str]:
    if "swa" in pools:
        swa_cells = context.window[1]
        yield f"llama_kv_cache_iswa: creating non-SWA KV cache, size = {context.cells} cells"
        yield from _kv(pools.get("base", _NOTHING), context, context.cells)
        yield f"llama_kv_cache_iswa: creating     SWA KV cache, size = {swa_cells} cells"
        yield from _kv(pools["swa"], context, swa_cells)
    elif "base" in pools:
        yield from _kv(pools["base"], context, context.cells)
    for name, title, ratio in (
        ("csa", "CSA compressed", 4),
        ("hca", "HCA compressed", 128),
        ("lid", "lightning-indexer", 4),
    ):
        if name in pools:
            needed, cells = compressed_cells(context, ratio)
            yield f"llama_kv_cache_dsv4: creating DSV4 {title} KV cache, size = {needed} cells"
            yield from _kv(pools[name], context, cells)


def _dots3(pools: _Pools, context: Context) -> Iterator[str]:
    """Full layers with index keys, and then the sliding ones (llama-kv-cache-dsa-iswa.cpp)."""
    yield f"llama_kv_cache_dsa_iswa: creating DSA KV cache, size = {context.cells} cells"
    for name, title in (("base", "main"), ("index", "indexer")):
        yield f"llama_kv_cache_dsa: creating {title} KV cache, size = {context.cells} cells"
        yield from _kv(pools.get(name, _NOTHING), context, context.cells)
    yield f"llama_kv_cache_dsa_iswa: creating SWA KV cache, size = {context.window[1]} cells"
    yield from _kv(pools.get("swa", _NOTHING), context, context.window[1])


def _compressor_states(pools: _Pools, context: Context) -> Iterator[str]:
    """Two tensors of f32 for each of these (llama_dsv4_comp_state in llama-kv-cache-dsv4.cpp)."""
    for name, ratio, rows in (("csa", 4, 8), ("hca", 128, 128), ("lid", 4, 8)):
        if f"{name} state" in pools:
            layers, size, *_ = pools[f"{name} state"]
            width = size // (layers * context.streams * context.states * rows * 2 * 4)
            yield f"llama_dsv4_comp_state:        CPU DSV4 {name} state buffer size = {size / _MIB:8.2f} MiB"
            shape = f"state = {rows} x {width}, streams = {context.streams}, rs_seq = {context.states - 1}"
            yield (
                f"llama_dsv4_comp_state: {name} ratio = {ratio}, {shape}, layers = {layers}, "
                f"size = {size / _MIB:7.2f} MiB"
            )


def _kv(pool: tuple[int, ...], context: Context, cells: int) -> Iterator[str]:
    layers, k, v, _ = pool
    if k + v:
        yield f"llama_kv_cache:        CPU KV buffer size = {(k + v) / _MIB:8.2f} MiB"
    seqs = f"{context.sequences:2}/{context.streams} seqs"
    types = f"K ({_type(context.k)}): {_mib(k)} MiB, V ({_type(context.v)}): {_mib(v)} MiB"
    yield f"llama_kv_cache: size = {_mib(k + v)} MiB ({cells:6} cells, {layers:3} layers, {seqs}), {types}"


def _recurrent(pool: tuple[int, ...], context: Context, layers: int) -> Iterator[str]:
    _, r, s, p = pool
    yield f"llama_memory_recurrent:        CPU RS buffer size = {(r + s + p) / _MIB:8.2f} MiB"
    seqs = f"{context.sequences:2} seqs" + (f" {context.states - 1:2} rs_seq" if context.version.log > 1 else "")
    parts = f"R (f32): {_mib(r)} MiB, S (f32): {_mib(s)} MiB"
    parts += f", P (f32): {_mib(p)} MiB" if context.version.log > 2 else ""
    size = f"{_mib(r + s + p)} MiB ({context.sequences:6} cells, {layers:3} layers, {seqs})"
    yield f"llama_memory_recurrent: size = {size}, {parts}"


def _type(dtype: DType) -> str:
    return _TYPES.get(dtype.name, dtype.name)


def _mib(size: int) -> str:
    """%7.2f of a float32, which cannot hold every number of bytes."""
    single: float = unpack("f", pack("f", size))[0]
    return f"{single / _MIB:7.2f}"
