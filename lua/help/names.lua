-- What the literature and other libraries call what has another name here: `?gla` shows the page of the update "gated",
-- and says so first.
local causeway = ...

-- Small letters, with "_" for blanks and hyphens: lua/lib/help.lua looks names up so.
local aliases = {}
causeway._aliases = aliases

--- Names that lead to a page; `how` says what is to be known on the way.
local function called(page, names, how)
  for name in names:gmatch("%S+") do
    assert(not aliases[name], name)
    aliases[name] = { page = page, how = how }
  end
end

-- Linear attention

called("linear_attention", "linear_transformer linear_transformers linear_attn linearattention lin_attn "
  .. "fused_recurrent chunk_linear_attn flash_linear_attention fla")
called("causal_linear_attention", "causal_attention linear_causal_attention causallinearattention")
called("gated", "gla gated_linear_attention gatedlinearattention chunk_gla decay_gate forget_gate",
  "A gate per key channel is log_decay [b, h, N, d_k], one a head log_decay [b, h, N].")
called("gated", "mamba2 mamba_2 mamba ssd state_space_duality ssm simple_gla",
  "Mamba-2's recurrence is this one with a gate a head: q = C, k = B, v = Δ x and log_decay = Δ A, [b, h, N]. "
  .. "Convolution, skip and output gate are layers around it.")
called("gated", "rwkv rwkv5 rwkv6 rwkv_6",
  "The state of RWKV-5 and 6 is this one with a gate per key channel. Their output reads it before the token is "
  .. "added, with a bonus u for that token: write these two around the call.")
called("gated", "hgrn hgrn2", "HGRN2 is this one with a forget gate f per key channel: log_decay = log(f), k = 1 - f.")
called("delta", "deltanet delta_net delta_rule chunk_delta_rule fwp fast_weights fast_weight_programmer "
  .. "fast_weight_programmers")
called("gated_delta", "gated_deltanet gated_delta_net gateddeltanet gated_delta_rule gated_delta_networks gdn "
  .. "chunk_gated_delta_rule")
called("gated_delta", "kda kimi_delta_attention kimi_linear chunk_kda",
  "Kimi Delta Attention is this one with a gate per key channel: log_decay [b, h, N, d_k].")
called("chunkwise", "wy wy_form wy_representation chunk_parallel chunkwise_parallel chunkwise_form")
called("recurrent", "fused_recurrent_form recurrent_form")
called("parallel", "parallel_form")
called("linear_attention_step", "recurrent_step decode_step generation single_step")
called("decay", "gamma γ decay_rate decay_factor exponential_decay")
called("log_decay", "gk log_gate log_forget_gate", "Of a rate γ it is log(γ).")
called("retnet_decay", "retnet retention multi_scale_retention multiscaleretention chunk_retention retentive_network",
  "RetNet's retention is causal_linear_attention with decay = retnet_decay(h).")
called("alibi_slopes", "alibi", "As decays they are exp(-alibi_slopes(h)).")
called("lightning-attention-2", "lightning lightning_attention lightningattention lightning_attn transnormer "
  .. "transnormerllm")
called("causal-dot-product", "fast_transformers causal_product causal_dot_product_cuda")
called("fleet", "fleetattention fleet_attention")
called("leet", "leetdecoding leet_decoding")
called("recursion", "recursive_attention")

called("scan", "associative_scan parallel_scan linear_recurrence s4 s4d s5 lru")

-- Factorisations

called("favor+", "performer performers favor favorplus positive_random_features positive_orthogonal_random_features")
called("rfa", "random_feature_attention random_fourier_features rff random_features")
called("nystrom", "nystromformer nyströmformer nyström landmarks landmark_attention")
called("transformer-vq", "vq vector_quantization vq_attention")
called("hyper", "hyperattention hyper_attention lsh lsh_attention")
called("taylor", "based taylor_attention rebased")
called("rsvd", "randomized_svd randomised_svd svd_lowrank")
called("svd", "truncated_svd eckart_young linalg_svd lowrank_svd")
called("lowrank", "kernel_attention feature_map feature_maps low_rank low_rank_attention factorisation factorization")

-- Softmax attention and decoding

called("softmax_attention", "attention flash_attention flashattention flash_attention_2 flash_attn flash_attn_func fa2 "
  .. "fa3 scaled_dot_product_attention sdpa dot_product_attention self_attention multi_head_attention "
  .. "multiheadattention multihead_attention mha gqa mqa grouped_query_attention memory_efficient_attention xformers "
  .. "softmaxattention")
called("flash", "online_softmax safe_softmax")
called("tree_decode", "tree_attention flash_decoding flash_decode decode decoding sequence_parallel")
called("ring_decode", "ring_attention ringattention")
called("layout", "bhnd bnhd bthd bshd head_first seq_first batch_first")
called("causal", "is_causal attn_mask causal_mask")

-- Tensors: NumPy, PyTorch, MATLAB, Julia

