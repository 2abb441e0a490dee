-- What the literature and other libraries call what has another name here: `?gla` shows the page of the update "gated",
-- and says so first.
local causeway = ...

-- name -> {page =, how =, near =, line =, said =}, in small letters, with "_" for blanks and hyphens (lua/lib/help.lua
-- looks names up so): the page it leads to, nil where nothing here comes near; what is to be known on the way; whether
-- the page is only near; the line that has it; and whether `how` alone says it, where a message has room for one
-- sentence.
local elsewhere = {}
causeway._elsewhere = elsewhere

local function add(names, entry)
  for name in names:gmatch("%S+") do
    assert(not elsewhere[name], name)
    local own = {}
    for key, value in pairs(entry) do own[key] = value end
    elsewhere[name] = own
  end
end

--- Names of what is not here; `nearest` says what comes nearest, and how far it goes.
local function not_here(names, nearest) add(names, { how = nearest }) end

--- Names that lead to a page; `how` says what is to be known on the way.
local function called(page, names, how) add(names, { page = page, how = how }) end

--- Names of what is not quite here: the page of what comes nearest, and how it is had by that.
local function near(page, names, how) add(names, { page = page, how = how, near = true }) end

--- What anybody asks for, which no page has.
local function told(names, how) add(names, { how = how, here = true }) end

--- Names of what is a line of code here, which the sentence `how` says; `page` is that of what the line is made of.
local function written(names, how, page) add(names, { page = page, how = how, said = true }) end

-- Names that only count beside options that have another name: too short, or of too many meanings, for a page.
local short_names = {}
causeway._short_names = short_names

local function short(option, names)
  for name in names:gmatch("%S+") do
    short_names[name] = short_names[name] or {}
    table.insert(short_names[name], option)
  end
end

-- Rules of the literature that are a call here, each with its formula and source. In the line q, k, v are the tensors
-- of the call, [b, h, N, d], and what else it names is said beside it; `lines` has them for the tests.
local lines = {}
causeway._rule_lines = lines

local function line_of(names, text)
  for name in names:gmatch("%S+") do elsewhere[name].line = text end
  lines[names:match("%S+")] = text
end

-- Linear attention

called("linear_attention", "linear_transformer linear_transformers linear_attn linearattention lin_attn "
  .. "fused_recurrent chunk_linear_attn flash_linear_attention fla")
called("linear_attention", "output_final_state return_final_state initial_state",
  "The state after the last token is the second result, and state = S starts from one; causal_linear_attention returns "
  .. "it with return_state = true.")
called("causal_linear_attention", "causal_attention linear_causal_attention causallinearattention")
called("gated", "gla gated_linear_attention gatedlinearattention chunk_gla forget_gate",
  "S ← diag(e^g) S + k vᵀ, o = Sᵀ q (Yang et al. 2023). A gate per key channel is log_decay [b, h, N, d_k], one a head "
  .. "log_decay [b, h, N]. The scale is 1 here; flash-linear-attention has 1/sqrt(d_k): scale = 1 / math.sqrt(d_k).")
line_of("gla gated_linear_attention chunk_gla", 'linear_attention(q, k, v, {update = "gated", log_decay = g})')
called("gated", "mamba2 mamba_2 mamba ssd state_space_duality ssm simple_gla "
  .. "mamba_chunk_scan_combined selective_state_update",
  "Mamba-2's recurrence is this one with a gate a head: q = C, k = B, v = Δ x and log_decay = Δ A, [b, h, N]. "
  .. "Convolution, skip and output gate are layers around it. Mamba (1) has a gate for each channel and state: a step "
  .. "of scan. S ← e^(Δ A) S + B (Δ x)ᵀ, y = Sᵀ C (Dao, Gu 2024), with dt = Δ [b, h, N] and A [h, 1] below 0:")
line_of("mamba2 mamba_2 mamba ssd state_space_duality ssm simple_gla "
  .. "mamba_chunk_scan_combined selective_state_update",
  'linear_attention(C, B, times(x, dt:reshape(b, h, N, 1)),\n  {update = "gated", log_decay = times(dt, A)})')
near("gated", "samba jamba zamba bamba falcon_h1 falcon_mamba nemotron nemotron_h nemotron_3 granite granite_4",
  "A model of Mamba layers among others; here is the recurrence of Mamba-2, no model: q = C, k = B, v = Δ x, "
  .. "log_decay = Δ A.")
near("gated_delta", "qwen qwen3 qwen3_next qwen_3_next",
  "Three of four layers of Qwen3-Next are Gated DeltaNet, which is this one; ?gdn has its line, ?gated_attention the "
  .. "fourth.")
near("gated", "xlstm mlstm",
  "The mLSTM's matrix memory is this one with k scaled by the input gate and a column of ones behind v, whose output, "
  .. "at least 1 in size, divides the others.")
near("gated", "longhorn",
  "Longhorn with a β a head is this one with a gate per key channel: e = β / (1 + β |k|²), log_decay = "
  .. "log(1 - e k²), and k scaled by e. With a β for each value it is a step of scan.")
near("gated", "rwkv5 rwkv_5 rwkv6 rwkv_6 eagle finch wkv",
  "The state of RWKV-5 and 6 is this one with a gate per key channel. Their output reads it before the token is "
  .. "added, with a bonus u for that token: write these two around the call.")
near("gated", "hgrn2", "HGRN2 is this one with a forget gate f per key channel: log_decay = log(f), k = 1 - f.")
called("delta", "deltanet delta_net delta_rule chunk_delta_rule fwp fast_weights fast_weight_programmer "
  .. "fast_weight_programmers",
  "S ← S + β k (v - Sᵀ k)ᵀ, o = Sᵀ q, with keys of length one (Schlag et al. 2021; Yang et al. 2024).")
line_of("deltanet delta_net delta_rule chunk_delta_rule",
  'linear_attention(l2norm(q), l2norm(k), v, {update = "delta", beta = beta})')
called("gated_delta", "gated_deltanet gated_delta_net gateddeltanet gated_delta_rule gated_delta_networks gdn "
  .. "chunk_gated_delta_rule",
  "S ← e^g S, S ← S + β k (v - Sᵀ k)ᵀ, o = Sᵀ q (Yang, Kautz, Hatamizadeh 2025), with the gate of a [b, h, N], A_log "
  .. "[h] and t [h] and β of b_t [b, h, N]:")
line_of("gdn gated_deltanet gated_delta_net gateddeltanet gated_delta_rule gated_delta_networks "
  .. "chunk_gated_delta_rule",
  'linear_attention(l2norm(q), l2norm(k), v, {update = "gated_delta",\n'
  .. '  log_decay = decay_gate(a, A_log, {dt_bias = t}), beta = sigmoid(b_t)})')
near("delta", "ttt ttt_linear test_time_training",
  "TTT-Linear with a step of gradient descent a token, and without its layer norm, is the delta rule: beta is its "
  .. "learning rate times 2. Its mini-batches and TTT-MLP are not here.")
