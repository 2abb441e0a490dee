local manual = (...).manual

manual.btime = {
  call = "btime(f, {samples =, seconds =, show = true})",
  text = [[Times the function f: after a warm-up call it is called again and again, until there are `samples` samples or
`seconds` seconds are spent, whichever comes first; without options 1000 samples or 1 second, at least 3 samples.
Calls shorter than 20 µs are repeated within a sample. Garbage is collected between samples, outside the timing.

Shows one line, and returns a table: minimum, median, mean, std (seconds), samples, memory (the most bytes held during
the call after the warm-up beyond what was held before; its result counts). The minimum is the number least disturbed by
other programs. At the prompt, `@btime EXPR` does the same.]],
  example = "btime(function() return randn(64, 64) * randn(64, 64) end, {samples = 5})",
}

manual.measured_call = {
  call = "measured_call(f, ...)",
  text = [[Calls f(...) once and returns its first result, the seconds it took, and the most bytes of tensors held
meanwhile beyond what was held before and the result (a Tensor) itself.]],
  example = "A, seconds, bytes = measured_call(randn, 64, 64); print(bytes_text(bytes))",
}

manual.clock = {
  call = "clock()",
  text = "Seconds on a clock that never goes back; only differences mean something.",
  example = "start = clock(); print(clock() - start)",
}

