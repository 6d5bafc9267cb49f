"""Names of llama.cpp's flags that cannot change the cache, by whether a word follows.

From common/arg.cpp, llama.cpp 0c1e57098, and what older copies had more (llama-cpp-python 0.3.2 to 0.3.26).
"""

__all__ = ["SWITCHES", "WORDS"]

_WORDS = """
    -a -bf -C -Cb -Cbd -Cd -cd -cms -co -cpent -Cr -cram -Crb -Crbd -Crd -ctxcp -decay-epochs -dev -devd -dr -dt
    -epochs -f -fitc -fitp -gan -gaw -hffv -hfrv -hft -hfv -j -jf -l -lcd -lcs -ld -lm -lr -lr-min -lv -lzm -mm
    -mmdev -mmu -mv -n -ncffn -ncmoed -ngld -npl -npp -ns -ntg -o -ofreq -opt -otd -p -ps -ptc -r -rea -s -sps -sys
    -sysf -t -tb -tbd -td -to -val-split -wd --adaptive-decay --adaptive-target --alias --api-key --api-key-file
    --api-prefix --attention --audio --binary-file --cache-ram --cache-reuse --chat-template --chat-template-file
    --chat-template-kwargs --checkpoint-every-n-tokens --checkpoint-min-step --chunk --chunk-separator --chunk-size
    --chunks --cls-separator --color --context-file --control-vector --control-vector-layer-range
    --control-vector-scaled --cors-headers --cors-methods --cors-origins --cpu-mask --cpu-mask-batch
    --cpu-mask-batch-draft --cpu-mask-draft --cpu-range --cpu-range-batch --cpu-range-batch-draft --cpu-range-draft
    --cpu-strict --cpu-strict-batch --cpu-strict-batch-draft --cpu-strict-draft --ctx-checkpoints --ctx-size-draft
    --defrag-thold --device --device-draft --diffusion-add-gumbel-noise --diffusion-alg-temp --diffusion-algorithm
    --diffusion-block-length --diffusion-cfg-scale --diffusion-eps --diffusion-steps --docker-repo --draft-min
    --draft-n-min --draft-p-min --draft-p-split --dry-allowed-length --dry-base --dry-multiplier
    --dry-penalty-last-n --dry-sequence-breaker --dynatemp-exp --dynatemp-range --embd-normalize
    --embd-output-format --embd-separator --epochs --file --fit-ctx --fit-print --frequency-penalty --from-chunk
    --gpu-layers-draft --grammar --grammar-file --grp-attn-n --grp-attn-w --hellaswag-tasks --hf-file-v --hf-repo-v
    --hf-token --host --image --image-max-tokens --image-min-tokens --in-file --in-prefix --in-suffix --json-schema
    --json-schema-file --junk --keep --kl-divergence-base --lazy-mode --learning-rate --learning-rate-decay-epochs
    --learning-rate-min --load-mode --log-colors --log-file --log-prompts-dir --log-verbosity --logdir --logit-bias
    --logits-output-dir --lookup-cache-dynamic --lookup-cache-static --lora --lora-scaled --mcp-servers-config
    --mcp-servers-json --media-path --method --min-p --mirostat --mirostat-ent --mirostat-lr --mmproj
    --mmproj-device --mmproj-url --model-vocoder --models-dir --models-max --models-preset --mtmd-batch-max-tokens
    --multiple-choice-tasks --n-cpu-ffn --n-cpu-moe-draft --n-gpu-layers-draft --n-predict --negative-file --numa
    --optimizer --output --output-file --output-format --output-frequency --override-tensor-draft --p-split --path
    --pca-batch --pca-iter --poll --poll-batch --poll-batch-draft --poll-draft --pooling --port --pos
    --positive-file --ppl-output-type --ppl-stride --predict --presence-penalty --print-token-count --prio
    --prio-batch --prio-batch-draft --prio-draft --prompt --prompt-cache --reasoning --reasoning-budget
    --reasoning-budget-message --reasoning-effort --reasoning-format --repeat-last-n --repeat-penalty
    --reverse-prompt --rope-freq-base --rpc --sampler-seq --samplers --sampling-seq --save-all-logits
    --save-frequency --seed --sequences --server-base --sleep-idle-seconds --slot-prompt-similarity --slot-save-path
    --spec-draft-cpu-mask --spec-draft-cpu-mask-batch --spec-draft-cpu-range --spec-draft-cpu-range-batch
    --spec-draft-cpu-strict --spec-draft-cpu-strict-batch --spec-draft-device --spec-draft-n-cpu-moe
    --spec-draft-n-min --spec-draft-ncmoe --spec-draft-ngl --spec-draft-override-tensor --spec-draft-p-min
    --spec-draft-p-split --spec-draft-poll --spec-draft-poll-batch --spec-draft-prio --spec-draft-prio-batch
    --spec-draft-threads --spec-draft-threads-batch --spec-ngram-map-k-min-hits --spec-ngram-map-k-size-m
    --spec-ngram-map-k-size-n --spec-ngram-map-k4v-min-hits --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-size-n
    --spec-ngram-min-hits --spec-ngram-mod-n-match --spec-ngram-mod-n-max --spec-ngram-mod-n-min
    --spec-ngram-simple-min-hits --spec-ngram-simple-size-m --spec-ngram-simple-size-n --spec-ngram-size-m
    --spec-ngram-size-n --spec-replace --spec-synth-len --spec-synth-rates --sse-ping-interval --ssl-cert-file
    --ssl-key-file --swa-checkpoints --system-prompt --system-prompt-file --tags --temp --temperature
    --tensor-filter --threads --threads-batch --threads-batch-draft --threads-draft --threads-http --timeout --tools
    --tools-runtime --top-k --top-n-sigma --top-nsigma --top-p --tts-lang --tts-speaker-file --typical --typical-p
    --ui-config --ui-config-file --val-split --verbosity --video --video-ffmpeg-dir --video-fps
    --video-timestamp-interval --webui-config --webui-config-file --weight-decay --winogrande-tasks
    --xtc-probability --xtc-threshold --yarn-attn-factor --yarn-beta-fast --yarn-beta-slow --yarn-ext-factor
    --yarn-orig-ctx
"""
WORDS = frozenset(_WORDS.split())