called("gated_delta", "kda kimi kimi_delta_attention kimi_linear chunk_kda",
  "Kimi Delta Attention is this one with a gate per key channel: log_decay [b, h, N, d_k] (Kimi Linear, 2025), made of "
  .. "f [b, h, N, d_k], A_log [h] and t [h, d_k].")
line_of("kda kimi kimi_delta_attention kimi_linear chunk_kda",
  'linear_attention(l2norm(q), l2norm(k), v, {update = "gated_delta",\n'
  .. '  log_decay = decay_gate(f, A_log, {dt_bias = t}), beta = sigmoid(b_t)})')
called("chunkwise", "ut_transform",
  "The UT transform turns the steps of a chunk into a triangular system, solved once: (I + tril(β K Kᵀ, -1))⁻¹ β.")
near("delta", "householder householder_matrix householder_reflection householder_transform householder_product",
  "I - β k kᵀ, by which the delta rule multiplies the state, is a generalised Householder matrix, with β = 2 and "
  .. "|k| = 1 a reflection; delta_product has several a token.")
called("chunkwise", "wy wy_form wy_representation chunk_parallel chunkwise_parallel chunkwise_form")
called("recurrent", "fused_recurrent_form recurrent_form")
called("parallel", "parallel_form")
called("linear_attention", "slot_mapping ssm_state_indices cache_indices",
  "Its options state_indices and inplace take states from the slots of a pool and bring them back.")
called("linear_attention", "varlen packed_sequences flash_attn_varlen_func",
  "Its option cu_seqlens packs sequences one after the other.")
called("linear_attention_step", "recurrent_step decode_step generation single_step causal_linear_attention_step")
called("decay", "gamma γ decay_rate decay_factor exponential_decay")
called("log_decay", "gk log_gate log_forget_gate", "Of a rate γ it is log(γ).")
called("retnet_decay", "retnet retention multi_scale_retention multiscaleretention chunk_retention retentive_network",
  "RetNet's retention, S ← γ S + k vᵀ, o = Sᵀ q with γ = 1 - 2^(-5 - head) (Sun et al. 2023):")
line_of("retnet retention multi_scale_retention multiscaleretention chunk_retention retentive_network",
  "causal_linear_attention(q, k, v, {decay = retnet_decay(h)})")
called("alibi_slopes", "alibi", "As decays they are exp(-alibi_slopes(h)).")
called("lightning-attention-2", "lightning lightning_attention lightningattention lightning_attn transnormer "
  .. "transnormerllm minimax minimax_01 minimax_m1",
  "S ← e^(-s) S + k vᵀ, o = Sᵀ q with the slope s of a head, those of ALiBi or a part of them (Qin et al. 2024; "
    .. "MiniMax-01):")
line_of("lightning lightning_attention lightningattention lightning_attn transnormer transnormerllm minimax minimax_01 "
  .. "minimax_m1",
  "causal_linear_attention(q, k, v, {decay = exp(-alibi_slopes(h))})")
called("causal-dot-product", "fast_transformers causal_product causal_dot_product_cuda")
called("fleet", "fleetattention fleet_attention")
called("vanilla", "naive naive_attention",
  "The definition: every query against every key before it.")
called("leet", "leetdecoding leet_decoding")
called("recursion", "recursive_attention")

near("gated", "selective_scan_fn selective_scan_ref selective_scan_update dt_proj",
  "The scan of Mamba 1 has a gate for each channel of each state: scan{...} computes it; that of Mamba 2 is this one.")
called("scan", "associative_scan parallel_scan linear_recurrence s4 s4d s5 lru s6 mamba1")
near("scan", "hgrn rglru rg_lru griffin hawk recurrentgemma mingru minlstm qrnn sru ema",
  "It is a recurrence of every channel by itself, h ← f h + x with a gate f.")
called("recurrence", "generalized_delta_rule generalised_delta_rule dplr iplr diagonal_plus_low_rank "
  .. "linear_recurrent_rule")
called("gated_delta_2", "gdn_2 gdn2 gated_deltanet_2 gateddeltanet_2 gated_delta_rule_2")
called("rwkv7", "rwkv_7 goose")
called("rwkv7", "rwkv time_mix time_mixing",
  "RWKV-7 is this call; what comes near RWKV-5 and 6 has ?rwkv6, near RWKV-4 ?rwkv4.")
called("delta_product", "deltaproduct gated_deltaproduct gated_delta_product")
near("scan", "rwkv4 rwkv_4",
  "It keeps a sum of weights beside that of weighted values: a step with a table of two states.")
near("scan", "mega", "MEGA's moving average is times(x.f, h) + x.v in a step.")
near("scan", "gsa gated_slot_attention",
  "The first pass of gated slot attention has its gates on the slots, S * diag(x.f) + outer(x.k, 1 - x.f) in a step; "
  .. "its second is linear_attention with update = \"gated\".")
near("causal_linear_attention", "cosformer",
  "cosFormer is this one with normalize = true on wider features: B = cat(times(relu(q), c), times(relu(q), s), 4), C "
  .. "likewise of k, with c and s the cosine and sine of π i / 2N, tensors [1, 1, N, 1].")
near("causal_linear_attention", "power_attention symmetric_power polysketchformer polysketch",
  "Powers of q kᵀ are this one on products of the entries of q, and of k; lowrank's taylor makes those up to the "
  .. "second.")

-- Factorisations

called("favor+", "performer performers favor favorplus positive_random_features positive_orthogonal_random_features")
called("rfa", "random_feature_attention random_fourier_features rff random_features")
called("nystrom", "nystromformer nyströmformer nyström landmarks landmark_attention")
called("transformer-vq", "vq vector_quantization vq_attention")
called("hyper", "hyperattention hyper_attention lsh lsh_attention")
called("taylor", "based taylor_attention")
near("taylor", "rebased", "ReBased squares learned features in the place of these; its attention is the same call.")
near("hedgehog", "lolcats", "LoLCATs learns features of this form to imitate softmax attention.")
called("rsvd", "randomized_svd randomised_svd svd_lowrank")
called("svd", "truncated_svd eckart_young linalg_svd lowrank_svd")
called("lowrank_methods", "lowrank_names lowrank_list factorisations factorizations")
called("lowrank", "kernel_attention feature_map feature_maps low_rank low_rank_attention factorisation factorization")

-- Softmax attention and decoding

called("softmax_attention", "attention flash_attention flashattention flash_attention_2 flash_attn flash_attn_func "
  .. "flash_attention_3 fa2 "
  .. "fa3 scaled_dot_product_attention sdpa dot_product_attention self_attention multi_head_attention "
  .. "multiheadattention multihead_attention mha gqa mqa grouped_query_attention memory_efficient_attention xformers "
  .. "softmaxattention", "softmax_attention is causal unless {causal = false}; other libraries' is not unless it is "
  .. "asked for.")