manual.threads = {
  call = "threads([n])",
  text = [[The number of worker threads; threads(n) sets it first, 1 to 1024. At the start it is CAUSEWAY_THREADS, or
the number of cores that this process may use: taskset and a container's limits count. Results do not depend on it.]],
  example = "threads()",
}

manual.machine = {
  call = "machine()",
  text = [[What the numbers were made on: a table with processor, cores, threads, simd (what this program was built
for), memory (bytes), system, compiler, eigen, lua, causeway (versions). Results of `sweep` carry it.]],
  example = "machine()",
}

manual.product_rate = {
  call = 'product_rate([n, {dtype = "Float32", seconds = 0.25}])',
  text = [[Floating-point operations a second of Eigen's own n×n×n matrix product (2n³ operations; n = 512), each of
threads() threads busy with a product of its own: the median of repetitions over about so many seconds. The yardstick
for the speed of every method.]],
  example = "product_rate(128) / 1e9",
}

manual.copy_rate = {
  call = "copy_rate(bytes, {seconds = 0.3})",
  text = [[Bytes read and written (2·bytes in all) a second by a copy of so many bytes to another place, by one thread
or all of threads() together, whichever is faster: the fastest of the copies made in `seconds`, at least ten. The
yardstick of what has to move memory.]],
  example = "copy_rate(2^20, {seconds = 0.01}) / 1e9",
}

manual.read_rate = {
  call = "read_rate(bytes, {seconds = 0.3})",
  text = [[Bytes that all of threads() together read in a second of so many bytes: the fastest of the windows of
up to 16 MiB, one behind the other, that are read in `seconds`, at least five. With several times as many bytes as the
last cache holds it is the rate of memory, the yardstick of what reads weights, keys or states once.]],
  example = "read_rate(2^20, {seconds = 0.01}) / 1e9",
}

manual.growth_exponent = {
  call = "growth_exponent(N, time)",
  text = "The p of time ≈ constant · N^p: the slope of the least-squares line of log time on log N. Lists or Tensors.",
  example = "growth_exponent({1024, 2048, 4096}, {0.1, 0.2, 0.4})",
}

manual.summary = {
  call = "summary(values)",
  text = "count, minimum, median, mean, std and maximum of a list of numbers or a Tensor, as a table.",
  example = "summary({3, 1, 4, 1, 5})",
}

manual.sweep = {
  call = 'sweep{grid = {N = {...}, ...}, run = function(p) ... end, save = "results/NAME", order =, timeout =, units '
    .. '=, seed = 1, fresh = false}',
  text = [[Runs a function for every combination of the lists in `grid`, with a progress bar and the time left. `run`
gets a table of parameters (p.N, ...) and returns a number or a table of numbers, strings and booleans under names.

  order    names from the slowest to the fastest varying; the rest follow sorted
  save     folder of the results: each finished row is on the disk before the next point starts, so a sweep that was
           stopped, even by a crash, goes on where it was. At the end NAME.csv and NAME.json, with what made the rows:
           machine, versions, build, seed, command line, script, its commit and whether it was changed (dirty), digests
           of the files loaded
  timeout  seconds a point may take
  units    what columns are, such as {time = "seconds", memory = "bytes"}: tables and pictures show these in the one
           unit that fits; columns called seconds and bytes need none, nor those of btime where run returns its whole
           result (return btime(f)). A number out of it needs one: run returns {median = t.median}, and units is
           {median = "seconds"}
  seed     of the random numbers, set again before every point
  fresh    forget the rows of earlier runs

A point that runs out of memory or time is recorded as OOM or timeout and the sweep goes on; any other error stops it,
and the finished rows stay. Rows whose point is still in a changed grid are kept; rows of another machine or version
too, each naming its origin. Rows of another seed are refused, and so are those of another run: where its code, a
variable or function that it refers to, a method written in Lua or a file that it loads has changed, an error names it
and asks for another name or fresh = true. Random tensors that it refers to are the same in every process and at
the next start if seed(n) comes before them. Comments and the rest of the script may change. What run itself assigns to
(a cache, a counter) is not looked at, nor are files that it reads otherwise than by load. reproduce runs a folder of
results again.

Processes that run the same sweep with the same `save` share its points: the ranks of `./lab mpi N`, or programs started
beside each other, on one machine or on several with a shared disk that keeps locks (NFS). Each point is run once. What
a killed process was at is taken over by the others, or by the next start; after the loss of a whole machine NFS 4 lets
go of its point in about 90 s. Every process returns when all points of its grid are there, the last ones wait for the
others', and all have the same rows. An error of `run` stops the process that met it; the others come to the same point.
With fresh = true the ranks of one job start again together; a program beside others is refused. `run` may not make
calls that all ranks make together (tree_decode); without `save` every rank runs all points, and it may. Times are those
of a machine that the others use too.

Returns the rows, which show themselves as a table, seconds and bytes with one unit a column. Their methods, where a
filter is {name = value}, {name = {value, value}} or a function of the row:

  results:table{columns =}      the table, with the options of text_table
  results:markdown{...}         that table as Markdown, results:latex{...} as LaTeX
  results:column(name, filter)  the values of a column
  results:where(filter)         the rows that fit, which are results too: results:where{N = 128}:plot(...)
  results:pivot(a, b, name)     a wide table of the column `name`, as below; behind them a filter
  results:save(path)            the table as .csv, .html, .md, .tex or .txt
  results:plot(x, y, {by = name, error = name, ...})

pivot makes a line of each value of its first column and a column of each value of its second, with the third in the
cells: results:pivot("N", "type", "sum") of rows {N, type, sum} is

  N   type = Float32  type = Float64
  64              ..              ..
  128             ..              ..]],
  example = [[
grid = {N = {64, 128, 256}, type = {"Float32", "Float64"}}
results = sweep{grid = grid, run = function(p)
  local function total() return randn(p.N, p.N, p.type):sum() end
  return btime(total, {samples = 3, show = false})
end}
results:pivot("N", "type", "median")
print(results:where{type = "Float64"}:markdown())
results]],
}
manual.reproduce = {
  call = "reproduce(path)",
  text = [[Runs the script that made a folder of results of `sweep` once more, with the same arguments, and compares the
rows. The script is the text that is kept with the rows, not the file as it is now; what it reads is read as it is
now. It runs in a program of its own, from the present folder, up to the end of that sweep, whose rows go to PATH-again
(those of earlier runs there are lost), and those of sweeps before it to PATH-again-before. Whatever else the script
writes until then it writes again.

Returns a row for each column, which show themselves as a table: rows that both runs have, how many are equal, the
largest relative difference, and the middle ratio of new to old. Times and memory are expected to differ. An error says
where no script is kept: rows made at the prompt cannot be run again.]],
  example = [[
if io.open("results/tour/rows.jsonl") then
  print(reproduce("results/tour"))
end]],
}

manual.progress = {
  call = "progress(total[, done])",
  text = [[A transient line with a bar, the count, the time gone and the time left: p:show(text), p:step(text) when a
step is done, p:finish() to take it away.]],
  example = "p = progress(3); for i = 1, 3 do p:step() end; p:finish()",
}

manual.benchmark_method = {
  call = "benchmark_method(method, {lengths =, batch = 1, heads = 8, rank = 64, dim = rank, decay =, normalize =, "
    .. "dtype =, repeats =, timeout = 60, methods =, seed = 1, reference =, name =})  "
    .. "benchmark_method{inputs = {q, k, v}, layout = \"bhnd\", methods =, lengths =, decay =, normalize =, ...}",
  text = [[Times a method of causal linear attention over lengths: a registered name, or a function(B, C, V, options)
that returns O, options.decay being nil or a list of one γ per head. Every length is first compared with the Float64
definition: a wrong method shows its error and no time, and a sentence below the table tells where it differs. `methods`
lists others to time beside it; without a method, all registered ones are timed. A function is called "yours" in the
table, or what `name` says; in `methods`, what its key says: methods = {"fleet", mine = f}.

Inputs are normal numbers, or your own tensors: inputs = {q, k, v}, which say the sizes and the type. Their whole length
is measured, or with `lengths` the first tokens; on one length the table also has the error and the memory of each
method. layout = "bnhd" where they are [batch, N, heads, width]; functions get [batch, heads, N, width] all the same.

A rule that is meant to compute something else brings what it is compared with: reference = function(B, C, V, options)
returns O for inputs in Float64, options being those of the method; reference = false compares nothing.
benchmark_update does the same for the updates of linear_attention and its modes.

Shows a table, a line a method and a column a length (mean ± std in milliseconds; OOM and timeout where that is what
happened), and returns the rows: method, N, mean, std, minimum, median, repeats, memory, error, status, and where it is
wrong place, its first wrong entry; with result:plot(), the table's result:markdown() and result:latex(), and
result.origin, the machine, the versions and the seed.

How long it takes: lengths are 128 to 8192, of all methods beside each other 128 to 2048, which is about a quarter of a
minute, while a line says how much of it is left. A call is repeated 15 times, or as often as fits into a second, and at
least 3 times; repeats = n is n times however long. Fewer lengths, methods and repeats make it shorter, and timeout ends
what takes longer at one length.]],
  example = [[
benchmark_method("fleet", {lengths = {64, 128}, heads = 2, rank = 16,
                           repeats = 3, methods = {"vanilla"}})
q, k, v = randn(1, 2, 100, 16), randn(1, 2, 100, 16), randn(1, 2, 100, 16)
benchmark_method{inputs = {q, k, v}, decay = 0.9, repeats = 3}]],
}

manual.benchmark_update = {
  call = "benchmark_update(update, {lengths = {128, 512, 2048}, modes =, updates =, batch = 1, heads = 8, rank = 64, "
    .. "dim = rank, gate = \"head\", chunk =, dtype =, repeats =, timeout = 60, seed = 1})  "
    .. "benchmark_update{inputs = {q, k, v, log_decay =, beta =}, layout = \"bhnd\", updates =, modes =, lengths =, "
    .. "...}",
  text = [[Times the updates of linear_attention beside each other, in each of its modes, over lengths:
benchmark_update() all of them, benchmark_update("gated_delta") one, `updates` and `modes` some. Each is first compared
with the recurrence, token by token in Float64: one that is wrong shows its error and no time.

Inputs are normal numbers, keys of length 1, gates near 1 (log_decay is log(sigmoid(x))/16 of normal x) and beta from 0
to 1; gate = "channel" makes a gate per key channel. Or they are your own tensors, by the names of linear_attention:
inputs = {q, k, v, log_decay = g, beta = beta}, which say the sizes and the type; of updates those are timed whose
inputs are there. lengths are then the first tokens of them.

Shows a table, a line an update and a mode and a column a length (mean ± std in milliseconds), and returns the rows:
update, mode, method (both), N, mean, std, minimum, median, repeats, memory, error and status. The value has what that
of benchmark_method has, which also says how often a call is repeated. A rule made by recurrence is timed by
benchmark_method(rule, options).]],
  example = [[
benchmark_update("gated_delta", {lengths = {64, 128}, heads = 2, rank = 16,
                                 repeats = 3})
q, k, v = randn(1, 2, 100, 16), randn(1, 2, 100, 16), randn(1, 2, 100, 16)
benchmark_update{inputs = {q, l2norm(k), v, beta = rand(1, 2, 100)},
                 modes = {"recurrent", "chunkwise"}, repeats = 3}]],
}

manual.causal_oracle = {
  call = "causal_oracle(B, C, V, {decay =, normalize =, scale =, layout =})",
  text = "Causal linear attention by its definition, in Float64: what methods are compared with. It takes "
    .. "arguments by name too, causal_oracle{q = q, k = k, v = v}.",
  example = "q = randn(1, 1, 8, 4); causal_oracle(q, q, q)",
}

manual.relative_error = {
  call = "relative_error(A, reference)",
  text = "max |A - reference| / max |reference|, in Float64; NaN where A has a NaN or an infinity.",
  example = "relative_error(f16(ones(2, 2) / 3), ones(2, 2) / 3)",
}

manual.isapprox = {
  call = "isapprox(A, B, {rtol =, atol =})",
  text = [[Whether A and B, tensors of the same sizes or numbers, are near: norm(A - B) <= max(atol, rtol max(norm(A),
norm(B))), in Float64. atol is 0 by default; rtol is 0 where atol is given, else the square root of the spacing of
numbers at 1 in the less precise type, 3.5e-4 in Float32 and 1.5e-8 in Float64. A number stands for a tensor of it. What
has a NaN is near nothing. A == B asks for equal elements, relative_error for the largest difference.]],
  example = "A = randn(64, 64)\nisapprox(A * 1.00001, A)\nisapprox(A, f16(A), {rtol = 1e-6})",
}

manual.text_table = {
  call = "text_table(rows, {columns =, title =, note =, most =, leading = 1})",
  text = [[A table of results from a list of tables. It shows itself aligned, in a page as HTML; t[1] is its first row,
#t their number.

  columns  a list of keys, or of tables with key and, where wanted, title, unit, digits, format, align, and link, a
           function of the row that gives the address to which its cell leads on a page
  title    a line above; in titles, of columns too, a formula stands between dollar signs: "$c_N$"
  note     a line below
  most     rows shown; the middle ones are left out past it
  leading  columns repeated where a table that is too wide for the terminal goes on below itself

All numbers of a column have as many decimals as give the middle one of them `digits` significant digits. With unit =
"seconds" or "bytes" they also share the unit that fits it, which the header names (ms, MiB); any other unit only stands
in the header. A format such as "%.2f", or a function(value, row), writes each cell by itself.

The methods t:text(), t:html(), t:markdown() (as GitHub reads it), t:latex() (with the package booktabs) and t:csv()
return texts; t:save("x.csv"), .html, .md, .tex or .txt writes a file.]],
  example = [[
rows = {{method = "fleet", time = 1.5e-3}, {method = "row", time = "OOM"}}
columns = {"method", {key = "time", unit = "seconds"}}
print(text_table(rows, {columns = columns}):latex())]],
}

manual.show_table = {
  call = "show_table(rows, options)",
  text = "Shows a table of results, rows or columns {N = {1, 2}}, and returns it; see text_table.",
  example = "show_table({{N = 128, time = 0.5}, {N = 256, time = 1.1}})",
}

manual.report = {
  call = 'report{title =, save = "x.html", data =, copy =, part, ...}',
  text = [[A page of HTML that stands alone, from parts: texts, {heading = TEXT}, {code = TEXT}, tables, pictures and
any value that shows itself. Returns the page, whose HTML is page.html; `save` writes it, as does page:save("x.html").
A heading with level = 3 stands below the one before it, outside the contents, and one with id = NAME is where #NAME
leads. With copy = true tables can be copied as CSV, Markdown and LaTeX, by a script in the page.

The page begins with its contents and ends with the command that made it and with links to `data`, a file or a list of
files. An empty line in a text begins a paragraph. Below each heading, tables of more than 10 rows stand behind the
texts and pictures, and of more than 20 are folded, unless given as {open = TABLE}; a heading with nothing below it is
left out.]],
  example = 'page = report{title = "A result", "Text.", text_table({{N = 1}})}\nprint(#page > 0)',
}

manual.number_text = {
  call = "number_text(x[, digits])",
  text = "A number with 4 (or `digits`) significant digits, without an exponent where it can be read without one.",
  example = "number_text(0.0012345)",
}

manual.seconds_text = {
  call = "seconds_text(s)",
  text = "Seconds with the unit that fits.",
  example = "seconds_text(0.00123)",
}

manual.bytes_text = {
  call = "bytes_text(n)",
  text = "Bytes with the unit that fits.",
  example = "bytes_text(3 * 1024 * 1024)",
}
