"""Published files that are not read, each with a word of the refusal that says why."""

__all__ = ["UNREAD_FILES"]

UNREAD_FILES = {
    "Alibaba-NLP__gte-Qwen2-7B-instruct.json": "is_causal",  # an embedding model, which reads in both directions
    "BAAI__bge-large-en.json": "only encodes",
    "BAAI__bge-m3.json": "only encodes",
    "Zyphra__ZAYA1-8B.json": "convolution states",
    "baichuan-inc__Baichuan-M1-14B-Instruct.json": "baichuan_m1",
    "deepseek-ai__DeepSeek-V4.1-Flash.json": "deepseek_v41_text",
    "microsoft__Phi-4-mini-flash-reasoning.json": "phi4flash",
    "nvidia__LocateAnything.json": "block_size",
    "reduced__ipex-yuan.json": "local filter",
}