near("softmax_attention", "cross_attention",
  "Keys and values of another text have their own length M: softmax_attention(q, k, v, {causal = false}).")
near("softmax_attention", "mla multi_head_latent_attention latent_attention",
  "Latent attention is this one with k and v made of the latent before; or, with their matrices taken into q and the "
  .. "output, one head of keys for all queries: k is the latent beside the rotated part, v the latent.")
near("softmax_attention", "gated_attention gated_softmax_attention",
  "Gated attention, as in Qwen3-Next, is a gate g on the output of this one: times(softmax_attention(q, k, v, "
  .. "{causal = true}), sigmoid(g)). The gates of linear attention are the updates gated and gated_delta.")
near("softmax_attention", "differential_attention differential_transformer diff_transformer",
  "It is the difference of two calls: softmax_attention(q1, k1, v) - λ softmax_attention(q2, k2, v).")
near("linear_attention_step", "speculative_decoding draft_model",
  "A step takes 1 to 16 tokens and keep_states = true returns the state after each, to go back to the last that was "
  .. "accepted. The given state stays as it is.")
called("flash", "online_softmax safe_softmax")
called("shard", "context_parallel sequence_parallelism lasp lasp2 zeco all_scan zigzag ulysses")
called("tree_decode", "tree_attention flash_decoding flash_decode decode decoding sequence_parallel")
called("ring_decode", "ring_attention ringattention")
called("layout", "bhnd bnhd head_first seq_first batch_first time_major")
called("layout", "bthd bshd blhd thd nhd", "The order [batch, length, heads, width] is layout = \"bnhd\" here.")
called("layout", "bhtd bhsd bhld", "The order [batch, heads, length, width] is layout = \"bhnd\" here, the default.")
called("causal", "is_causal causal_mask")
near("causal", "attn_mask attention_mask mask src_mask",
  "A mask of your own is not taken: a query sees all keys, or with causal those up to its own position.")

-- Tensors: NumPy, PyTorch, MATLAB, Julia

called("*", "mul_matrix @ gemm matrix_product matrix_multiplication")
written("matmul mm bmm", "A * B is the product of matrices, over the last two dimensions", "*")
called("*", "operator operators arithmetic divide broadcasting")
written("+ - /", "A + B, A - B and A / B work element by element, with broadcasting", "*")
written("// %", "of numbers a // b is the quotient rounded down and a % b the remainder; of tensors, ?mod")
written("== ~= !=", "A == B says whether type, shape and elements are the same; eq(A, B) and ne(A, B) compare element "
  .. "by element", "eq")
written("< > <= >=", "a < b compares numbers; of tensors lt(A, B), le, gt and ge compare element by element", "lt")
called("times", "multiply mul hadamard elementwise_product .* ⊙")
called("plus", "add")
called("pow", "power ** ^")
called("range", "colon")
written("linrange", "LinRange(a, b, n) is range(a, b, {length = n})", "range")
written("linspace", "linspace(a, b, n) is range(a, b, {length = n})", "range")
written("arange", "arange(n) is range(0, n - 1)", "range")
written("logspace", "logspace(a, b, n) is exp(range(a, b, {length = n}) * math.log(10))", "range")
called("tensor", "array asarray ndarray from_numpy as_tensor matrix vector index indexing slice slicing")
called("size", "shape")
called("length", "numel nelem")
written("isempty is_empty", "#l == 0 says whether a list is empty, next(t) == nil whether a table is")
written("len", "the length of a list l is #l, of a tensor length(A)", "length")
called("ndims", "ndim rank_of_tensor")
called("eltype", "element_type")
written("typeof", "eltype(A) is the type of a tensor's elements, type(x) what any value is to Lua", "eltype")
called("f64", "double float64")
called("f32", "float float32")
written("astype to_dtype", "astype(x, type) is f64(x), f32(x), f16(x) or bf16(x)", "f32")
called("f16", "half float16")
called("bf16", "bfloat16")
called("cat", "concat concatenate vcat hcat vstack hstack")
near("cat", "stack",
  "It joins along a dimension that there is already: reshape(x, 1, n) gives a vector one more, and cat along 1 then "
  .. "stacks them.")
written("transpose mt adjoint", "A:t() transposes the last two dimensions, permutedims(A, 2, 1) any", "t")
called("permutedims", "permute swapaxes moveaxis rearrange")
written("open fopen",
  "open(path) is io.open(path, \"r\"), and for line in io.lines(path) do ... end goes over its lines")
written("split unbind tensor_split hsplit vsplit array_split",
  "parts of A are A({1, 2}, \":\"), A({3, 4}, \":\"); the words of a text come from s:gmatch(\"%S+\")")
called("reshape", "view flatten ravel unsqueeze squeeze expand_dims")
called("fill", "full full_like")
called("similar", "empty empty_like")
written("zeros_like", "zeros_like(A) is zeros({size(A)}, eltype(A))", "zeros")
written("ones_like", "ones_like(A) is ones({size(A)}, eltype(A))", "ones")
called("copy", "clone deepcopy")
called("totable", "tolist to_list collect")
called("randn", "normal gaussian standard_normal random_normal")
called("rand", "uniform random random_sample")
called("randperm", "permutation shuffle")
called("seed", "manual_seed srand set_seed random_seed default_rng")
called("maximum", "amax")
called("minimum", "amin")
for name, page in pairs { max = "maximum", min = "minimum" } do
  for library in ("np numpy torch jnp"):gmatch("%S+") do
    written(library .. "." .. name, string.format("%s.%s(A, dim) is %s(A, dim) here; %s(A, B) compares two tensors "
      .. "element by element", library, name, page, name), page)
  end
end
called("mean", "average avg")
called("std", "stdev")
written("var variance", "the variance of all elements is std(A)^2, along a dimension pow(std(A, 1), 2)", "std")
called("quantile", "percentile")
called("cumsum", "cumulative_sum prefix_sum")
called("abs", "absolute fabs")
written("eye identity identity_matrix i", "the unit matrix is diag(ones(n))", "diag")
called("clamp", "clip")
called("eq", "equal", "A == B is one true or false: the same type, shape and elements.")
written("isequal array_equal torch.equal np.array_equal",
  "A == B is true for the same type, shape and elements; eq(A, B) compares element by element", "eq")