called("*", "matmul mm bmm mul_matrix @ gemm matrix_product matrix_multiplication")
called("times", "multiply mul hadamard elementwise_product .* ⊙")
called("plus", "add")
called("pow", "power ** ^")
called("range", "linspace arange colon logspace",
  "linspace(a, b, n) is range(a, b, {length = n}); arange(n) is range(0, n - 1).")
called("tensor", "array asarray ndarray from_numpy as_tensor matrix vector index indexing slice slicing")
called("size", "shape")
called("length", "numel nelem len")
called("ndims", "ndim rank_of_tensor")
called("eltype", "element_type")
called("f64", "double float64")
called("f32", "astype float float32 to_dtype",
  "astype(x, type) is f64(x), f32(x), f16(x) or bf16(x).")
called("f16", "half float16")
called("bf16", "bfloat16")
called("cat", "concat concatenate vcat hcat vstack hstack stack")
called("t", "transpose mt adjoint")
called("permutedims", "permute swapaxes moveaxis rearrange")
called("reshape", "view flatten ravel unsqueeze squeeze expand_dims")
called("fill", "full full_like")
called("similar", "empty empty_like zeros_like ones_like",
  "zeros_like(A) is zeros(size(A)).")
called("copy", "clone deepcopy")
called("totable", "tolist to_list collect")
called("randn", "normal gaussian standard_normal random_normal")
called("rand", "uniform random random_sample")
called("randperm", "permutation shuffle")
called("seed", "manual_seed srand set_seed random_seed default_rng")
called("maximum", "amax")
called("minimum", "amin")
called("mean", "average avg")
called("std", "var variance stdev", "The variance is std(A)^2.")
called("quantile", "percentile")
called("cumsum", "cumulative_sum prefix_sum")
called("abs", "absolute fabs")
called("clamp", "clip")
called("eq", "equal isequal")
called("ne", "not_equal")
called("lt", "less")
called("le", "less_equal")
called("gt", "greater")
called("ge", "greater_equal")
called("isfinite", "isinf")
called("isnan", "nan")
called("relative_error", "allclose isclose isapprox assert_allclose assert_close",
  "It is a number to compare with a tolerance: relative_error(A, B) < 1e-5.")
called("norm", "frobenius frobenius_norm vector_norm")
called("opnorm", "spectral_norm operator_norm matrix_norm")
called("eigvals", "eig eigh eigvalsh eigen")
called("inv", "inverse pinv")
called("tr", "trace")
called("dot", "inner vdot")
called("cholesky", "chol")
called("sigmoid", "logistic expit")
called("sigmoid", "silu swish", "silu(x) is times(x, sigmoid(x)).")
called("mean", "rmsnorm rms_norm", "RMS normalisation over the last of 4 dimensions is x / sqrt(mean(pow(x, 2), 4)).")
called("lt", "where", "where(A < B, x, y) is times(m, x) + times(1 - m, y) with m = lt(A, B).")
called("map", "vectorize broadcast apply")

-- Learning

called("grad", "autograd backward backprop backpropagation value_and_grad vjp requires_grad")
called("adam", "adamw optimizer optim learning_rate")
called("rank", "num_features n_features nb_features")

-- Measuring, plots, files, the shell

called("btime", "timeit %timeit benchmark @benchmark @belapsed tic toc")
called("clock", "perf_counter monotonic time_ns")
called("opcount", "flops flop_count count_flops")
called("cost", "complexity")
called("threads", "num_threads set_num_threads nthreads nproc")
called("machine", "versioninfo cpuinfo lscpu")
called("progress", "tqdm progress_bar")
called("sweep", "grid_search gridsearch parameter_sweep")
called("plot", "plt lineplot figure loglog semilogy semilogx scatter errorbar savefig subplots subplot matplotlib")
called("heatmap", "imshow matshow pcolor pcolormesh spy")
called("text_table", "dataframe pandas tabulate pretty_table")
called("load", "read_csv loadtxt load_file safe_open", "The extension says what comes back.")
called("save", "to_csv savetxt save_file", "The extension says what the value has to be.")
called("json_encode", "dumps")
called("json_decode", "loads")
called("mkpath", "mkdir makedirs")
called("display", "show repr println disp")
called("gpu", "cuda to_device to", "x:to(type) is f32(x), f16(x) ...")
called("has_gpu", "is_available")
called("help", "man doc")
called("tensor", "numpy np torch",
  "Most functions have the names that they have there; ?np.linspace, ?torch.cat lead to the others.")
called("exit", "bye")

-- Language models

called("model", "llm language_model gguf llama_cpp huggingface hugging_face from_pretrained automodel smollm2 "
  .. "load_model logits layers")
called("tokens", "tokenizer tokenize tokenise encode_text bpe byte_pair_encoding detokenize")
called("generate", "chat completion complete_text apply_chat_template chat_template top_k top_p temperature")
called("bits_per_byte", "perplexity predict cross_entropy_of_text next_token_accuracy")
called("score", "loglikelihood log_likelihood multiple_choice")
called("capture", "hidden_states output_hidden_states output_attentions register_forward_hook forward_hook")
called("replace_attention", "swap_attention monkey_patch attention_errors m:attention m:reset")