_SWITCHES = """
    -ag -bs -cb -cl -cmoed -cnv -dio -dkvc -e -h -i -if -mli -ndio -no-ag -no-cnv -nocb -nr -pps -sp -st -tgs -v
    --agent --all-logits --backend-sampling --cache-idle-slots --cache-list --cache-prompt --check --check-tensors
    --completion-bash --cont-batching --context-shift --conversation --cors-credentials --cpu-moe-draft --dflash
    --diffusion-visual --direct-io --display-prompt --dump-kv-cache --eagle3 --embd-bge-small-en-default
    --embd-e5-small-en-default --embd-gte-small-default --embedding --embeddings --escape --hellaswag --help --ids
    --ignore-eos --in-prefix-bos --interactive --interactive-first --jinja --kl-divergence --license --list-devices
    --log-disable --log-jsonl --log-prefix --log-timestamps --log-verbose --lora-init-without-apply --metrics
    --mlock --mmap --mmproj-auto --mmproj-offload --models-autoload --mtp --multiline-input --multiple-choice
    --no-agent --no-bos --no-cache-idle-slots --no-cache-prompt --no-cont-batching --no-context-shift
    --no-conversation --no-cors-credentials --no-direct-io --no-display-prompt --no-escape --no-host --no-jinja
    --no-log-jsonl --no-log-prefix --no-log-timestamps --no-mmap --no-mmproj --no-mmproj-auto --no-mmproj-offload
    --no-models-autoload --no-parse-special --no-perf --no-ppl --no-prefill-assistant --no-reasoning-preserve
    --no-repack --no-show-timings --no-skip-chat-parsing --no-slots --no-spec-draft-backend-sampling --no-ui
    --no-ui-mcp-proxy --no-warmup --no-webui --no-webui-mcp-proxy --offline --parse-special --penalize-nl --perf
    --perplexity --ppl --prefill-assistant --process-output --prompt-cache-all --prompt-cache-ro --props
    --reasoning-preserve --repack --rerank --reranking --reuse-port --save-logits --show-count --show-statistics
    --show-timings --simple-io --single-turn --skip-chat-parsing --slots --spec-default
    --spec-draft-backend-sampling --spec-draft-cpu-moe --special --spm-infill --stdin --tts-oute-default
    --tts-use-guide-tokens --ui --ui-mcp-proxy --usage --verbose --verbose-prompt --version --warmup --webui
    --webui-mcp-proxy --winogrande
"""
SWITCHES = frozenset(_SWITCHES.split())