called("ne", "not_equal")
called("lt", "less")
called("le", "less_equal")
called("gt", "greater")
called("ge", "greater_equal")
written("isinf", "isinf(x) is eq(abs(x), math.huge)", "isfinite")
written("nan", "a NaN is 0/0, and isnan(x) finds them", "isnan")
called("isapprox", "allclose isclose assert_allclose assert_close ≈ approx almost_equal")
called("norm", "frobenius frobenius_norm vector_norm")
called("l2norm", "normalize normalise l2_norm l2_normalize l2norm_fwd")
called("opnorm", "spectral_norm operator_norm matrix_norm")
called("eigvals", "eig eigh eigvalsh eigen")
called("inv", "inverse")
written("pinv", "of a tall A of full rank, the pseudoinverse is inv(A:t() * A) * A:t()", "inv")
written("cond condition_number", "s = svdvals(A), and maximum(s) / minimum(s) is the condition number", "svdvals")
written("matrix_rank rank", "the rank of A to a tolerance: sum(gt(svdvals(A), 1e-6 * opnorm(A)))", "svdvals")
written("nuclear_norm trace_norm schatten_norm", "the nuclear norm is sum(svdvals(A))", "svdvals")
written("kron", "A:reshape(m, 1, n, 1) times B:reshape(1, p, 1, q), by times(...), reshaped to (m * p, n * q)", "times")
written("ln", "the natural logarithm is log(x)", "log")
written("decay_matrix decay_mask mask_matrix lower_triangular",
  "i = range(1, N), and tril(pow(0.9, i:reshape(N, 1) - i:reshape(1, N))) has 0.9^(i-j) for i >= j; "
  .. "the 0-1 mask is tril(ones(N, N))", "tril")
called("tr", "trace")
called("dot", "inner vdot")
called("cholesky", "chol")
called("sigmoid", "logistic expit")
called("rms_norm", "rmsnorm rmsnormgated fusedrmsnormgated gated_rms_norm rms_norm_gated")
near("short_convolution", "token_shift tokenshift time_shift conv_state",
  "A token shift, (1 - m) x_t + m x_(t-1), is a short convolution with the two weights m and 1 - m.")
called("short_convolution", "shortconvolution causal_conv1d causal_conv1d_fn causal_conv1d_update causalconvwithstate "
  .. "short_conv causal_conv conv1d causal_convolution")
called("decay_gate", "kda_gate fused_kda_gate gdn_gate a_log safe_gate")
called("where", "ifelse", "A mask is made by lt, le, gt, ge, eq and ne: where(gt(x, 0), x, 0).")
written("filter", "elements of a tensor: x(gt(x, 0)); rows of a sweep: results:where{n = 3}, "
  .. "results:where(function(r) ... end)", "where")
written("masked_fill masked_fill_", "masked_fill(x, m, v) is where(m, v, x); in place, x:set(v, m)", "where")
called("map", "vectorize broadcast apply")
written("inf infinity", "infinity is math.huge")
written("expand expand_as broadcast_to broadcast_tensors",
  "dimensions of length 1 repeat by themselves, as in times(A, x); alone, x + zeros(2, 3) has the size 2×3")
written("tile repeat repmat", "copies of A below each other are cat(A, A, 1), beside each other cat(A, A, 2)")
written("repeat_interleave repelem",
  "each row of A [n, d] k times is (A:reshape(n, 1, d) + zeros(n, k, d)):reshape(n * k, d)")
written("roll circshift", "of N elements, roll(x, k) is cat(x({N - k + 1, N}), x({1, N - k}), 1)")
written("flip fliplr flipud reverse",
  "of N rows, A from the last to the first is A({range(N, 1, {step = -1})})")
written("vec", "vec(A) is A:reshape(-1), row after row", "reshape")
written("minus", "A - B is the difference, with broadcasting", "*")
written("pad",
  "of A [n, d], cat(zeros(k, d), A, 1) puts k rows of zeros above it, cat(A, zeros(n, k), 2) k columns behind", "cat")
written("meshgrid ndgrid", "x:reshape(1, n) and y:reshape(m, 1) stand for an m×n grid, as in their sum; whole they are "
  .. "x:reshape(1, n) + zeros(m, n) and y:reshape(m, 1) + zeros(m, n)", "reshape")
written("first", "the first of a list is l[1], of a vector x(1); the first two rows of A are A({1, 2}, \":\")")
written("corr cor corrcoef pearsonr",
  "with a = x - mean(x) and b = y - mean(y) the correlation is dot(a, b) / (norm(a) * norm(b))", "dot")
written("rm", "os.remove(path) removes a file, ;rm at the prompt too")
written("diff ediff1d", "of N elements, diff(x) is x({2, N}) - x({1, N - 1})")
written("append push extend push_back", "table.insert(l, x) appends x to a list; tensors are joined by cat(A, B, 1)")
written("index_select take advanced_indexing fancy_indexing index_put",
  "rows 1, 3 and 5 of A are A({{1, 3, 5}}), those of a tensor or list p of places A({p}), columns A(\":\", {p}); "
  .. "A:set(0, {p}) writes them", "tensor")
written("gather index_add scatter_add take_along_axis",
  "the same places in all rows are A(\":\", {p}); others in each row: a product with a one-hot matrix, ?one_hot",
  "tensor")
written("embedding embeddings nn.embedding lookup",
  "of ids [N] and a table W [n, d], W({ids}), which grad goes through")
written("masked_select boolean_mask boolean_indexing compress extract",
  "x(gt(x, 0)) are the elements where the mask is 1, A(mask) with a mask of its rows these rows; x:set(0, lt(x, 0)) "
  .. "writes them", "tensor")
written("nonzero argwhere flatnonzero findall",
  "the places where a mask of a vector is 1 are range(1, #mask)(mask), which x({places}) takes")
written("keys values items", "for name, x in pairs(t) do print(name, x) end goes over a table")
written("sleep", "os.execute(\"sleep 1\") waits a second")
written("throw raise", "error(\"a sentence\") raises an error, ok, message = pcall(f, x) catches it")
written("dict ordereddict", "a table with names is d = {a = 1}, and d.a reads it")
written("haskey isin", "d.a ~= nil says whether the table d has the name a")
written("isnothing isnull is_none", "x == nil says it")
written("missing undef", "no value is nil")
written("parse", "parse(Int, s) is tonumber(s)")
written("mod rem fmod divmod", "of numbers the remainder is a % b; of a tensor, A - floor(A / b) * b")
written("div", "A / B divides element by element; whole it is floor(A / b)", "*")
written("floordiv fld floor_divide", "of numbers it is a // b; of a tensor, floor(A / b)")
written("isfile isdir exists file_exists", "io.open(path) is nil where nothing is there")
written("readdir listdir", ";ls at the prompt lists the folder")
written("vars globals locals", "?whos has the loop over what there is")
written("isinstance isa", 'type(x) == "table" asks for the type of a value, eltype(A) is that of a tensor')
written("count count_nonzero", "sum(gt(x, 0)) counts the elements above 0, sum(mask) the ones of a mask")
written("reduce fold foldl accumulate",
  "of a list: for i, x in ipairs(l) do s = s + x end; of a tensor sum, prod")
written("sub subtract", "A - B is it", "*")
written("sum_squares", "it is sum(pow(A, 2))", "pow")
written("string_format f_string fstring", 'a text with values in it is string.format("x = %.3f", x), or "x = " .. x')
told("begin", "do ... end is a block")
written("str", "str(x) is tostring(x); texts are joined by \"x = \" .. x", nil)
written("int", "int(x) is floor(x); math.tointeger(3.0) is 3")
written("printf sprintf", "sprintf is string.format: print(string.format(\"x = %.3f\", x))")
written("dir methods_of", "?tensor lists what a tensor has, as Tab behind A: does")
written("enumerate", "for i, x in ipairs(list) do ... end; of a vector, ipairs(A:totable())")
written("zip", "for i = 1, #a do print(a[i], b[i]) end goes over two lists")
written("pwd", ";pwd at the prompt prints the folder")
written("ls cd ll mkdir_p pip", ";ls at the prompt is a command of the system, ;cd FOLDER changes the folder")
written("include execfile source_file", "include(path) is dofile(path)")

-- Learning

called("grad", "gradient gradients derivative derivatives differentiate differentiation autodiff "
  .. "automatic_differentiation autograd "
  .. "backward backprop backpropagation value_and_grad vjp requires_grad")
for name in ("backward backprop backpropagation value_and_grad vjp requires_grad"):gmatch("%S+") do
  elsewhere[name].line = "g, value = grad(loss, params)"
end
called("adam", "adamw optimizer optim learning_rate")
called("sgd", "gradient_descent stochastic_gradient_descent")
near("adam", "rmsprop adagrad")
written("nn.parameter", "a parameter is a tensor in the table by which grad differentiates: "
  .. "g, value = grad(loss, {W = W})", "grad")
written("loss loss_function criterion",
  "a loss is a function of the parameters that returns a number; ?mse_loss and ?cross_entropy have lines", "grad")
told("lr_scheduler learning_rate_schedule",
  "opt.lr = 1e-4 between two steps sets the rate of opt = adam{params, lr = 1e-3}.")
called("rank", "num_features n_features nb_features")

-- Bounds

called("causal_oracle", "oracle")
called("check_bound", "claim claims proof proofs theorem theorems lemma errata statement",
  "Statements and proofs stand "
  .. "in proofs/, with proofs/README.md as their list and proofs/ERRATA.md for what is wrong in the documents.")

-- Measuring, plots, files, the shell

called("benchmark_method", "bench_method bench benchmark",
  "A function without arguments is timed by btime(f), at the prompt by @btime f(x).")
written("unregister_method remove_method",
  "no method is taken away; register_method with its name again replaces it", "register_method")
called("benchmark_method", "compare compare_methods", "On tensors of your own; without methods, all are compared:")
for _, name in ipairs({ "compare", "compare_methods" }) do
  elsewhere[name].line = 'benchmark_method{inputs = {q, k, v}, methods = {"fleet", "vanilla"}}'
end
called("benchmark_update", "benchmark_updates benchmark_modes benchmark_gated benchmark_linear_attention bench_update "
  .. "compare_updates compare_modes")
called("btime", "time timer stopwatch timeit %timeit @benchmark @belapsed tic toc")
called("measured_call", "memory memory_usage peak_memory memory_allocated max_memory_allocated tracemalloc "
  .. "memory_profiler %memit", "gpu_memory() tells what a GPU holds, cost(name, sizes).memory counts scalars.")
called("clock", "perf_counter monotonic time_ns time.time time.perf_counter")
called("linear_attention_grad", "linear_attention_gradient linear_attention_backward")
called("causal_linear_attention_grad",
  "causal_linear_attention_gradient causal_linear_attention_backward")
called("softmax_attention_grad", "softmax_attention_gradient softmax_attention_backward")
called("opcount", "flops flop_count count_flops")
called("cost", "complexity")
called("threads", "num_threads set_num_threads set_threads nthreads nproc")
called("machine", "versioninfo version cpuinfo lscpu")
told("clear clc cls", "Ctrl-L clears the screen at the prompt; x = nil forgets x, clear_output() empties a cell")
told("history", "The arrows and Ctrl-R go through what was typed; it is kept for the next time.")
called("progress", "tqdm progress_bar")
called("growth_exponent", "slope polyfit loglog_slope growth growth_rate scaling_exponent fit curve_fit linregress "
  .. "fit_power power_law fit_power_law")
written("markdown to_markdown",
  "of results, a table or a list of rows: results:markdown(), text_table(rows):markdown()", "text_table")
written("latex to_latex booktabs", "of results, a table or a list of rows: results:latex(), text_table(rows):latex()",
  "text_table")
written("caption", "the caption of a table is its title: text_table(rows, {title = \"...\"}):latex()", "text_table")
written("pivot pivot_table unstack crosstab", 'of a sweep\'s results: results:pivot("method", "N", "median")', "sweep")
called("sweep", "grid_search gridsearch parameter_sweep")
called("plot", "plt lineplot figure errorbar subplots subplot matplotlib seaborn plotly bokeh")
written("scatter scatterplot", 'points without lines: plot(x, y, {style = "points"})', "plot")
written("loglog", 'both axes logarithmic: plot(x, y, {xscale = "log", yscale = "log"})', "plot")
written("semilogy", 'plot(x, y, {yscale = "log"}) is it', "plot")
written("semilogx", 'plot(x, y, {xscale = "log"}) is it', "plot")
written("savefig", 'p = plot(x, y), and p:save("x.svg"), .png or .pdf', "plot")
written("bar barplot barh boxplot violinplot", "there are curves, points with bars of error and heat maps; a table is "
  .. "show_table(rows), a curve plot(x, y)", "plot")
called("heatmap", "plot_heatmap imshow matshow pcolor pcolormesh spy")
called("text_table", "dataframe pandas tabulate pretty_table")
written("updates update_rules rules",
  'update = "linear", "gated", "delta" or "gated_delta" of linear_attention; ?gated '
  .. "lists them with the calls beside them", "linear_attention")
called("load", "read_csv csv loadtxt load_file safe_open", "The extension says what comes back.")
written("column get_column", "rows:column(\"gamma\") is a column of a sweep's results or of load(\"x.csv\") as a list, "
  .. "tensor(...) of it a tensor", "load")
called("save", "to_csv savetxt save_file write_csv writecsv write_table write_npy save_csv",
  "The extension says what the value has to be.")
written("read read_file readfile slurp read_text readlines getline",
  "the text of a file is io.open(\"a.txt\"):read(\"a\"), its lines come from for line in io.lines(\"a.txt\") do ... "
  .. "end; load reads .npy, .npz, .safetensors, .csv and .json", "load")
written("write write_file writefile",
  "save(path, x) writes x, results:save(path) a table; io.open(path, \"w\") opens a file for text of yours", "save")
called("json_encode", "dumps to_json json.encode json.stringify")
called("json_decode", "loads from_json json.decode json.parse")
written("json", "json_encode(x) is the text of a value, json_decode(s) the value", "json_encode")
called("mkpath", "mkdir makedirs")
called("display", "show repr disp")
written("println puts echo", "print(x) prints a line, display(x) shows a value as the prompt does", "display")
called("gpu", "cuda to_device to", "x:to(type) is f32(x), f16(x) ...")
called("has_gpu", "is_available")
called("help", "man doc")
called("tensor", "numpy np torch pytorch julia jax",
  "Most functions have the names that they have there; ?np.linspace, ?torch.cat lead to the others.")
called("interact", "@manipulate manipulate interactive ipywidgets widgets widget slider sliders IntSlider FloatSlider")
called("input", "readline raw_input prompt")
called("exit", "bye")

-- Names of options and methods elsewhere, which only the call gives a meaning.

short("method", "mode backend kernel impl implementation algorithm")
short("cu_seqlens", "lengths seqlens seq_lens")

short("cu_seqlens", "cu_seq_lens cu_seqlens_q offsets seq_offsets")
short("state_indices", "slots slot_mapping cache_indices ssm_state_indices")
short("log_decay", "g gk gate gates forget log_alpha")
short("decay", "g lambda forget alpha")
short("beta", "b eta")
short("lr", "learning_rate step_size alpha eta")
short("state", "initial_state initial_states h0 s0 past_state recurrent_state cache hidden_state")
short("return_state", "output_final_state return_final_state return_final_states final_state use_cache")
short("chunk", "chunk_size chunksize block block_size bt")
short("block", "block_size chunk chunk_size")
short("scale", "softmax_scale sm_scale temperature scaling")
short("return_lse", "return_softmax_lse return_attn_probs")
short("rank", "r num_features n_features nb_features num_landmarks landmarks n_components proj_dim")
short("update", "rule update_rule")
short("seed", "random_state rng")
short("samples", "number repeat repeats n iterations")
short("repeats", "number samples iterations")
short("dim", "d head_dim headdim d_head width")
short("lengths", "seq_lens seqlens sizes ns n")
short("save", "file filename path cache")
short("label", "name legend title")
short("name", "label title")
short("title", "caption name header heading label")
short("lengths", "t n_tokens seq_len seqlen seq_length length tokens")
short("heads", "h num_heads n_heads nheads")
short("batch", "batch_size bs")
short("xrange", "xlim x_lim set_xlim")
short("yrange", "ylim y_lim set_ylim")
short("style", "marker markers linestyle ls")
short("width", "linewidth lw line_width")
short("by", "group group_by groupby hue color colour series")
short("xscale", "logx log_x xlog")
short("yscale", "logy log_y ylog")

-- Options of other libraries' attention that no option stands for here: what is done before or after the call.
local around_calls = {}
causeway._around_calls = around_calls

local function around(names, how)
  for name in names:gmatch("%S+") do around_calls[name] = how end
end

around("output_final_state return_final_state return_final_states return_state final_state use_cache",
  "the final state is the second result: o, S = linear_attention(q, k, v)")
around("use_qk_l2norm_in_kernel use_qk_l2norm qk_l2norm qk_norm l2norm",
  "give l2norm(q) and l2norm(k), queries and keys of length 1")
short("qk_l2norm", "use_qk_l2norm_in_kernel use_qk_l2norm qk_norm l2norm")
around("a_log dt_bias dt dt_softplus delta_softplus dt_limit use_gate_in_kernel safe_gate lower_bound",
  "linear_attention makes the gate: log_decay = a, A_log = A, dt_bias = t; before another call decay_gate does")
around("gv", "a gate for each channel of the values is a step of scan, S * diag(x.gv)")
around("gk", "gates of tokens are linear_attention's: update = \"gated\", log_decay = g")
around("beta", "it is linear_attention's: update = \"delta\", beta = b")
around("d skip", "the skip is added after the call: o + times(D, v)")
around("z", "the output gate comes after the call: times(o, times(z, sigmoid(z))), with a norm by norm_gate = z")
around("feature_map", "features are made before the call: elu(q) + 1 in the place of q, or lowrank")
around("enable_gqa num_heads num_heads_kv num_kv_heads n_heads", "heads are counted in the tensors, and those of q may "
  .. "be a multiple of those of k and v: leave it out")
around("alibi_slopes", "of linear attention it is a decay: causal_linear_attention with decay = exp(-alibi_slopes(h))")
around("softcap logits_soft_cap logit_softcapping bias attn_bias key_padding_mask score_mod",
  "scores are scaled and masked to the past, nothing else")
around("dtype out_dtype precision", "the type is that of the tensors: f64(q)")
around("threads num_threads", "threads(n) sets them")
around("seed generator", "nothing is random in the call")
around("training need_weights average_attn_weights return_attn_probs output_attentions",
  "a call gives its output alone, the same in training: leave it out")
around("requires_grad", "grad(f, params) differentiates what calls it")

-- Methods of tensors elsewhere that none here stands for: what does it instead.
local gradients = "g, value = grad(f, params) gives the gradients of a function f(params) and its value"
causeway._instead = {
  numpy = 'save("a.npy", A) writes what numpy.load reads',
  to = "f64(A), f32(A), f16(A), bf16(A) convert it, A:gpu() and A:cpu() move it",
  item = "A(1, 2) is a number already, and so is sum(A)",
  zero_ = "A:fill_(0) sets all elements to 0",
  backward = gradients, requires_grad_ = gradients, grad = gradients,
  device = "a tensor is on the CPU where A:gpu() has not put it on a GPU",
  contiguous = "a tensor always is",
  print = "print(A) prints it, and A alone shows it", show = "A alone shows it, display(A) in a script",
  S = "U, S, V = svd(A) gives all three", U = "U, S, V = svd(A) gives all three",
  V = "U, S, V = svd(A) gives all three", Vt = "U, S, V = svd(A) gives all three, and V:t() is it",
  Q = "Q, R = qr(A) gives both", R = "Q, R = qr(A) gives both", values = "maximum(A, 2) are the values alone",
  indices = "argmax(A, 2) are the places",
  T = "A:t() is the transpose, of the last two dimensions",
  matmul = "A * B is the product of matrices", mm = "A * B is the product of matrices",
  bmm = "A * B is the product of matrices", sub = "A - B is it", div = "A / B is it",
  type = "eltype(A) is the type of its elements",
  dtype = "eltype(A) is the type of its elements",
}

-- What is not here

not_here("rope rotary rotary_embedding rotary_position_embedding rotary_positional_embedding yarn",
  "Rotary positions turn q and k before a call, and every call here takes what has been turned:\n\n"
  .. "  q1 = q(\":\", \":\", \":\", {1, d // 2})\n  q2 = q(\":\", \":\", \":\", {d // 2 + 1, d})\n"
  .. "  q = cat(times(q1, c) - times(q2, s), times(q1, s) + times(q2, c), 4)\n\n"
  .. "with c and s the cosines and sines of position times frequency, [1, 1, N, d / 2].")
not_here("xpos", "xPos is ?rope with a decay per channel: turn q and k, and give the decay as log_decay [b, h, N, d_k] "
  .. "to linear_attention with update = \"gated\".")
not_here("positional_encoding position_embedding positional_embedding sinusoidal",
  "Positions are given to q and k before a call; ?rope has the lines for rotary ones, ?alibi the decay in their place.")
not_here("titans atlas miras",
  "Its memory is a network of several layers that learns at test time. The nearest is linear_attention with "
  .. "update = \"gated_delta\": a memory of one matrix, with a step of gradient descent a token and forgetting. "
  .. "Momentum is a second state in a step of scan.")
not_here("mesanet mesa",
  "It solves a least squares problem at each token. The nearest is linear_attention with update = \"delta\", one step "
  .. "of gradient descent on it.")
not_here("log_linear_attention loglinear_attention",
  "It keeps a state for each power of two of the past. The nearest is causal_linear_attention, which has one state.")
not_here("paged_attention pagedattention paged_kv paged_kv_cache vllm sglang",
  "Keys and values are whole tensors, [batch, heads, M, d], without tables of pages. The nearest are softmax_attention "
  .. "for a prompt, tree_decode and ring_decode for one query against a cache that is shared out, and "
  .. "linear_attention_step, whose state does not grow.")
near("state_indices", "continuous_batching",
  "The states of sequences that come and go lie in the slots of a pool; state_indices says which each sequence has.")
called("from_hf", "hf transformers torch_chunk_gated_delta_rule torch_recurrent_gated_delta_rule",
  "It takes the arguments of what transformers has in place of kernels; models are loaded by model(path).")
not_here("triton cuda_kernel tilelang", "Kernels are written in CUDA; "
  .. "docs/kernels.md in the sources has a page for each. "
  .. "The nearest for a rule of your own is recurrence, or scan.")
called("from_flashinfer", "flashinfer", "It takes the arguments of FlashInfer's chunk_gated_delta_rule.")
not_here("kv_cache kvcache past_key_values",
  "A cache is two tensors of yours, which cat(k, k_new, 3) makes longer; softmax_attention(q, k, v) takes the queries "
  .. "as the last positions. linear_attention_step has a state that does not grow.")
not_here("window window_size local_window left_window sliding_window sliding_window_attention swa local_attention "
  .. "longformer attention_sink streaming_llm streamingllm",
  "softmax_attention sees all keys, or all up to the query. The nearest are decays, which let the past fade: decay of "
  .. "causal_linear_attention, log_decay of linear_attention.")
not_here("sparse_attention nsa native_sparse_attention moba bigbird reformer routing_transformer block_sparse "
  .. "flex_attention flexattention",
  "No call leaves out pairs of tokens. The nearest is lowrank(\"hyper\"), which sorts tokens into buckets and samples "
  .. "the rest.")
not_here("forgetting_transformer fox forgetting_attention attention_bias attn_bias relative_position_bias t5_bias",
  "softmax_attention adds nothing to its scores. The nearest is linear_attention with update = \"gated\", whose "
  .. "log_decay is a forget gate without the softmax.")
not_here("infini_attention memorizing_transformer compressive_transformer",
  "A memory beside local softmax attention is two calls, whose outputs you mix: softmax_attention on each segment, and "
  .. "linear_attention with update = \"delta\" over all of them, which returns its state.")
not_here("hyena h3 long_convolution longconv tnn toeplitz_neural_network fftconv",
  "There are no long convolutions and no FFT. The nearest is scan: a convolution whose kernel is a sum of exponentials "
  .. "is a linear recurrence.")
not_here("slstm lstm gru rnn",
  "Recurrences whose gates see the state are not linear. scan takes any step that is made of functions of one element, "
  .. "products and sums.")
not_here("scatterbrain", "It is low-rank and sparse; the low-rank part is lowrank(\"favor+\").")
not_here("aft attention_free_transformer fnet synthesizer gmlp perceiver",
  "It takes no products of queries and keys. The nearest is causal_linear_attention.")
not_here("nn.module nn.sequential nn.modulelist nn.moduledict",
  "A layer is a function of its parameters, a table of tensors, and of its input, as in function layer(p, x) return "
  .. "relu(x * p.W:t() + p.b) end; grad(loss, params) has the gradients, ?adam a step with them.")
not_here("dataloader utils.data.dataloader utils.data.dataset utils.data.tensordataset",
  "A batch is a part of a tensor: x({1, 32}, \":\") has rows 1 to 32, and with p = randperm(n), x({p({1, 32})}) has 32 "
  .. "of n rows by chance.")
not_here("conv2d conv3d conv_transpose2d convtranspose2d maxpool2d max_pool2d avgpool2d",
  "Of convolutions the causal one over tokens is here: short_convolution.")
not_here("mixture_of_experts moe feed_forward mlp transformer transformerencoder transformerencoderlayer "
  .. "transformerdecoder layer_norm layernorm batch_norm batchnorm batchnorm1d batchnorm2d instance_norm",
  "Of what stands around attention, rms_norm, l2norm, short_convolution and decay_gate are here; "
  .. "another layer is a few lines of Lua, which grad goes through.")
not_here("dropout dropout_p",
  "Nothing is dropped by itself: times(x, gt(rand(1, 8, 100, 64), 0.1)) / 0.9 drops a tenth of x.")
written("solve linsolve", "inv(A) * b solves A x = b")
written("lstsq least_squares", "of a tall A of full rank it is inv(A:t() * A) * (A:t() * b)", "inv")
written("det slogdet logdet determinant",
  "of a symmetric positive definite A, 2 * sum(log(diag(cholesky(A)))) is the logarithm of the determinant")
not_here("gradcheck checkgrad check_grad check_gradient check_gradients finite_differences",
  "grad(f, A) beside the difference (f(A + E) - f(A - E)) / (2 * h), with A in Float64 and E zero but for h = 1e-5 at "
  .. "one place, checks that element.")
written("randn_like rand_like", "randn(size(A)) has the shape of A", "randn")
not_here("state_dict load_state_dict",
  "Parameters are a table of tensors: save(\"p.npz\", params) writes it, and load(\"p.npz\") reads it.")
not_here("contiguous is_contiguous", "Tensors are always whole in memory, the last dimension next to itself.")
near("rms_norm", "group_norm groupnorm",
  "Of x [b, h, N, d], rms_norm is a norm of each head of its own, without the mean that group norm takes off.")
not_here("jit compile numba",
  "Nothing is compiled at the prompt: calls run in C++, and scan takes a loop over tokens there.")
not_here("whos who varinfo variables workspace",
  "Your variables are globals: for name, value in pairs(_G) do print(name, value) end prints them among the library's "
  .. "functions, and Tab completes their names.")
written("nn.linear torch.nn.linear nn.dense f.linear nn.functional.linear",
  "a linear layer is a product, x * W:t() + b, which grad goes through")
written("randint", "floor(rand(2, 3) * 10) has whole numbers from 0 to 9; math.random(10) is one from 1 to 10")
written("findmax findmin", "maximum(A) is the value and argmax(A) its place", "argmax")
written("sort sorted argsort topk unique",
  "table.sort(l) sorts a list in place, and of a vector l = A:totable(); tensors are not sorted, and quantile(A, 0.9) "
  .. "and maximum(A) need no order")
written("hist histogram", "quantile(A, {0.05, 0.5, 0.95}) tells how numbers are spread")
not_here("quantization quantisation int8 fp8 kivi kv_quantization",
  "Elements are Float32, Float64, and Float16 and BFloat16 for storage.")
not_here("striped_attention",
  "softmax_attention with shards = p gives a worker one piece from the front of the text and one from the back; there "
  .. "are no stripes.")

-- The language, and where to begin

told("for", "for i = 1, 10 do ... end; for i, x in ipairs(list) do ... end; for key, value in pairs(t) do ... end")
told("if then else elseif", "if x > 0 then ... elseif x < 0 then ... else ... end")
told("loop loops iterate iteration", "for i = 1, 10 do ... end; for i, x in ipairs(list) do ... end")
told("cite citation bibtex", "CITATION.cff of the sources has it; ?documents is about the documents")
told("comment comments", "-- begins a comment that ends with its line; --[[ ... ]] is one of several lines")
told(".. string_concatenation", "\"a\" .. \"b\" joins texts; numbers become texts by it")
told("try except catch finally", "ok, message = pcall(f, x) calls f(x) and catches its error")
told("while do break", "while x > 0 do ... end, which break leaves")
told("function return lambda closure", "function f(x) return x^2 end; without a name, function(x) return x^2 end")
told("local", "A local variable lives in its block, at the prompt in its line; without the word it stays.")
told("lua syntax language", "The language is Lua 5.4: https://www.lua.org/manual/5.4, for those who program already "
  .. "https://learnxinyminutes.com/lua.")
told("license licence copyright", "The MIT License: the file LICENSE of the sources.")
told("about", "machine() has the machine and the versions, m:about() the sizes of a model m.")
told("tutorial readme documentation docs getting_started quickstart introduction first_steps examples",
  "docs/tutorial.md in the sources takes ten minutes, docs/tour.md has every use with its code; ? lists the topics, "
  .. "and ./lab build manual makes pages of all that to read and search offline.")

-- A line of code here

local features = "; elu, relu, sigmoid, softmax and tanh are here"
written("gelu quick_gelu", "gelu(x) is close to times(x, sigmoid(x * 1.702))" .. features)
written("erf", "to 4e-4, erf(x) is tanh(x * 1.12838 + pow(x, 3) * 0.1009)")
written("logsumexp", "logsumexp(x, dim) is m + log(sum(exp(x - m), dim)) with m = maximum(x)")
written("silu swish", "silu(x) is times(x, sigmoid(x))" .. features, "sigmoid")
written("leaky_relu leakyrelu prelu", "leaky_relu(x) is relu(x) - relu(-x) * 0.01" .. features)
written("relu6", "relu6(x) is clamp(x, 0, 6)" .. features)
written("relu2 squared_relu", "the square of relu is pow(relu(x), 2)" .. features)
written("celu", "celu(x) is elu(x)" .. features)
written("selu", "selu(x) is (relu(x) + elu(-relu(-x)) * 1.67326) * 1.0507" .. features)
written("softplus", "softplus(x) is relu(x) + log(exp(-abs(x)) + 1)" .. features)
written("mish", "mish(x) is times(x, tanh(relu(x) + log(exp(-abs(x)) + 1)))" .. features)
written("hardtanh", "hardtanh(x) is clamp(x, -1, 1)" .. features)
written("hardswish hard_swish", "hardswish(x) is times(x, clamp(x + 3, 0, 6)) / 6" .. features)
written("glu", "glu(a, b) is times(a, sigmoid(b))")
written("swiglu", "swiglu(a, b) is times(times(a, sigmoid(a)), b)")
written("log_softmax", "log_softmax(A) is log(softmax(A))")
written("logsigmoid log_sigmoid", "logsigmoid(x) is log(sigmoid(x)), for x above -80 in Float32")
written("one_hot onehot",
  "one_hot(ids) of ids from 1 to n is eq(ids:reshape(N, 1), range(1, n):reshape(1, n)), N their number")
written("clip_grad_norm clip_grad_norm_",
  "of gradients {W = g}: g.W = g.W * math.min(1, most / norm(g.W)), before opt:step(g)")
written("reopen load_sweep", "load(\"results/NAME/NAME.csv\") gives the rows of a sweep as a list; "
  .. "the same sweep{..., save = \"results/NAME\"} gives its results, and runs what is missing alone")
written("log1p", "log1p(x) is log(x + 1)")
written("expm1", "expm1(x) is exp(x) - 1")
written("log2", "log2(x) is log(x) / math.log(2)")
written("log10", "log10(x) is log(x) / math.log(10)")
written("square", "square(x) is pow(x, 2)")
written("rsqrt", "rsqrt(x) is pow(x, -0.5)")
written("cross_entropy crossentropy cross_entropy_loss nll_loss crossentropyloss logitcrossentropy",
  "-mean(log(sum(times(softmax(x), y), 2))) is it, with a row of y 1 at the right class, else 0")
written("kl_div kldivloss kl_divergence", "it is sum(times(p, log(p / q))), of p and q above 0")
written("mse_loss mse mseloss", "mse_loss(x, y) is mean(pow(x - y, 2))")
written("l1_loss mae", "l1_loss(x, y) is mean(abs(x - y))")
written("binary_cross_entropy bce bce_loss", "it is -mean(times(y, log(p)) + times(1 - y, log(1 - p)))")
written("no_grad inference_mode stop_gradient enable_grad",
  "nothing is recorded outside of grad(f, params); in f, detach(x) is a constant")
written("jacobian jacrev jacfwd",
  "a row of a Jacobian is a gradient: grad(function(x) return f(x)(i) end, x) is row i")
written("vmap pmap batched_map",
  "the calls take [batch, heads, N, d] at once; map(f, A) is f of every element; a loop goes over rows")
written("hessian hvp", "grad has no second derivatives; differences of what grad(f, x) gives come near them")
written("jvp forward_mode", "grad goes backwards; (f(x + v * h) - f(x - v * h)) / (2 * h) comes near a product with v")

-- Language models

called("model", "llm language_model gguf llama_cpp huggingface hugging_face from_pretrained automodel smollm2 "
  .. "load_model logits layers automodelforcausallm")
called("tokens", "autotokenizer tokenizer tokenize tokenise encode_text bpe byte_pair_encoding detokenize")
called("generate", "chat completion complete_text apply_chat_template chat_template top_k top_p temperature")
called("bits_per_byte", "perplexity cross_entropy_of_text next_token_accuracy")
written("predict", "m:predict(text) tells in a table how well the model m predicts the text", "bits_per_byte")
called("score", "loglikelihood log_likelihood")
called("evaluate", "mmlu longbench multiple_choice benchmark_model lm_eval lm_evaluation_harness few_shot cloze")
called("capture", "hidden_states output_hidden_states output_attentions register_forward_hook forward_hook")
called("replace_attention", "swap_attention monkey_patch")
